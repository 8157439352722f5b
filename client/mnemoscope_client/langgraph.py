"""A memory as a store of LangGraph; needs the extra ``langgraph``.

What its methods have to do is described in ``langgraph.store.base``; ``InMemoryStore`` is what the tests compare with.
"""

import asyncio
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from mnemoscope_client import calls
from mnemoscope_client.aio import AsyncMnemoscope
from mnemoscope_client.calls import Call
from mnemoscope_client.client import Mnemoscope
from mnemoscope_client.errors import MnemoscopeError, NotFoundError
from mnemoscope_client.sending import named
from mnemoscope_client.shapes import FoundItems, FoundNamespaces, MemoryItem

# Items of a request, and items or namespaces of an answer.
MOST_A_CALL = 1_000
LONGEST_PAGE = 200

Listed = TypeVar("Listed")
Namespace = tuple[str, ...]
# Yields requests, is sent their answers (None if the chat user does not exist), and returns the results.
Steps = Generator[Call[Any], Any, list[Result]]


class MnemoscopeStore(BaseStore):
    """Items of a chat user, kept by Mnemoscope: they are exported, backed up and erased with the memory.

    All namespaces belong to one chat user, ``user`` or that of the client; or ``user_at`` is the place of the label
    that names the chat user: 1 for ``("memories", "anna")``. ``fields`` are the paths that a search by meaning
    compares, by default all texts of a value; ``index`` of a ``put`` goes before it. ``client`` serves the methods that
    wait and ``async_client`` those that are awaited; without the latter, ``client`` serves them in a thread.

    Items of an earlier state are read before those of the same batch are written. Raises MnemoscopeError.
    """

    supports_ttl = False

    def __init__(
        self,
        client: Mnemoscope | None = None,
        async_client: AsyncMnemoscope | None = None,
        *,
        user: str | None = None,
        user_at: int | None = None,
        fields: Sequence[str] | None = None,
    ) -> None:
        self.client = client
        self.async_client = async_client
        self.user = user or getattr(client or async_client, "user", None)
        self.user_at = user_at
        self.fields = fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes the operations; see ``langgraph.store.base``."""
        if self.client is None:
            raise MnemoscopeError("This store has no client for calls without an event loop.")
        steps = self._steps(list(ops))
        try:
            call = next(steps)
            while True:
                call = steps.send(_or_none(self.client, call))
        except StopIteration as end:
            return _results(end)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes the operations; see ``langgraph.store.base``."""
        if self.async_client is None:
            return await asyncio.to_thread(self.batch, ops)
        steps = self._steps(list(ops))
        try:
            call = next(steps)
            while True:
                call = steps.send(await _awaited_or_none(self.async_client, call))
        except StopIteration as end:
            return _results(end)

    def _steps(self, ops: Sequence[Op]) -> Steps:
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(ops)
        yield from self._gets(ops, results)
        for place, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[place] = yield from self._found(op)
            elif isinstance(op, ListNamespacesOp):
                results[place] = yield from self._namespaces(op)
        yield from self._puts(ops)
        return results

    def _gets(self, ops: Sequence[Op], results: list[Result]) -> Generator[Call[Any], Any, None]:
        wanted: dict[str, list[tuple[int, GetOp]]] = {}
        for place, op in enumerate(ops):
            if isinstance(op, GetOp):
                wanted.setdefault(self._user(op.namespace), []).append((place, op))
        for user, listed in wanted.items():
            for part in _parts(listed):
                names = dict.fromkeys((op.namespace, op.key) for _place, op in part)
                answer: FoundItems | None = yield calls.read_items(user, list(names))
                found = {(item.namespace, item.key): item for item in answer.items} if answer else {}
                for place, op in part:
                    item = found.get((op.namespace, op.key))
                    results[place] = None if item is None else _item(item)

    def _found(self, op: SearchOp) -> Generator[Call[Any], Any, list[SearchItem]]:
        user, found = self._user(op.namespace_prefix), list[SearchItem]()
        while len(found) < op.limit:
            page = min(LONGEST_PAGE, op.limit - len(found))
            offset = op.offset + len(found)
            answer: FoundItems | None = yield calls.search_items(
                user, op.namespace_prefix, op.query, op.filter, page, offset
            )
            items = answer.items if answer else ()
            found += map(_search_item, items)
            if len(items) < page:
                break
        return found

    def _namespaces(self, op: ListNamespacesOp) -> Generator[Call[Any], Any, list[Namespace]]:
        conditions = [(each.match_type, each.path) for each in op.match_conditions or ()]
        prefixes = [path for kind, path in conditions if kind == "prefix"]
        user, found = self._user(max(prefixes, key=len, default=())), list[Namespace]()
        while len(found) < op.limit:
            page = min(LONGEST_PAGE, op.limit - len(found))
            offset = op.offset + len(found)
            answer: FoundNamespaces | None = yield calls.namespaces(user, conditions, op.max_depth, page, offset)
            listed = answer.namespaces if answer else ()
            found += listed
            if len(listed) < page:
                break
        return found

    def _puts(self, ops: Sequence[Op]) -> Generator[Call[Any], Any, None]:
        written: dict[str, dict[tuple[Namespace, str], PutOp]] = {}
        for op in ops:
            if isinstance(op, PutOp):
                if op.ttl is not None:
                    raise NotImplementedError("Mnemoscope's items do not expire: put them without ttl.")
                written.setdefault(self._user(op.namespace), {})[op.namespace, op.key] = op
        for user, last in written.items():
            for part in _parts(list(last.values())):
                yield calls.write_items(user, [self._written(op) for op in part])

    def _written(self, op: PutOp) -> dict[str, Any]:
        value = None if op.value is None else dict(op.value)
        text = None if value is None else self._text(value, op.index)
        searched = {} if text is None else {"text": text}
        return {"namespace": list(op.namespace), "key": op.key, "value": value, **searched}

    def _text(self, value: Mapping[str, Any], index: bool | Sequence[str] | None) -> str | None:
        """Returns what a search compares; None for all texts of the value."""
        if index is False:
            return ""
        paths = self.fields if index is None or index is True else index
        if paths is None:
            return None
        return "\n".join(text for path in paths for text in get_text_at_path(dict(value), path))

    def _user(self, namespace: tuple[str, ...]) -> str:
        if self.user_at is None:
            return named(None, self.user)
        if len(namespace) <= self.user_at or namespace[self.user_at] == "*":
            raise InvalidNamespaceError(f"Label {self.user_at} of the namespace names the chat user; got {namespace}.")
        return namespace[self.user_at]


def _results(end: StopIteration) -> list[Result]:
    results: list[Result] = end.value
    return results


def _or_none(client: Mnemoscope, call: Call[Any]) -> Any:
    """Returns the answer; None if a chat user who does not exist yet is asked for items."""
    try:
        return client.send(call)
    except NotFoundError:
        if call.operation == calls.WRITING:
            raise
        return None


async def _awaited_or_none(client: AsyncMnemoscope, call: Call[Any]) -> Any:
    try:
        return await client.send(call)
    except NotFoundError:
        if call.operation == calls.WRITING:
            raise
        return None


def _parts(listed: list[Listed]) -> Iterator[list[Listed]]:
    for first in range(0, len(listed), MOST_A_CALL):
        yield listed[first : first + MOST_A_CALL]


def _item(item: MemoryItem) -> Item:
    return Item(
        value=item.value, key=item.key, namespace=item.namespace, created_at=item.created_at, updated_at=item.updated_at
    )


def _search_item(item: MemoryItem) -> SearchItem:
    return SearchItem(
        namespace=item.namespace,
        key=item.key,
        value=item.value,
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=item.score,
    )
