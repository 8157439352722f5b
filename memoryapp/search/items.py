"""People and artifacts as candidates.

A person or artifact is found by its card, which is scored like a passage. People close to the user are not left out:
the inner circle is part of the background anyway, and its members are still found and described in full. Files of the
running conversation come first whatever the query, because people refer to them without naming them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.fusion import descending
from memoryapp.engine.memory import item_id
from memoryapp.engine.text.lines import artifact_line, person_line, texts_of
from memoryapp.operations.database import SqlRead
from memoryapp.search.scores import ScoredTexts
from memoryapp.search.similarity import WORDINGS

SESSION_ARTIFACTS = 5
_NAME_CHARS = 200

PEOPLE = """
SELECT id, display_name, username, aliases, circle, mention_count, bio FROM memoryapp_person
WHERE owner_id = %(owner)s AND id = ANY(%(people)s)
"""
ARTIFACTS = """
SELECT id, file_type, name, keywords, entities, summary, rag_hints, false FROM memoryapp_artifact
WHERE owner_id = %(owner)s AND id = ANY(%(artifacts)s)
UNION ALL (
    SELECT a.id, a.file_type, a.name, a.keywords, a.entities, a.summary, a.rag_hints, true
    FROM memoryapp_artifact a JOIN memoryapp_message m ON m.id = a.message_id
    WHERE a.owner_id = %(owner)s AND m.owner_id = %(owner)s AND m.topic_id IS NULL AND NOT m.is_withdrawn
    AND a.state <> 'failed' AND m.sent_at > now() - interval '24 hours'
    ORDER BY m.sent_at DESC, a.id DESC LIMIT %(session)s
)
"""


@dataclass(frozen=True, slots=True)
class _RankedItem:
    """One person or artifact: its row number, and the fields of its candidate that the search computes."""

    number: int
    scores: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RankedItems:
    """People and artifacts, best first."""

    people: tuple[_RankedItem, ...]
    artifacts: tuple[_RankedItem, ...]


def find_items(
    cards: ScoredTexts, threshold: float, *, shown: tuple[int, int], most: int, but: Sequence[int] = ()
) -> RankedItems:
    """The best ``most`` of each kind, of which ``shown`` (people, artifacts) may be shown, without the people ``but``.
    Equal scores are ordered by number."""
    people = np.flatnonzero((cards.items > 0) & ~np.isin(cards.items, but))
    return RankedItems(
        people=_ranked(cards, people, threshold, shown[0], most),
        artifacts=_ranked(cards, np.flatnonzero(cards.items < 0), threshold, shown[1], most),
    )


def _ranked(
    cards: ScoredTexts, places: NDArray[np.intp], threshold: float, shown: int, most: int
) -> tuple[_RankedItem, ...]:
    if not len(places):
        return ()
    numbers = np.abs(cards.items[places])
    order = np.lexsort((numbers, -cards.fused[places]))[:most]
    cosine = cards.cosine[places]
    nearest = {
        int(at): rank for rank, at in enumerate(descending(cosine).tolist(), start=1) if cosine[at] == cosine[at]
    }
    beyond = len(nearest) + 1 if nearest else 0
    relevant = cards.relevant(threshold)[places]
    seen = set(order[relevant[order]][:shown].tolist())
    columns = cards.numbers(places[order])
    names = [each.name for each in fields(columns)]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*(getattr(columns, name) for name in names), strict=True))
    ranks = {
        wording: {at: rank for rank, at in enumerate(np.lexsort((numbers, -fused[places])).tolist(), start=1)}
        for wording, fused in zip(WORDINGS, cards.by_wording, strict=False)
    }

    def found_by(at: int) -> dict[str, int]:
        return {wording: ranks[wording][at] for wording in ranks} if at in seen else {}

    return tuple(
        _RankedItem(
            int(numbers[at]),
            {"vector_rank": nearest.get(at, beyond), "shown": at in seen, "found_by": found_by(at), **row},
        )
        for at, row in zip(order.tolist(), rows, strict=True)
    )


def people_read(owner_id: int, found: Sequence[_RankedItem]) -> SqlRead[tuple[ItemCandidate, ...]]:
    """Reads the found people, as candidates; a person who was erased meanwhile is left out."""
    numbers = [each.number for each in found]
    return SqlRead((PEOPLE, {"owner": owner_id, "people": numbers}) if numbers else None, partial(_people, found))


def artifacts_read(owner_id: int, found: Sequence[_RankedItem]) -> SqlRead[tuple[ItemCandidate, ...]]:
    """Reads the found artifacts and the files of the running conversation, as candidates: those files first, newest
    first, then the others."""
    values = {"owner": owner_id, "artifacts": [each.number for each in found], "session": SESSION_ARTIFACTS}
    return SqlRead((ARTIFACTS, values), partial(_artifacts, found))


def _people(found: Sequence[_RankedItem], rows: Iterable[Sequence[Any]]) -> tuple[ItemCandidate, ...]:
    known = {row[0]: row[1:] for row in rows}
    here = [each for each in found if each.number in known]
    return tuple(_person(each, rank, known[each.number]) for rank, each in enumerate(here, start=1))


def _artifacts(found: Sequence[_RankedItem], rows: Iterable[Sequence[Any]]) -> tuple[ItemCandidate, ...]:
    rows = list(rows)
    session = {row[0]: row[1:-1] for row in rows if row[-1]}
    known = {row[0]: row[1:-1] for row in rows if not row[-1] and row[0] not in session}
    first = [_session_file(number, rank, row) for rank, (number, row) in enumerate(session.items(), start=1)]
    here = [each for each in found if each.number in known]
    rest = [_artifact(each, rank, known[each.number]) for rank, each in enumerate(here, start=len(first) + 1)]
    return (*first, *rest)


def _person(each: _RankedItem, rank: int, row: Sequence[Any]) -> ItemCandidate:
    id = item_id("Person", each.number)
    name, username, aliases, circle, mentions, bio = row
    shown = (name, username, texts_of(aliases), circle, mentions, bio)
    line = person_line(id, each.scores["score"], *shown) if each.scores["shown"] else ""
    return ItemCandidate(id=id, rank=rank, name=_name(name), line=line, **each.scores)


def _artifact(each: _RankedItem, rank: int, row: Sequence[Any]) -> ItemCandidate:
    id = item_id("Artifact", each.number)
    line = _line(id, each.scores["score"], row) if each.scores["shown"] else ""
    return ItemCandidate(id=id, rank=rank, name=_name(row[1]), line=line, **each.scores)


def _session_file(number: int, rank: int, row: Sequence[Any]) -> ItemCandidate:
    id = item_id("Artifact", number)
    scores: dict[str, Any] = {"vector_rank": 0, "cosine": 0.0, "bm25": 0.0, "fused": 0.0, "score": 0.0}
    line = _line(id, 0.0, row, in_session=True)
    return ItemCandidate(id=id, rank=rank, name=_name(row[1]), line=line, shown=True, in_session=True, **scores)


def _line(id: str, score: float, row: Sequence[Any], *, in_session: bool = False) -> str:
    file_type, name, keywords, entities, summary, hints = row
    described = texts_of(keywords), texts_of(entities), summary, texts_of(hints)
    return artifact_line(id, score, file_type, name, *described, in_session=in_session)


def _name(name: str) -> str:
    return " ".join(name.split())[:_NAME_CHARS]
