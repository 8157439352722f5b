"""Reads items in a thread of its own, ahead of their consumer.

Reading a file takes about as long as storing it, and while the database stores, this process would only wait.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from typing import TypeVar

from django.utils.translation import get_language, override

from memoryapp.importers.patience import ASK_SECONDS, Patience

# Items in a chunk, and how many chunks may wait. While the database stores a batch of messages
# (``ingestion.messages.BATCH``), the next one is read.
AT_ONCE = 500
MOST_WAITING = 12
# Seconds after which a computing thread lets another one continue that has received its answer from the database. With
# Python's default of 5 ms, a batch waits some dozen times that long for the reader. The value stays set in the process:
# no import knows whether others still run, and other work of a worker waits for the database, too.
TURN = 0.0005

Item = TypeVar("Item")
Chunk = list[Item] | BaseException | None


@contextmanager
def read_ahead(
    items: Iterable[Item], size: Callable[[Item], int], most: int, patience: Patience
) -> Iterator[Iterator[Item]]:
    """Yields an iterator over the items, which a thread reads until the block ends.

    A chunk ends when its items have ``most`` of ``size`` together. An error of the thread is raised in place of the
    item. While the consumer waits for an item, it asks whether the file is still wanted; the end of the block stops the
    thread through its ``patience``.
    """
    sys.setswitchinterval(TURN)
    chunks: Queue[Chunk[Item]] = Queue(MOST_WAITING)
    stopped = threading.Event()
    given = (items, size, most, chunks, stopped, get_language())
    thread = threading.Thread(target=_read, args=given, name="reading ahead", daemon=True)
    thread.start()
    try:
        yield _items_of(chunks, patience)
    finally:
        stopped.set()
        patience.stop()
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


def _items_of(chunks: Queue[Chunk[Item]], patience: Patience) -> Iterator[Item]:
    while (chunk := _next(chunks, patience)) is not None:
        if isinstance(chunk, BaseException):
            raise chunk
        yield from chunk


def _next(chunks: Queue[Chunk[Item]], patience: Patience) -> Chunk[Item]:
    while True:
        with suppress(Empty):
            return chunks.get(timeout=ASK_SECONDS)
        patience.still_wanted()


def _empty(chunks: Queue[Chunk[Item]]) -> None:
    """Removes all chunks, so that a reader that waits for a free place continues."""
    try:
        while True:
            chunks.get_nowait()
    except Empty:
        return
