"""How long a file may be read, and whether anybody still waits for it.

A file comes from strangers and may be made to be read without an end. Whatever reads one calls ``check`` at every
piece, so that reading ends after a time that its size allows, and soon after a person discards the file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from memoryapp.importers.record import UnreadableFile

# Seconds of processor time in which a reader has to yield something, and one more for each of these bytes that it read.
# It is not time on the clock, because a busy machine is no fault of the file.
FIRST_SECONDS = 60.0
BYTES_A_SECOND = 200_000
# Seconds between the questions whether the file is still wanted.
ASK_SECONDS = 0.5

Item = TypeVar("Item")


class Unwanted(Exception):
    """Nobody waits for the file any longer."""


@dataclass(slots=True)
class Patience:
    """``ask`` raises an exception when the file is no longer wanted. It is called in the thread that made this, which
    may wait for a reader in another thread; that one then ends with Unwanted.

    ``too_long`` returns the error of a file on which all time was spent.
    """

    ask: Callable[[], None] = lambda: None
    too_long: Callable[[], UnreadableFile] = UnreadableFile
    _owner: int = field(default_factory=threading.get_ident)
    _asked: float = 0.0
    _is_stopped: bool = False
    _reader: int = 0
    _began: float = 0.0
    _bytes: int = 0

    def begin(self) -> None:
        """Begins to read; nobody has stopped it yet."""
        self._is_stopped = False
        self.renew()

    def renew(self) -> None:
        """Gives the reader, which is the calling thread, its whole time again."""
        self._reader, self._began, self._bytes = threading.get_ident(), time.thread_time(), 0

    def stop(self) -> None:
        """Lets a reader in another thread end at its next piece."""
        self._is_stopped = True

    def check(self, read: int = 0) -> None:
        """Counts ``read`` more bytes. Raises Unwanted, UnreadableFile, and what ``ask`` raises."""
        if self._is_stopped:
            raise Unwanted
        self.still_wanted()
        if threading.get_ident() != self._reader:
            self.renew()
        self._bytes += read
        if time.thread_time() - self._began > FIRST_SECONDS + self._bytes / BYTES_A_SECOND:
            raise self.too_long()

    def still_wanted(self) -> None:
        """Asks, but not too often and only in the thread that made this. Raises what ``ask`` raises."""
        if threading.get_ident() == self._owner and time.monotonic() - self._asked >= ASK_SECONDS:
            self._asked = time.monotonic()
            self.ask()

    def for_each(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Yields the items; the reader has its whole time for each of them."""
        self.renew()
        for item in items:
            yield item
            self.renew()
