"""What the searches of a run have brought: passages of all queries in one order, and the candidates they stand for.

Passages of several queries are joined by their best score; the question itself counts a little more than what was made
of it. A later search adds to the pool and takes nothing away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from memoryapp.engine.candidates import Candidate, UnshownCandidates
from memoryapp.engine.events import CandidatesFound
from memoryapp.engine.memory import MessageContent, topic_id
from memoryapp.engine.strategies.ports import Found, FoundPassage
from memoryapp.engine.text.lexical import stems
from memoryapp.engine.text.lines import candidate_line
from memoryapp.engine.text.passages import line_of

# What a passage is worth less, in deviations, that not the question itself has found.
_SECOND_HAND = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """A passage with its messages as they are stored now; ``topic`` is the one that it is cited under."""

    passage: FoundPassage
    topic: str
    messages: tuple[MessageContent, ...]

    @property
    def text(self) -> str:
        """The passage, or of one that lies whole in its messages those."""
        whole = "\n".join(map(line_of, self.messages))
        return whole if len(whole) <= len(self.passage.text) else self.passage.text


class Pool:
    """Passages by number; ``order`` is that of the numbers, best first.

    ``meaning`` is the most that meaning adds to the score of a topic that the question itself has found.
    """

    def __init__(self) -> None:
        self.passages: dict[int, FoundPassage] = {}
        self.worth: dict[int, float] = {}
        self.order: list[int] = []
        self.documents: dict[int, Document] = {}
        self.meaning = 0.0
        self._found: list[Found] = []

    @property
    def is_empty(self) -> bool:
        return not self._found

    @property
    def baseline(self) -> tuple[str, ...]:
        return self._found[0].baseline if self._found else ()

    def add(self, found: Found, *, is_question: bool, weight: float = 1.0) -> None:
        """Join what one query brought, in whose scores meaning had that ``weight``."""
        self._found.append(found)
        if is_question and weight:
            near = (each.parts.get("meaning", 0.0) / weight for each in found.event.candidates)
            self.meaning = max(self.meaning, *near, 0.0)
        for passage in found.passages:
            worth = passage.fused - (0.0 if is_question else _SECOND_HAND)
            if worth > self.worth.get(passage.id, float("-inf")):
                self.passages[passage.id], self.worth[passage.id] = passage, worth
        self.order = sorted(self.passages, key=lambda id: (-self.worth[id], id))

    def rank(self, ids: Sequence[int]) -> None:
        """Put these passages first, in this order."""
        first = [id for id in dict.fromkeys(ids) if id in self.passages]
        self.order = [*first, *(id for id in self.order if id not in set(first))]

    def keep(self, ids: Iterable[int]) -> None:
        """Leave out of the order what is not among these passages."""
        kept = set(ids)
        self.order = [id for id in self.order if id in kept]

    def event(self, shown: int) -> CandidatesFound:
        """The pool as candidates: topics by their best passage, then the others as they were found.

        So many are ``shown``, of those that any search showed. Numbers are those of the search that found the topic
        best.
        """
        first = self._found[0].event
        known = self._candidates()
        by_passage = (topic_id(number) for id in self.order for number in self.passages[id].topics)
        by_search = (each.id for found in self._found for each in found.event.ranked())
        ids = [id for id in dict.fromkeys((*by_passage, *by_search)) if id in known]
        visible = set([id for id in ids if known[id].shown][:shown])
        ranked = [replace(known[id], rank=rank, shown=id in visible) for rank, id in enumerate(ids, start=1)]
        below = [each for each in ranked if not each.shown]
        return replace(
            first,
            candidates=tuple(replace(each, line=_line(each)) for each in ranked if each.shown),
            below=UnshownCandidates.of(
                [_row(each) for each in below],
                {each.id: each.terms for each in below if each.terms},
                [each.parts for each in below],
            ),
            seconds=round(sum(found.event.seconds for found in self._found), 6),
        )

    def _candidates(self) -> Mapping[str, Candidate]:
        """Each topic as the search found it that ranks it best; of equal ones the first."""
        best: dict[str, Candidate] = {}
        for found in self._found:
            for each in found.event.ranked():
                if each.id not in best or each.rank < best[each.id].rank:
                    best[each.id] = replace(each, shown=each.shown or (each.id in best and best[each.id].shown))
        return best


def _line(each: Candidate) -> str:
    return candidate_line(each.id, each.score, each.date, each.message_count, each.size_chars, each.summary)


_COLUMNS = attrgetter(
    "id",
    "rank",
    "vector_rank",
    "cosine",
    "bm25",
    "fused",
    "score",
    "date",
    "message_count",
    "size_chars",
    "summary",
    "passage_id",
)


def _row(each: Candidate) -> tuple[Any, ...]:
    columns: tuple[Any, ...] = _COLUMNS(each)
    return columns


def diverse(passages: Sequence[FoundPassage], share: float, most: int) -> list[int]:
    """Numbers of at most ``most`` passages, each of which is near the query and unlike those before it.

    Maximal marginal relevance (Carbonell and Goldstein 1998): ``share`` times the score, less the rest times the
    largest likeness to one taken already. Alike are passages that share stems (the cosine of their sets).
    """
    words = {passage.id: frozenset(stems(passage.text)) for passage in passages}
    left, taken = list(passages), list[int]()
    likeness = dict.fromkeys(words, 0.0)
    while left and len(taken) < most:
        best = max(left, key=lambda each: share * each.score - (1 - share) * likeness[each.id])
        left.remove(best)
        taken.append(best.id)
        for each in left:
            likeness[each.id] = max(likeness[each.id], _alike(words[each.id], words[best.id]))
    return taken


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(math.sqrt(len(one) * len(other)), 1.0)
