"""What the searches of a run have brought: passages of all queries in one order, and the candidates they belong to.

Passages and topics of several queries are joined by their best score; the question itself counts a little more than
what was made of it. A later search adds to the pool and takes nothing away, and topics stay in the order of the search
unless passages were put into one on purpose: on the harder questions of the demo memory topics by their passages, as
routed, reordered and searched twice, had recall@5 .742 in Russian where the search has .777, and .863 instead of .887
on the forty older ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.context import estimated_tokens
from memoryapp.engine.events import CandidatesFound
from memoryapp.engine.memory import ANYWHERE, MessageContent, Where, topic_id
from memoryapp.engine.strategies.ports import Found, FoundPassage
from memoryapp.engine.text.lexical import idf, stems
from memoryapp.engine.text.lines import message_text, one_line, placed, source_text
from memoryapp.engine.text.passages import line_of, parts_of
from memoryapp.engine.text.scripts import beginning

# How many deviations lower a passage counts that was not found by the question itself.
_SECOND_HAND = 1.0
# A source is cut only if at least this much of it remains.
_LEAST_TOKENS = 40


@dataclass(frozen=True, slots=True)
class Document:
    """A passage with its messages as they are stored now; ``topic`` is the topic under which it is cited."""

    passage: FoundPassage
    topic: str
    messages: tuple[MessageContent, ...]

    @property
    def text(self) -> str:
        """The passage, or its messages if the passage contains them completely."""
        whole = "\n".join(map(line_of, self.messages))
        return whole if len(whole) <= len(self.passage.text) else self.passage.text

    @property
    def parts(self) -> list[MessageContent]:
        """The messages, each with the part of its text that the passage contains."""
        return parts_of(self.passage.text, self.messages)

    def source(self, number: int, room: int) -> str:
        """The source as a model reads it, cut between words at ``room`` tokens; empty when too little would remain."""
        request, parts = self._request, self.parts
        lines = "\n".join([*([f"[In reply to]: {one_line(request)}"] if request else []), *map(message_text, parts)])
        day = f"{self.messages[0].sent_at:%Y-%m-%d}"
        whole = source_text(number, day, lines)
        tokens = estimated_tokens(whole)
        if tokens <= room:
            return whole
        if room < _LEAST_TOKENS:
            return ""
        return source_text(number, day, beginning(lines, int(len(lines) * room / tokens * 0.95)) + " …")

    @property
    def _request(self) -> str:
        """The beginning of an earlier message, with which the passage begins when it continues a long reply."""
        before, found, _rest = self.passage.text.partition(line_of(self.parts[0]))
        return before.strip() if found else ""


class Pool:
    """Passages by number; ``order`` is that of the numbers, best first.

    ``meaning`` is the most that meaning adds to the score of a topic that the question itself has found, ``nearness``
    that of ``Found`` for the question, ``rarity`` the idf of each stem of any query that the memory holds. ``seconds``
    is how long searching took; searches at the same time count once.
    """

    def __init__(self) -> None:
        self.passages: dict[int, FoundPassage] = {}
        self.worth: dict[int, float] = {}
        self.order: list[int] = []
        self.documents: dict[int, Document] = {}
        self.meaning = 0.0
        self.nearness = 0.0
        self.rarity: dict[str, float] = {}
        self.seconds = 0.0
        self._is_ranked = False
        self._found: list[tuple[Found, float]] = []

    @property
    def is_empty(self) -> bool:
        return not self._found

    def weights(self, terms: Iterable[str]) -> dict[str, float]:
        """The rarity of each of the ``terms`` in the memory; a term that no passage contains counts as the rarest."""
        unknown = idf(max((found.event.passages for found, _cost in self._found), default=0), 0)
        return {term: self.rarity.get(term, unknown) for term in sorted(terms)}

    @property
    def baseline(self) -> tuple[str, ...]:
        return self._found[0][0].baseline if self._found else ()

    def add(self, found: Found, *, is_question: bool, weight: float = 1.0) -> None:
        """Adds the result of one query, in whose scores meaning had that ``weight``."""
        cost = 0.0 if is_question else _SECOND_HAND
        self._found.append((found, cost))
        self.rarity |= found.rarity
        if is_question and weight:
            near = (each.parts.get("meaning", 0.0) / weight for each in found.event.shown)
            self.meaning = max(self.meaning, *near, 0.0)
            self.nearness = max(self.nearness, found.nearness)
        for passage in found.passages:
            worth = passage.fused - cost
            if worth > self.worth.get(passage.id, float("-inf")):
                self.passages[passage.id], self.worth[passage.id] = passage, worth
        self.order = sorted(self.passages, key=lambda id: (-self.worth[id], id))

    def rank(self, ids: Sequence[int]) -> None:
        """Puts these passages first, in this order, and their topics with them."""
        self._is_ranked = True
        first = [id for id in dict.fromkeys(ids) if id in self.passages]
        self.order = [*first, *(id for id in self.order if id not in set(first))]

    def keep(self, ids: Iterable[int]) -> None:
        """Removes from the order all passages but these."""
        kept = set(ids)
        self.order = [id for id in self.order if id in kept]

    def event(self, shown: int) -> CandidatesFound:
        """The pool as candidates: topics by their best score, behind those whose passages were put first.

        So many are ``shown``, of those that any search showed. Numbers are those of the search that found the topic
        best.
        """
        first = self._found[0][0].event
        understood = replace(first.understood, where=self._where)
        known = self._candidates()
        put_first = self.order if self._is_ranked else []
        by_passage = (topic_id(number) for id in put_first for number in self.passages[id].topics)
        ids = [id for id in dict.fromkeys((*by_passage, *known)) if id in known]
        visible = set([id for id in ids if known[id].shown][:shown])
        ranked = (placed(known[id], rank, shown=id in visible) for rank, id in enumerate(ids, start=1))
        return replace(
            first,
            understood=understood,
            candidates=tuple(ranked),
            seconds=round(self.seconds, 6),
        )

    @property
    def _where(self) -> Where:
        """The widest restriction of the searches for the question, beyond which nothing was found."""
        restrictions = [found.event.understood.where for found, cost in self._found if not cost]
        return min(restrictions, key=Where.parts, default=ANYWHERE)

    def _candidates(self) -> Mapping[str, Candidate]:
        """Each topic with its best score among all searches, best first; of equal ones, the first found."""
        best: dict[str, Candidate] = {}
        worth: dict[str, float] = {}
        for found, cost in self._found:
            for each in found.event.candidates:
                is_shown = each.shown or (each.id in best and best[each.id].shown)
                if each.fused - cost > worth.get(each.id, float("-inf")):
                    best[each.id], worth[each.id] = each, each.fused - cost
                best[each.id] = replace(best[each.id], shown=is_shown)
        return {id: best[id] for id in sorted(best, key=lambda id: -worth[id])}


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
