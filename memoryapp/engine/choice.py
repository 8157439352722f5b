"""What the model chose, as far as it was there to choose: topics, people and artifacts in the model's order.

Only candidates count; whatever else was named is kept apart to be shown. Limits are applied here, not hoped for.
An excerpt is verified against the messages the model read, see ``excerpts``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memoryapp.engine.answers import Pick
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.events import Piece, Selected
from memoryapp.engine.excerpts import best_exchanges, is_usable, verify
from memoryapp.engine.limits import Limits
from memoryapp.engine.memory import TopicContent
from memoryapp.engine.prompts import RerankRequest

_SHORT_CHARS = 8_000
# How models name a file of the running conversation, for it has no past to be numbered in.
_SESSION_FILE = re.compile(r"Artifact:session(?::(\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class Choice:
    """Picks of candidates by kind, best first and within the limits; ``foreign`` ids are no candidates.

    ``all_foreign`` tells that ids were given and none of them is a candidate.
    """

    topics: tuple[Pick, ...] = ()
    people: tuple[Pick, ...] = ()
    artifacts: tuple[Pick, ...] = ()
    foreign: tuple[str, ...] = ()
    all_foreign: bool = False


def sort_out(picks: Sequence[Pick], request: RerankRequest, limits: Limits) -> Choice:
    """Which of the picks are candidates, and of what kind."""
    named = [Pick(_session_file(pick.id, request.artifacts), pick.reason, pick.excerpt) for pick in picks]
    once = list({pick.id: pick for pick in reversed(named)}.values())[::-1]
    topics = {candidate.id for candidate in request.candidates}
    people = {candidate.id for candidate in request.people}
    artifacts = {candidate.id for candidate in request.artifacts}
    foreign = tuple(pick.id for pick in once if pick.id not in topics | people | artifacts)
    return Choice(
        topics=_those(once, topics, limits.max_topics),
        people=_those(once, people, limits.max_people),
        artifacts=_those(once, artifacts, limits.max_artifacts),
        foreign=foreign,
        all_foreign=bool(once) and len(foreign) == len(once),
    )


def _session_file(id: str, artifacts: Iterable[ItemCandidate]) -> str:
    """The artifact meant by ``Artifact:session`` (the only one) or ``Artifact:session:2``; else ``id`` as it is."""
    named = _SESSION_FILE.fullmatch(id)
    files = [candidate.id for candidate in artifacts if candidate.in_session]
    if named is None or not (named[1] or len(files) == 1):
        return id
    number = int(named[1] or 1)
    return files[number - 1] if 1 <= number <= len(files) else id


def _those(picks: Iterable[Pick], candidates: set[str], most: int) -> tuple[Pick, ...]:
    return tuple(pick for pick in picks if pick.id in candidates)[:most]


async def selected_topics(
    picks: Sequence[Pick], request: RerankRequest, limits: Limits, read: Mapping[str, TopicContent]
) -> tuple[Selected, ...]:
    """The chosen topics with their excerpts, located in what was ``read``."""
    candidates = {candidate.id: candidate for candidate in request.candidates}
    selected = []
    for rank, pick in enumerate(picks, start=1):
        candidate, topic = candidates[pick.id], read.get(pick.id)
        excerpt, by = await _excerpt(pick, topic, request.query, limits.excerpt_over_chars)
        selected.append(
            Selected(
                id=pick.id,
                rank=rank,
                reason=pick.reason,
                score=candidate.score,
                vector_rank=candidate.vector_rank,
                excerpt=excerpt,
                excerpt_by=by,
                unread=topic is None,
            )
        )
    return tuple(selected)


def selected_items(picks: Sequence[Pick], candidates: Sequence[ItemCandidate]) -> tuple[Selected, ...]:
    """The chosen people, or the chosen artifacts."""
    known = {candidate.id: candidate for candidate in candidates}
    return tuple(
        Selected(pick.id, rank, pick.reason, known[pick.id].score, known[pick.id].vector_rank)
        for rank, pick in enumerate(picks, start=1)
    )


async def _excerpt(
    pick: Pick, topic: TopicContent | None, query: str, over_chars: int
) -> tuple[tuple[Piece, ...], Literal["model", "scorer", ""]]:
    """What the model quoted, verified; for a large topic without a usable quotation the best exchanges."""
    excerpt: tuple[Piece, ...] = ()
    if pick.excerpt:
        messages = topic.messages if topic else ()
        is_short = topic is None or topic.size_chars + len(str(pick.excerpt)) <= _SHORT_CHARS
        # A topic of 200,000 characters takes longer than other reranks should wait, a short one less than a thread.
        excerpt = (
            verify(pick.excerpt, messages) if is_short else await asyncio.to_thread(verify, pick.excerpt, messages)
        )
    if topic and topic.size_chars > over_chars and not is_usable(excerpt):
        return await asyncio.to_thread(best_exchanges, query, topic.messages), "scorer"
    return excerpt, "model" if excerpt else ""
