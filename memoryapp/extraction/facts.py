"""Decides whether a found fact is new, replaces a known fact, or is known already.

A found fact is compared with the facts of its relation or its category. If only one fact of a relation can be true, the
found fact replaces any related one; otherwise it replaces one that says nearly the same. An older statement never
replaces a newer one. What a person removed does not come back: the same words are ignored, and a similar fact waits for
a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from memoryapp import knowledge
from memoryapp.engine.agents.archivist import FoundFact
from memoryapp.extraction.by_hand import ARCHIVIST, is_machine_made, rejected, reworded, withdrawn
from memoryapp.extraction.findings import Reading, add_messages, put_confirmed, put_waiting
from memoryapp.extraction.meanings import SAME, Meanings, folded
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
        there = [pair for pair in near if not pair[1].is_gone]
        closest = there[0] if there else None
        gone = max((similarity for similarity, known in near if known.is_gone), default=0.0)
        if closest and closest[0] >= SAME:
            self._again(reading, fact, closest[1])
        elif gone < SAME:
            target = next((known for similarity, known in there if self._replaces(fact, similarity, known)), None)
            self._put(reading, fact, target, may_be_used=gone < self._meanings.alike, alike=_rows(there))

    def _pool(self, fact: FoundFact) -> list[KnownFact]:
        words = folded(fact.content)
        return [
            known
            for known in self._known
            if known.relation == fact.relation or known.category == fact.category or folded(known.content) == words
        ]

    def _replaces(self, fact: FoundFact, similarity: float, known: KnownFact) -> bool:
        if fact.only_one and known.relation == fact.relation:
            return similarity >= self._meanings.related
        return similarity >= self._meanings.alike

    def _again(self, reading: Reading, fact: FoundFact, known: KnownFact) -> None:
        """Adds the messages to a fact that is known already."""
        if known.row is not None:
            put_confirmed(reading, NOUN, known.row, fact.messages)
        elif known.finding is not None:
            add_messages(Finding.objects.get(pk=known.finding), fact.messages)

    def _put(
        self, reading: Reading, fact: FoundFact, target: KnownFact | None, *, may_be_used: bool, alike: list[int]
    ) -> None:
        noted_at = reading.latest(fact.messages)
        if target and target.noted_at and noted_at < target.noted_at:
            return
        is_free = target is None or target.row is not None and is_machine_made(reading.owner, NOUN, target.row)
        if reading.is_automatic and may_be_used and is_free:
            made = self._use(reading, fact, target, noted_at)
            self._know(fact, noted_at, row=made.row)
            self._known = [known for known in self._known if target is None or known is not target]
            return
        would = {"target": target.row, "follows_id": target.finding} if target else {}
        waiting = put_waiting(reading, NOUN, _values(fact), fact.messages, alike=alike, **would)
        self._know(fact, noted_at, finding=waiting.pk)

    def _use(self, reading: Reading, fact: FoundFact, target: KnownFact | None, noted_at: datetime) -> Finding:
        """Creates or replaces the fact without asking a person."""
        authorship: dict[str, Any] = {"actor": ARCHIVIST, "call": reading.call, "created_at": noted_at}
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


def _values(fact: FoundFact) -> dict[str, Any]:
    return {name: value for name, value in asdict(fact).items() if name not in ("messages", "only_one")}


def _rows(near: Sequence[tuple[float, KnownFact]]) -> list[int]:
    return [known.row for _similarity, known in near if known.row is not None][:_MOST_ALIKE]


def _known(values: Mapping[str, Any], **more: Any) -> KnownFact:
    relation, category = (folded(str(values.get(name, ""))).replace(" ", "_") for name in ("relation", "category"))
    return KnownFact(relation, category, str(values.get("content", "")), **more)


def _current(owner: ChatUser) -> Iterator[KnownFact]:
    rows = Fact.objects.current().filter(owner=owner).values("pk", *_WORDS, "created_at")
    return (_known({**row}, row=row["pk"], noted_at=row["created_at"]) for row in rows.iterator())


def _waiting(owner: ChatUser) -> Iterator[KnownFact]:
    rows = Finding.objects.filter(owner=owner, noun=NOUN, state=Finding.State.WAITING).values_list("pk", "values")
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
