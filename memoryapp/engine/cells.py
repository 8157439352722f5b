"""The cell of the memory at hand: a schema of the database with all rows of some memories, and of no other.

Cell 0 is the schema with the tables that all memories share; where there is one cell, there is no other. Nothing asks
for the cell: it is set where a request, a task or a command has found whose memory it works on, and holds for
everything that this calls, also in threads and tasks (see ``platform.cells``).

The address of a row says in which cell it was made: numbers of the cell k begin at k · 10¹², and the ids of its runs
are UUIDs of version 8 that end with k. A memory that was moved keeps its addresses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID, uuid4

NUMBERS = 10**12
MOST_CELLS = 1000
# The bits of an id that say its version, and this one.
_VERSION, _OURS = 0xF << 76, 8 << 76
_present: ContextVar[int | None] = ContextVar("cell", default=None)


def cell() -> int | None:
    """The cell at hand; None where no memory is."""
    return _present.get()


def enter(number: int | None) -> None:
    """Sets the cell until the request ends, which ``within`` encloses."""
    _present.set(number)


@contextmanager
def within(number: int | None) -> Iterator[None]:
    before = _present.get()
    _present.set(number)
    try:
        yield
    finally:
        _present.set(before)


def made_in(address: int | UUID) -> int:
    """The cell in which the row of this number or id was made."""
    if isinstance(address, UUID):
        return address.int % 2**16 if address.int & _VERSION == _OURS else 0
    return min(max(address, 0) // NUMBERS, MOST_CELLS)


def run_id() -> UUID:
    """A new id for a run of the cell at hand."""
    number, made = cell() or 0, uuid4()
    return UUID(int=made.int & ~_VERSION & ~0xFFFF | _OURS | number) if number else made
