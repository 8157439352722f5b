"""Decides whether a found person is known, waits for a decision, or is new.

Known people only gain: more names, a username or a circle if they have none, and a line of biography. Mentions are
counted for each person in the memory. What somebody deleted, renamed or rejected does not come back. Somebody with a
known name whose circle or username contradicts may be a namesake, and waits for a decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from django.db.models import Count, Max, Min

from memoryapp.curation import knowledge
from memoryapp.curation.extraction import findings
from memoryapp.curation.extraction.statements import folded
from memoryapp.curation.knowledge.writing import MOST_ENTRIES
from memoryapp.engine.agents.archivist import FoundPerson
from memoryapp.models import ChatUser, Finding, FindingMessage, KnowledgeEdit, Person

# MatchingPeople people by their exact name, by an alias, or by the beginning of their name within the same circle.
#
# Names need not be unique: somebody whose circle or username contradicts that of a known person of the same name may
# be a namesake.


@dataclass(frozen=True, slots=True)
class PersonNames:
    """The folded names of a person; ``row`` is the person's number, ``finding`` that of a finding that waits.
    ``usernames`` and ``circles`` contain the person's own, and those of others of whom somebody decided that they are
    this person; a circle that says nothing is left out."""

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
        # If a namesake contradicts, an alias is not enough: the other one has to agree.
        likely = _likeliest(someone, shared)
        if likely and (not exact or len(likely) == 1 and likely[0].agrees(someone)):
            return MatchingPeople(likely)
        return MatchingPeople(shared, is_doubtful=True)
    return MatchingPeople([each for each in known if _is_prefix(someone, each)])


def _likeliest(someone: PersonNames, known: Iterable[PersonNames]) -> list[PersonNames]:
    """Those who do not contradict; the only one who agrees, if there is one."""
    possible = [each for each in known if not each.contradicts(someone)]
    agreeing = [each for each in possible if each.agrees(someone)]
    return agreeing if len(agreeing) == 1 else possible


def _is_prefix(someone: PersonNames, known: PersonNames) -> bool:
    if not _begins(known.name, someone.name) or known.contradicts(someone):
        return False
    return known.circles == someone.circles or not known.circles.isdisjoint(someone.circles)


def _begins(one: str, other: str) -> bool:
    """Whether the longer name begins with the words of the shorter one: ``anna`` and ``anna petrova``."""
    shorter, longer = sorted((one.split(), other.split()), key=len)
    return bool(shorter) and len(shorter) < len(longer) and longer[: len(shorter)] == shorter


NOUN = KnowledgeEdit.Noun.PERSON
# A biography does not grow beyond this.
MOST_BIO_CHARS = 4_000
_MOST_ALIKE = 5


class KnownPeople:
    """The people with whom a found person is compared, read in the transaction that stores the findings."""

    def __init__(self, owner: ChatUser) -> None:
        self._owner = owner
        decided = _decided(owner)
        self._people = [*(_with(each, decided[each.row or 0]) for each in _rows(owner)), *_waiting(owner)]
        self._former = list(_former(owner))
        self._lost = _lost_names(owner)

    def place(self, reading: findings.Reading, found: FoundPerson) -> None:
        someone = named(found.name, found.aliases, found.username, found.circle)
        them = self._them(someone)
        former = [each for each in self._former if each.names & someone.names]
        if len(them.people) == 1 and not them.is_doubtful:
            self._recognise(reading, found, them.people[0])
        elif them.people and not them.is_doubtful or all(each.contradicts(someone) for each in former):
            self._put(reading, found, them.people, is_sure=not (them.people or former))

    def _them(self, someone: PersonNames) -> MatchingPeople:
        """Returns the people who may be meant; if no current name matches, those who lost such a name."""
        found = matching(someone, self._people)
        if found.people:
            return found
        lost = [each for each in self._people if self._lost.get(each.row or 0, frozenset()) & someone.names]
        return MatchingPeople(lost, is_doubtful=any(each.contradicts(someone) for each in lost))

    def _recognise(self, reading: findings.Reading, found: FoundPerson, them: PersonNames) -> None:
        if them.row is None:
            _add_to_waiting(Finding.objects.get(pk=them.finding or 0), found)
            return
        person = Person.objects.get(owner=reading.owner, pk=them.row)
        more = self._additions(person, found)
        if not more:
            findings.put_confirmed(reading, NOUN, person.pk, found.messages)
        elif reading.may_use_person(
            more, found.messages, [person.display_name, *person.aliases]
        ) and findings.is_machine_made(reading.owner, NOUN, person.pk):
            edit = knowledge.edit(
                reading.owner, person, grown(person, more), actor=findings.ARCHIVIST, call=reading.call
            )
            findings.put_confirmed(reading, NOUN, person.pk, found.messages, edit, values=more)
            is_now = _with(_named(person), [them])
            self._people = [*(each for each in self._people if each is not them), is_now]
        elif waiting := Finding.objects.filter(
            owner=reading.owner, noun=NOUN, state=Finding.State.WAITING, target=person.pk
        ).first():
            _add_to_waiting(waiting, found, [person.display_name, *person.aliases])
        else:
            findings.put_waiting(reading, NOUN, more, found.messages, target=person.pk, alike=[person.pk])
        count_mentions(self._owner, [person.pk])

    def _put(self, reading: findings.Reading, found: FoundPerson, alike: list[PersonNames], *, is_sure: bool) -> None:
        """Stores a new person; if it may be one of the people ``alike``, or one who was deleted, somebody must
        decide."""
        values: dict[str, Any] = {"display_name": found.name, "aliases": list(found.aliases)}
        values |= {"username": found.username, "circle": found.circle, "bio": found.bio}
        if reading.may_use_person(values, found.messages) and is_sure:
            edit = knowledge.create(reading.owner, NOUN, values, actor=findings.ARCHIVIST, call=reading.call)
            row = knowledge.number_made(edit)
            findings.put_confirmed(reading, NOUN, row, found.messages, edit, values=values)
            self._people.append(named(found.name, found.aliases, found.username, found.circle, row=row))
            count_mentions(self._owner, [row])
            return
        rows = [each.row for each in alike if each.row is not None][:_MOST_ALIKE]
        waiting = findings.put_waiting(reading, NOUN, values, found.messages, alike=rows)
        self._people.append(named(found.name, found.aliases, found.username, found.circle, finding=waiting.pk))

    def _additions(self, person: Person, found: FoundPerson) -> dict[str, Any]:
        """Returns the values that are new, without those that somebody removed or rejected."""
        refused = self._lost.get(person.pk, frozenset()) | {folded(person.display_name)}
        known = {folded(str(alias)) for alias in person.aliases} | refused
        names = [name for name in (found.name, *found.aliases) if folded(name) not in known]
        more: dict[str, Any] = {}
        if names and len(person.aliases) + len(names) <= MOST_ENTRIES:
            more["aliases"] = list(dict.fromkeys(names))
        if found.username and not person.username and folded(found.username) not in refused:
            more["username"] = found.username
        if found.circle != Person.Circle.OTHER and person.circle == Person.Circle.OTHER:
            more |= {} if folded(found.circle) in refused else {"circle": found.circle}
        if _bio_with(person.bio, found.bio) != person.bio and folded(found.bio) not in refused:
            more["bio"] = found.bio
        return more


def count_mentions(owner: ChatUser, numbers: Iterable[int]) -> None:
    """Recounts the messages in which these people were found, and their first and last time; no count decreases."""
    listed = FindingMessage.objects.filter(owner=owner, finding__noun=NOUN, finding__row__in=list(numbers))
    rows = listed.values("finding__row").annotate(
        n=Count("message", distinct=True), first=Min("message__sent_at"), last=Max("message__sent_at")
    )
    for row in rows.order_by():
        person = Person.objects.filter(owner=owner, pk=row["finding__row"] or 0)
        for known in person.values("mention_count", "first_seen", "last_seen"):
            person.update(
                mention_count=max(known["mention_count"], row["n"]),
                first_seen=min(filter(None, (known["first_seen"], row["first"]))),
                last_seen=max(filter(None, (known["last_seen"], row["last"]))),
            )


def _add_to_waiting(waiting: Finding, found: FoundPerson, there: Iterable[str] = ()) -> None:
    """Adds what was found to the waiting finding about the same person, whose row already has the names ``there``."""
    values: dict[str, Any] = waiting.values
    known = {folded(name) for name in (*there, str(values.get("display_name", "")), *values.get("aliases", []))}
    more = [name for name in (found.name, *found.aliases) if folded(name) not in known]
    if more:
        values["aliases"] = [*values.get("aliases", []), *dict.fromkeys(more)]
    if found.username and not values.get("username"):
        values["username"] = found.username
    values["bio"] = _bio_with(values.get("bio", ""), found.bio)
    if waiting.target is not None:
        values = {name: value for name, value in values.items() if value}
    waiting.values = values
    waiting.save(update_fields=("values",))
    findings.add_messages(waiting, found.messages)


def grown(person: Person, more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values in ``more``, with the names and lines of biography that the person has already."""
    whole = dict(more)
    if "aliases" in more:
        whole["aliases"] = list(dict.fromkeys([*person.aliases, *more["aliases"]]))
    if "bio" in more:
        whole["bio"] = reduce(_bio_with, more["bio"].split("\n"), person.bio)
    return whole


