"""Decides whether a found fact is new, replaces a known fact, or is known already.

A found fact is compared with the facts of its relation or its category. It replaces another one only if the archivist
says that one fact of the relation is true at a time, or if its words deny the other one ("no longer likes coffee"). A
fact that is only similar replaces nothing: both stay, and a person is asked. The same holds for every fact about
health, and where years differ. An older statement never replaces a newer one; it is kept as a past fact. What a person
removed does not come back: the same words are ignored, and a similar fact waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from memoryapp.curation import knowledge
from memoryapp.curation.extraction.findings import (
    ARCHIVIST,
    Reading,
    add_messages,
    is_machine_made,
    put_confirmed,
    put_waiting,
    rejected,
    reworded,
    withdrawn,
)
from memoryapp.curation.extraction.statements import SAME_MEANING, Meanings, folded, is_about_health, statement, years
from memoryapp.engine.agents.archivist import FoundFact
from memoryapp.models import ChatUser, Fact, Finding, KnowledgeEdit

NOUN = KnowledgeEdit.Noun.FACT
_MOST_ALIKE = 5
_WORDS = ("relation", "category", "content")


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact of the memory (``row``), one that waits (``finding``), or, without a number, one that a person removed."""

    relation: str
    category: str
    content: str
    row: int | None = None
    finding: int | None = None
    noted_at: datetime | None = None

    @property
    def is_gone(self) -> bool:
        return self.row is None and self.finding is None


class KnownFacts:
    """The facts with which a found fact is compared, read in the transaction that stores it."""

    def __init__(self, owner: ChatUser, meanings: Meanings) -> None:
        self._meanings = meanings
        self._known = [*_current(owner), *_waiting(owner), *_former_facts(owner)]

    def texts(self, facts: Iterable[FoundFact]) -> list[str]:
        """Returns the texts that must have a vector before these facts can be placed."""
        texts: list[str] = []
        for fact in facts:
            pool = [known.content for known in self._pool(fact)]
            texts += [fact.content, *pool] if pool else []
        # Facts that were found together are also compared with each other.
        contents = [fact.content for fact in facts]
        return [*texts, *(contents if len(contents) > 1 else ())]

    def place(self, reading: Reading, fact: FoundFact) -> None:
        """Stores the fact as new, as a replacement, or as known already; ignores a removed or an outdated one."""
        near = sorted(
            ((self._meanings.similarity(fact.content, known.content), known) for known in self._pool(fact)),
            key=lambda pair: (-pair[0], pair[1].row or 0),
        )
        there = [known for _similarity, known in near if not known.is_gone]
        same = next((known for similarity, known in near if self._is_same(fact, similarity, known)), None)
        if same is not None:
            if not same.is_gone:
                self._again(reading, fact, same)
            return
        gone = max((similarity for similarity, known in near if known.is_gone), default=0.0)
        target = next((known for similarity, known in near if self._replaces(fact, similarity, known)), None)
        doubt = next((known for similarity, known in near if self._is_doubtful(similarity, known)), None)
        if target is not None and _may_both_be_true(fact, target):
            target, doubt = None, target
        place = _FactPlace(target, None if target else doubt, gone < self._meanings.alike, _rows(there))
        self._put(reading, fact, place)

    def _pool(self, fact: FoundFact) -> list[KnownFact]:
        words, claim = folded(fact.content), statement(fact.content)
        return [
            known
            for known in self._known
            if known.relation == fact.relation
            or known.category == fact.category
            or folded(known.content) == words
            or claim.denies(statement(known.content))
        ]

    def _is_same(self, fact: FoundFact, similarity: float, known: KnownFact) -> bool:
        """Whether the known fact says the same; of what a person removed, only nearly the same words do."""
        if folded(fact.content) == folded(known.content):
            return True
        least = SAME_MEANING if known.is_gone else self._meanings.related
        return similarity >= least and statement(fact.content).repeats(statement(known.content))

    def _replaces(self, fact: FoundFact, similarity: float, known: KnownFact) -> bool:
        """Whether the found fact says, in more than similar words, that the known one is not true any more."""
        if known.is_gone:
            return False
        if fact.only_one and known.relation == fact.relation and similarity >= self._meanings.related:
            return True
        return statement(fact.content).denies(statement(known.content))

    def _is_doubtful(self, similarity: float, known: KnownFact) -> bool:
        return not known.is_gone and similarity >= self._meanings.alike

    def _again(self, reading: Reading, fact: FoundFact, known: KnownFact) -> None:
        """Adds the messages to a fact that is known already."""
        if known.row is not None:
            put_confirmed(reading, NOUN, known.row, fact.messages)
        elif known.finding is not None:
            add_messages(Finding.objects.get(pk=known.finding), fact.messages)

    def _put(self, reading: Reading, fact: FoundFact, place: _FactPlace) -> None:
        noted_at, target = reading.latest(fact.messages), place.target
        is_free = target is None or target.row is not None and is_machine_made(reading.owner, NOUN, target.row)
        may_be_used = reading.may_use_fact(_values(fact), fact.messages) and place.may_be_used
        if target and target.noted_at and noted_at < target.noted_at:
            if may_be_used and target.row is not None:
                self._use(reading, fact, None, noted_at, superseded_at=target.noted_at)
        elif may_be_used and is_free:
            made = self._use(reading, fact, target, noted_at)
            self._know(fact, noted_at, row=made.row)
            self._known = [known for known in self._known if target is None or known is not target]
            if place.doubt is not None:
                self._ask(reading, fact, place.doubt, stored=made.row, alike=place.alike)
        else:
            waiting = self._ask(reading, fact, target or place.doubt, alike=place.alike)
            self._know(fact, noted_at, finding=waiting.pk)

    def _ask(self, reading: Reading, fact: FoundFact, about: KnownFact | None, **more: Any) -> Finding:
        """Has a person decide whether the fact is true, and whether it is true instead of the one ``about``."""
        would = {"target": about.row, "follows_id": about.finding} if about else {}
        return put_waiting(reading, NOUN, _values(fact), fact.messages, **would, **more)

    def _use(
        self, reading: Reading, fact: FoundFact, target: KnownFact | None, noted_at: datetime, **fixed: datetime
    ) -> Finding:
        """Creates or replaces the fact without asking a person."""
        authorship: dict[str, Any] = {"actor": ARCHIVIST, "call": reading.call, "created_at": noted_at, **fixed}
        if target is None:
            edit = knowledge.create(reading.owner, NOUN, _values(fact), topic=reading.topic, **authorship)
        else:
            past = Fact.objects.get(owner=reading.owner, pk=target.row or 0)
            edit = knowledge.replace(reading.owner, past, _values(fact), topic=reading.topic, **authorship)
        row = knowledge.number_made(edit)
        replaced = target.row if target else None
        return put_confirmed(reading, NOUN, row, fact.messages, edit, values=_values(fact), target=replaced)

    def _know(self, fact: FoundFact, noted_at: datetime, *, row: int | None = None, finding: int | None = None) -> None:
        self._known.append(KnownFact(fact.relation, fact.category, fact.content, row, finding, noted_at))


