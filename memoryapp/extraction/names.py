"""Matches people by their exact name, by an alias, or by the beginning of their name within the same circle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryapp.extraction.meanings import folded


@dataclass(frozen=True, slots=True)
class PersonNames:
    """The folded names of a person; ``row`` is the person's number, ``finding`` that of a finding that waits."""

    name: str
    aliases: frozenset[str]
    username: str
    circle: str
    row: int | None = None
    finding: int | None = None

    @property
    def names(self) -> frozenset[str]:
        return self.aliases | {self.name}


def named(name: str, aliases: Iterable[object], username: str, circle: str, **whose: int | None) -> PersonNames:
    others = frozenset(folded(str(alias)) for alias in aliases) - {""}
    return PersonNames(folded(name), others, folded(username), circle, **whose)


def matching(someone: PersonNames, known: Sequence[PersonNames]) -> list[PersonNames]:
    """Returns the ``known`` people who match, by the first of the three ways that finds any; several if ambiguous."""
    exact = [each for each in known if each.name == someone.name or someone.username and _same_user(each, someone)]
    if exact:
        return exact
    by_alias = [each for each in known if each.names & someone.names]
    if by_alias:
        return by_alias
    return [each for each in known if each.circle == someone.circle and _begins(each.name, someone.name)]


def _same_user(one: PersonNames, other: PersonNames) -> bool:
    return one.username == other.username


def _begins(one: str, other: str) -> bool:
    """Whether the longer name begins with the words of the shorter one: ``anna`` and ``anna petrova``."""
    shorter, longer = sorted((one.split(), other.split()), key=len)
    return bool(shorter) and len(shorter) < len(longer) and longer[: len(shorter)] == shorter
