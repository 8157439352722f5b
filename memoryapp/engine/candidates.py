"""What a search found, as a run keeps it: topics, and people and artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from memoryapp.engine.memory import ANYWHERE, Where

# How many candidates of a kind a run records, and how many topics of the plain vector order.
RANKED = 200
BASELINE = 50
# The parts of a score, in the order in which they are told: similarity of meaning, shared words, how near the whole
# topic lies in meaning, words of its summary that no passage holds so many of, dates that the query names, a reply
# that nobody's request stands beside, a standing instruction, the word of a cross-encoder.
PARTS = ("meaning", "words", "topic", "summary", "dates", "reply_alone", "instruction", "cross_encoder")


@dataclass(frozen=True, slots=True)
class NamedDates:
    """A stretch of time that a query names in these ``words``; both days are included, as ``2023-05-01``."""

    words: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class OneTerm:
    """A word of the query, and the other ``forms`` that count as the same word."""

    word: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnderstoodQuery:
    """What search made of the query beside its words.

    ``names`` of who speaks were taken out of its vector. ``dates`` lift what was said then, ``one_term`` are irregular
    words. ``instructions`` tells that what holds a standing instruction was lifted. Nothing was found but by messages
    that ``where`` lets through. ``common`` are the stems that count in a large memory only beside rarer ones.
    """

    names: tuple[str, ...] = ()
    dates: tuple[NamedDates, ...] = ()
    one_term: tuple[OneTerm, ...] = ()
    instructions: bool = False
    where: Where = ANYWHERE
    common: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CrossEncoded:
    """The ``model`` that corrected the order of the first ``topics``; all empty where none is configured.

    ``failure`` says in words why it did not; then the order is that of the search.
    """

    model: str = ""
    topics: int = 0
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic that search found. ``rank`` and ``vector_rank`` count from 1; without vectors the latter is 0.

    ``cosine`` and ``bm25`` are those of its best passage, ``fused`` is what it is ranked by, ``score`` is ``fused``
    mapped into (0, 1), as the model sees it. ``terms`` holds what each query term added to ``bm25``, ``parts`` what
    each part of the score added to ``fused``: the names of ``PARTS``, those that add nothing left out; runs of before
    did not tell. ``shown`` tells whether the model saw the candidate,
    and ``line`` how; it is empty where the model did not. ``passage_id`` numbers that passage, 0 in runs of before.

    ``found_by`` tells which wording of the query found a candidate that is shown: ``original`` and ``rewrite``, each
    with the rank by it alone, as far as that is among the ranked. It is empty where one wording alone was searched.
    """

    id: str
    rank: int
    vector_rank: int
    cosine: float
    bm25: float
    fused: float
    score: float
    date: str
    message_count: int
    size_chars: int
    summary: str
    line: str
    shown: bool
    passage_id: int = 0
    terms: Mapping[str, float] = field(default_factory=dict)
    found_by: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnshownCandidates:
    """What was ranked and not shown to the model, in columns of one length that say what ``Candidate`` says.

    Three of four candidates are kept only so that their absence can be explained; as columns they take half
    the time to store. ``terms`` are by id, of those that hold a word of the query; ``parts`` are columns by name.
    Rows hold them under ``below`` beside ``candidates``: ``engine.wire`` puts both together for programs,
    ``models.run.RANKED_ANY`` looks into both.
    """

    id: tuple[str, ...] = ()
    rank: tuple[int, ...] = ()
    vector_rank: tuple[int, ...] = ()
    cosine: tuple[float, ...] = ()
    bm25: tuple[float, ...] = ()
    fused: tuple[float, ...] = ()
    score: tuple[float, ...] = ()
    date: tuple[str, ...] = ()
    message_count: tuple[int, ...] = ()
    size_chars: tuple[int, ...] = ()
    summary: tuple[str, ...] = ()
    passage_id: tuple[int, ...] = ()
    terms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    parts: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[Any, ...]],
        terms: Mapping[str, Mapping[str, float]],
        parts: Sequence[Mapping[str, float]] = (),
    ) -> UnshownCandidates:
        """Out of rows that hold a value for each column but ``terms``, in their order; ``parts`` are a row's each."""
        columns: dict[str, Any] = dict(zip(_columns(), zip(*rows, strict=True), strict=True)) if rows else {}
        names = [name for name in PARTS if any(name in each for each in parts)]
        return cls(**columns, terms=terms, parts={name: [each.get(name, 0.0) for each in parts] for name in names})

    def __len__(self) -> int:
        return len(self.id)

    def candidates(self) -> Iterator[Candidate]:
        """Each as a value of its own; a column that an early run did not store has its default."""
        columns = {name: column for name in _columns() if (column := getattr(self, name))}
        for place, row in enumerate(zip(*columns.values(), strict=True)):
            values: dict[str, Any] = dict(zip(columns, row, strict=True))
            parts = {name: column[place] for name, column in self.parts.items() if column[place]}
            yield Candidate(**values, line="", shown=False, terms=self.terms.get(values["id"], {}), parts=parts)


@cache
def _columns() -> tuple[str, ...]:
    return tuple(column.name for column in fields(UnshownCandidates) if column.name not in ("terms", "parts"))


@dataclass(frozen=True, slots=True)
class ItemCandidate:
    """A person or an artifact that search found, numbers as in ``Candidate``.

    ``name`` is what people call it, ``line`` what the model sees. ``in_session`` marks a file of the running
    conversation, which stands before the found ones and has no scores.
    """

    id: str
    rank: int
    vector_rank: int
    cosine: float
    bm25: float
    fused: float
    score: float
    name: str
    line: str
    shown: bool
    in_session: bool = False
    terms: Mapping[str, float] = field(default_factory=dict)
    found_by: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
