"""MatchingPeople people by their exact name, by an alias, or by the beginning of their name within the same circle.

Names need not be unique: somebody whose circle or username contradicts that of a known person of the same name may be
a namesake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memoryapp.extraction.meanings import folded
from memoryapp.models import Person


@dataclass(frozen=True, slots=True)
class PersonNames:
    """The folded names of a person; ``row`` is the person's number, ``finding`` that of a finding that waits.

    ``usernames`` and ``circles`` contain the person's own, and those of others of whom somebody decided that they are
    this person; a circle that says nothing is left out.
    """

    name: str
    aliases: frozenset[str]
    usernames: frozenset[str]
    circles: frozenset[str]
    row: int | None = None
    finding: int | None = None

    @property
    def names(self) -> frozenset[str]:
        return self.aliases | {self.name}

    def contradicts(self, other: PersonNames) -> bool:
        """Whether these are two people, as far as usernames and circles say: a shared username outweighs a circle."""
        if self.usernames and other.usernames:
            return self.usernames.isdisjoint(other.usernames)
        return bool(self.circles and other.circles) and self.circles.isdisjoint(other.circles)

    def agrees(self, other: PersonNames) -> bool:
        """Whether a username, or else a circle, says that these are one person."""
        if self.usernames and other.usernames:
            return not self.usernames.isdisjoint(other.usernames)
        return not self.circles.isdisjoint(other.circles)


@dataclass(frozen=True, slots=True)
class MatchingPeople:
    """The known people who may be meant: none, one, or several. If ``is_doubtful``, somebody must decide even about
    one, because everything except the name speaks against it."""

    people: list[PersonNames] = field(default_factory=list)
    is_doubtful: bool = False


def named(name: str, aliases: Iterable[object], username: str, circle: str, **whose: int | None) -> PersonNames:
    others = frozenset(folded(str(alias)) for alias in aliases) - {""}
    return PersonNames(
        folded(name),
        others,
        frozenset({folded(username)}) - {""},
        frozenset({circle}) - {"", Person.Circle.OTHER},
        **whose,
    )


def matching(someone: PersonNames, known: Sequence[PersonNames]) -> MatchingPeople:
    """Returns the ``known`` people who match, by the first of the four ways that finds any: by username, by exact name,
    by an alias, by the beginning of the name."""
    users = [each for each in known if each.usernames & someone.usernames]
    if users:
        return MatchingPeople(users)
    exact = [each for each in known if each.name == someone.name]
    if any(not each.contradicts(someone) for each in exact):
        return MatchingPeople(_likeliest(someone, exact))
    shared = [each for each in known if each.names & someone.names]
    if shared:
        return _by_alias(someone, shared, bool(exact))
    return MatchingPeople([each for each in known if _is_prefix(someone, each)])


def _likeliest(someone: PersonNames, known: Iterable[PersonNames]) -> list[PersonNames]:
    """Those who do not contradict; the only one who agrees, if there is one."""
    possible = [each for each in known if not each.contradicts(someone)]
    agreeing = [each for each in possible if each.agrees(someone)]
    return agreeing if len(agreeing) == 1 else possible


def _by_alias(someone: PersonNames, shared: list[PersonNames], has_namesake: bool) -> MatchingPeople:
    """Those who share a name. If a namesake contradicts, an alias is not enough: the other one has to agree."""
    likely = _likeliest(someone, shared)
    if likely and (not has_namesake or len(likely) == 1 and likely[0].agrees(someone)):
        return MatchingPeople(likely)
    return MatchingPeople(shared, is_doubtful=True)


def _is_prefix(someone: PersonNames, known: PersonNames) -> bool:
    if not _begins(known.name, someone.name) or known.contradicts(someone):
        return False
    return known.circles == someone.circles or not known.circles.isdisjoint(someone.circles)


def _begins(one: str, other: str) -> bool:
    """Whether the longer name begins with the words of the shorter one: ``anna`` and ``anna petrova``."""
    shorter, longer = sorted((one.split(), other.split()), key=len)
    return bool(shorter) and len(shorter) < len(longer) and longer[: len(shorter)] == shorter