@dataclass(frozen=True, slots=True)
class _FactPlace:
    """What becomes of a found fact: it replaces ``target``, or is new; with ``doubt``, a person is asked whether it
    replaces that one. ``alike`` are the rows that it resembles."""

    target: KnownFact | None
    doubt: KnownFact | None
    may_be_used: bool
    alike: list[int]


def _may_both_be_true(fact: FoundFact, known: KnownFact) -> bool:
    """Whether a person must say which of the two is true: about health, or where each names another year."""
    if is_about_health(fact.relation, fact.category, fact.content, known.relation, known.category, known.content):
        return True
    named, known_named = years(fact.content), years(known.content)
    return bool(named and known_named) and named.isdisjoint(known_named)


def _values(fact: FoundFact) -> dict[str, Any]:
    return {name: value for name, value in asdict(fact).items() if name not in ("messages", "only_one")}


def _rows(near: Sequence[KnownFact]) -> list[int]:
    return [known.row for known in near if known.row is not None][:_MOST_ALIKE]


def _known(values: Mapping[str, Any], **more: Any) -> KnownFact:
    relation, category = (folded(str(values.get(name, ""))).replace(" ", "_") for name in ("relation", "category"))
    return KnownFact(relation, category, str(values.get("content", "")), **more)


def _current(owner: ChatUser) -> Iterator[KnownFact]:
    rows = Fact.objects.current().filter(owner=owner).values("pk", *_WORDS, "created_at")
    return (_known({**row}, row=row["pk"], noted_at=row["created_at"]) for row in rows.iterator())


def _waiting(owner: ChatUser) -> Iterator[KnownFact]:
    """Facts that wait and are not in the memory yet."""
    waiting = Finding.objects.filter(owner=owner, noun=NOUN, state=Finding.State.WAITING, stored__isnull=True)
    rows = waiting.values_list("pk", "values")
    return (_known(values, finding=number) for number, values in rows.iterator())


def _former_facts(owner: ChatUser) -> Iterator[KnownFact]:
    """Facts that people deleted, undid, reworded or rejected."""
    now: dict[str, Any] = {str(row["pk"]): row for row in Fact.objects.filter(owner=owner).values("pk", *_WORDS)}
    for number, values, after in withdrawn(owner, NOUN):
        if after is None or values.keys() & set(_WORDS):
            whole = {**now.get(str(number), {}), **(after or {}), **values}
            if whole.get("content"):
                yield _known(whole)
    for values in rejected(owner, NOUN).values_list("values", flat=True).iterator():
        yield _known(values)
    for row, values in reworded(owner, NOUN).values_list("row", "values").iterator():
        if values.get("content") and now.get(str(row), {}).get("content") != values["content"]:
            yield _known(values)