def _bio_with(bio: str, line: str) -> str:
    """Returns the biography, with the line added if it says something new and there is room."""
    if not line or folded(line) in folded(bio) or len(bio) + len(line) > MOST_BIO_CHARS:
        return bio
    return "\n".join(filter(None, (bio, line)))


def _named(person: Person) -> PersonNames:
    return named(person.display_name, person.aliases, person.username, person.circle, row=person.pk)


def _rows(owner: ChatUser) -> Iterator[PersonNames]:
    rows = Person.objects.filter(owner=owner).only("display_name", "aliases", "username", "circle")
    return map(_named, rows.order_by("-mention_count", "pk").iterator())


def _waiting(owner: ChatUser) -> Iterator[PersonNames]:
    """Waiting people who would be new; waiting additions to known people are found by their ``target``."""
    rows = Finding.objects.filter(owner=owner, noun=NOUN, state=Finding.State.WAITING, target__isnull=True)
    for number, values in rows.values_list("pk", "values").iterator():
        yield _of_values(values, finding=number)


def _of_values(values: Mapping[str, Any], **whose: int | None) -> PersonNames:
    texts = (str(values.get(name, "")) for name in ("display_name", "username", "circle"))
    name, username, circle = texts
    return named(name, values.get("aliases") or (), username, circle, **whose)


