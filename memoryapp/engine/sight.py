"""Sight: the projects whose rows the code at hand sees, and the one that what it writes belongs to.

It is set once, where a token, an operator or a run begins something, and holds for everything that this calls, also in
threads and tasks. Nothing asks for it: while it is limited, the database itself shows no row beyond it (see
``platform.sights``). What is common to all projects has the empty label."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

COMMON = ""
LONGEST = 64
MOST_PROJECTS = 100


class OutOfSight(Exception):
    """A project was named that the actor may not see, or none where one has to be; ``projects`` are those to choose
    from."""

    def __init__(self, projects: Collection[str]) -> None:
        super().__init__(", ".join(sorted(projects)))


@dataclass(frozen=True, slots=True)
class Sight:
    """``projects`` are the labels of the rows that are seen, the common ones among them as ``COMMON``; None for all.
    What is written gets the label ``into``."""

    projects: frozenset[str] | None = None
    into: str = COMMON

    @property
    def own(self) -> frozenset[str]:
        """The projects of a limited actor."""
        return (self.projects or frozenset()) - {COMMON}

    def shows(self, project: str) -> bool:
        return self.projects is None or project in self.projects

    def within(self, project: str) -> "Sight":
        """The sight of one project and of what is common. A limited actor with one project need not name it. Raises
        OutOfSight."""
        if self.projects is not None:
            project = project or (next(iter(self.own)) if len(self.own) == 1 else "")
            if project not in self.own:
                raise OutOfSight(self.own)
        return Sight(frozenset((COMMON, project)), project) if project else EVERYTHING


EVERYTHING = Sight()
_present = ContextVar("sight", default=EVERYTHING)


def sight() -> Sight:
    return _present.get()


def limited_to(projects: Collection[str] | None) -> Sight:
    """The sight of an actor who may see these projects, and what is common; None for all."""
    if projects is None:
        return EVERYTHING
    own = frozenset(projects) - {COMMON}
    return Sight(own | {COMMON}, next(iter(own)) if len(own) == 1 else COMMON)


def look(seen: Sight) -> None:
    """Sets the sight until the request ends, which ``looking`` encloses."""
    _present.set(seen)


@contextmanager
def looking(seen: Sight = EVERYTHING) -> Iterator[None]:
    before = _present.get()
    _present.set(seen)
    try:
        yield
    finally:
        _present.set(before)


def into() -> str:
    """The label of new rows; the default of their columns."""
    return _present.get().into


def as_project(text: str) -> str:
    """The label as it is stored: one line, without blanks around it. Raises ValueError for one that is too long."""
    label = " ".join(text.split())
    if len(label) > LONGEST or not label.isprintable():
        raise ValueError(f"a project's name has at most {LONGEST} characters")
    return label
