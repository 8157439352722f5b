"""Reranking: a cross-encoder corrects the order of a search, before the best candidates are shown to the model.

The cross-encoder reads the query together with the best passage of each of the first topics. Its scores, in standard
deviations from their mean, become one more part of the topics' scores; topics further down keep theirs. No connection
is held while it computes. When it fails, the order of the search is kept.

The effect of its weight was measured with simulated cross-encoders, because no real one was available. They return
noise of one standard deviation, and add 1, 2 or 3 for a topic with the answer; over the first forty topics of 760
questions about five public English two-person conversations in whole sessions, ranked by meaning and words (recall@5,
without one .880):

weight                       1      2      3      5      8
    one that knows nothing     .855   .817   .785   .664   .523
    one that adds 1            .899   .902   .891   .861   .799
    one that adds 2            .937   .955   .955   .953   .942
    one that adds 3            .954   .974   .985   .987   .989

These figures come from one sample of the noise. Between 2 and 5 a good cross-encoder gains about the same; one whose
quality is unknown should have a small weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.chat.cross_encoder import log_odds
from memoryapp.engine.fusion import shown_scores, z_scores
from memoryapp.engine.memory import ANYWHERE, Where
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.text.lines import placed
from memoryapp.search import passages
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.similarity import Connection

WEIGHT = 3.0
_DIGITS = 6


async def passage_texts(
    connection: Connection, owner_id: int, candidates: Sequence[Candidate], where: Where = ANYWHERE
) -> list[str]:
    """The text of the best passage of each candidate, as far as ``where`` permits; empty for a passage that was
    erased."""
    ids = [candidate.passage_id for candidate in candidates]
    rows, values = passages.texts_sql(owner_id, ids, where)
    found = await (await connection.execute(rows, values)).fetchall()
    texts = {id: passages.text_of(text, messages) for id, text, *_messages, messages in found}
    return [texts.get(id, "") for id in ids]


def reranked(found: SearchResult, scores: Floats, shown: int) -> SearchResult:
    """The search with the ``scores`` of the first topics added; ``shown`` is how many topics the model sees."""
    candidates = found.candidates
    lifts = np.round(WEIGHT * z_scores(log_odds(scores)), _DIGITS).tolist()
    scored = [_lifted(candidate, lift) for candidate, lift in zip(candidates, lifts, strict=False)]
    ordered = sorted((*scored, *candidates[len(scored) :]), key=lambda each: -each.fused)
    relevant = [each.id for each in ordered if each.shown or _is_relevant(each, found.threshold)]
    kept = set([id for id in relevant if id not in found.copies][:shown])
    placed_anew = (placed(each, rank, shown=each.id in kept) for rank, each in enumerate(ordered, start=1))
    return replace(found, candidates=tuple(placed_anew))


def _is_relevant(each: Candidate, threshold: float) -> bool:
    return each.bm25 > 0 or "summary" in each.parts or each.cosine >= threshold


def _lifted(candidate: Candidate, lift: float) -> Candidate:
    fused = round(candidate.fused + lift, _DIGITS)
    score = round(float(shown_scores(np.array(fused))), _DIGITS)
    return replace(candidate, fused=fused, score=score, line="", parts={**candidate.parts, "cross_encoder": lift})
