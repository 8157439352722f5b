"""Work that is cancelled at a chosen one of its awaits."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class CancelledAt:
    """Await it to run the work, which is cancelled at its await number ``place``, once or twice. ``late`` cancels in
    the turn of the loop in which the awaited result arrives."""

    def __init__(self, work: Coroutine[Any, Any, Any], place: int, *, late: bool, twice: bool) -> None:
        self._work = work
        self._places = {place, place + 1} if twice else {place}
        self._late = late
        self.reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task
        steps, seen = self._work.__await__(), 0
        send: Callable[[Any], Any] = steps.send
        given: Any = None
        while True:
            try:
                awaited = send(given)
            except StopIteration as ended:
                return ended.value
            if seen in self._places:
                self.reached = True
                if self._late and awaited is not None:
                    awaited.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            seen += 1
            try:
                send, given = steps.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - it is handed on to the work
                send, given = steps.throw, error


async def cancelled_at(work: Coroutine[Any, Any, Any], place: int, *, late: bool = False, twice: bool = False) -> bool:
    """Returns whether the work reached that await and was cancelled there; raises what it raises by itself."""
    cut = CancelledAt(work, place, late=late, twice=twice)

    async def run() -> None:
        await cut

    (ended,), _ = await asyncio.wait([asyncio.create_task(run())])
    if not ended.cancelled():
        ended.result()
    return cut.reached
