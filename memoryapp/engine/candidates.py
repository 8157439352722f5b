"""What a search found, as a run keeps it: topics, and people and artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic that search found. ``rank`` and ``vector_rank`` count from 1; without vectors the latter is 0.

    ``cosine`` and ``bm25`` are those of its best passage, ``fused`` is the sum of their z-scores as
    ``scoring.fuse`` takes it, ``score`` is ``fused`` mapped into (0, 1), as the model sees it. ``terms``
    holds what each query term added to ``bm25``. ``shown`` tells whether the model saw the candidate,
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


@dataclass(frozen=True, slots=True)
class Below:
    """What was ranked and not shown to the model, in columns of one length that say what ``Candidate`` says.

    Three of four candidates are kept only so that their absence can be explained; as columns they take half
    the time to store. ``terms`` are by id, of those that hold a word of the query.
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

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]], terms: Mapping[str, Mapping[str, float]]) -> Below:
        """Out of rows that hold a value for each column but ``terms``, in their order."""
        columns: dict[str, Any] = dict(zip(_columns(), zip(*rows, strict=True), strict=True)) if rows else {}
        return cls(**columns, terms=terms)

    def __len__(self) -> int:
        return len(self.id)

    def candidates(self) -> Iterator[Candidate]:
        """Each as a value of its own."""
        for row in zip(*(getattr(self, name) for name in _columns()), strict=True):
            told: dict[str, Any] = dict(zip(_columns(), row, strict=True))
            yield Candidate(**told, line="", shown=False, terms=self.terms.get(told["id"], {}))


@cache
def _columns() -> tuple[str, ...]:
    return tuple(column.name for column in fields(Below) if column.name != "terms")


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
