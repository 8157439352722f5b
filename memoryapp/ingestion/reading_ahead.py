"""An iterator that works in a thread of its own, ahead of whoever takes its items.

Reading a file takes about as long as storing it, and while the database stores, this process only waits.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from typing import TypeVar

from django.utils.translation import get_language, override

# Items handed over at once, and how many such lists may wait: while the database stores a batch of messages
# (``ingestion.messages.BATCH``), the next one is read.
AT_ONCE = 500
MOST_WAITING = 12
# Seconds after which a thread that computes lets another go on that got its answer from the database. At Python's
# own 5 ms a batch waits some dozen times so long for the reader. It stays so for the process: of several imports at
# once none knows whether it is the last, and all else in a worker waits for the database likewise.
TURN = 0.0005

Item = TypeVar("Item")
Chunk = list[Item] | BaseException | None


@contextmanager
def read_ahead(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[Iterator[Item]]:
    """The items, read in a thread that ends with the block; at most ``most`` of ``size`` go into a list.

    What reading raises is raised where the item would have come.
    """
    sys.setswitchinterval(TURN)
    chunks: Queue[Chunk[Item]] = Queue(MOST_WAITING)
    stopped = threading.Event()
    given = (items, size, most, chunks, stopped, get_language())
    thread = threading.Thread(target=_read, args=given, name="reading ahead", daemon=True)
    thread.start()
    try:
        yield _taken(chunks)
    finally:
        stopped.set()
        while thread.is_alive():
            _empty(chunks)
            thread.join(0.01)


def _read(
    items: Iterable[Item],
    size: Callable[[Item], int],
    most: int,
    chunks: Queue[Chunk[Item]],
    stopped: threading.Event,
    language: str | None,
) -> None:
    try:
        with override(language):
            for chunk in _cut(items, size, most):
                chunks.put(chunk)
                if stopped.is_set():
                    return
        chunks.put(None)
    except BaseException as error:  # noqa: BLE001 it is raised where the item would have come
        chunks.put(error)
    finally:
        if isinstance(items, Generator):
            items.close()


def _cut(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if len(chunk) >= AT_ONCE or total >= most:
            yield chunk
            chunk, total = [], 0
    yield chunk


def _taken(chunks: Queue[Chunk[Item]]) -> Iterator[Item]:
    while (chunk := chunks.get()) is not None:
        if isinstance(chunk, BaseException):
            raise chunk
        yield from chunk


def _empty(chunks: Queue[Chunk[Item]]) -> None:
    """Room for a reader that waits for it."""
    try:
        while True:
            chunks.get_nowait()
    except Empty:
        return