def _former(owner: ChatUser) -> Iterator[PersonNames]:
    """People whom somebody deleted, undid or rejected."""
    there = {str(number) for number in Person.objects.filter(owner=owner).values_list("pk", flat=True)}
    for number, values, _after in findings.withdrawn(owner, NOUN):
        if str(number) not in there and values.get("display_name"):
            yield _of_values(values)
    for values in (
        findings.rejected(owner, NOUN).filter(target__isnull=True).values_list("values", flat=True).iterator()
    ):
        yield _of_values(values)


def _decided(owner: ChatUser) -> Mapping[int, list[PersonNames]]:
    """By a person's number, those of whom somebody decided that they are this person: in the review, or by a merge."""
    same: dict[int, list[PersonNames]] = defaultdict(list)
    for finding in findings.reworded(owner, NOUN).filter(row__isnull=False).iterator():
        same[finding.row or 0].append(_of_values(finding.values))
    merges = KnowledgeEdit.objects.filter(owner=owner, noun=NOUN, kind=KnowledgeEdit.Kind.MERGE)
    for before, after in merges.filter(knowledgeedit__isnull=True).values_list("before", "after").iterator():
        others = [_of_values(values) for number, values in before.items() if values and after[number] is None]
        for number in (number for number, values in after.items() if values is not None):
            same[int(number)] += others
    return same


def _with(person: PersonNames, same: Iterable[PersonNames]) -> PersonNames:
    """The person, also known by the usernames and circles of the others."""
    together = [person, *same]
    usernames = frozenset[str]().union(*(each.usernames for each in together))
    return replace(person, usernames=usernames, circles=frozenset[str]().union(*(each.circles for each in together)))


def _lost_names(owner: ChatUser) -> Mapping[int, frozenset[str]]:
    """By a person's number, the folded values that somebody removed or refused to add: names, username, circle, and
    lines of biography."""
    lost: dict[int, set[str]] = defaultdict(set)
    for number, values, after in findings.withdrawn(owner, NOUN):
        lost[number] |= _words(values) - _words(after or {})
    for finding in findings.rejected(owner, NOUN).filter(target__isnull=False).iterator():
        lost[finding.target or 0] |= _words(finding.values)
    for finding in findings.reworded(owner, NOUN).filter(row__isnull=False).iterator():
        lost[finding.row or 0] |= _words(finding.values)
    return {number: frozenset(words) for number, words in lost.items()}


def _words(values: Mapping[str, Any]) -> set[str]:
    texts = [values.get("display_name"), values.get("username"), values.get("circle"), *(values.get("aliases") or ())]
    lines = str(values.get("bio") or "").split("\n")
    return {folded(str(text)) for text in (*texts, *lines) if text} - {""}
