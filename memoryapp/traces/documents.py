"""The documents of a foreign memory as candidates of a run.

A document has its own id where the program sends one, so that runs of that program can be compared; otherwise one made
of its text. The id says ``Document:``, which is no topic of this installation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from memoryapp.engine.candidates import RANKED, Candidate
from memoryapp.engine.memory import document_id
from memoryapp.traces.steps import ForeignDocument

LONGEST_TITLE = 200
LONGEST_DOCUMENT = 20_000
_NAME = re.compile(r"[\w.:@+-]{1,60}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def id_of(document: ForeignDocument) -> str:
    if _NAME.fullmatch(document.id):
        return document_id(document.id)
    words = document.id or document.text or document.title
    return document_id(hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:8])


def once_each(lists: Iterable[Sequence[ForeignDocument]]) -> list[ForeignDocument]:
    """The documents of several searches: by their best place in any of them, each once."""
    places: dict[str, tuple[int, int]] = {}
    found: dict[str, ForeignDocument] = {}
    for number, listed in enumerate(lists):
        for place, document in enumerate(listed):
            id = id_of(document)
            if id not in places or (place, number) < places[id]:
                places[id], found[id] = (place, number), document
    return [found[id] for id in sorted(found, key=lambda id: places[id])][:RANKED]


def joined(found: Sequence[ForeignDocument], beyond: Iterable[ForeignDocument]) -> list[ForeignDocument]:
    """The documents that were found, then those ``beyond`` them that are none of these."""
    known = {id_of(each) for each in found}
    return [*found, *(each for each in beyond if id_of(each) not in known)][:RANKED]


def candidates(documents: Sequence[ForeignDocument]) -> tuple[Candidate, ...]:
    """The documents in this order, none of them twice."""
    return tuple(_candidate(document, rank) for rank, document in enumerate(documents, start=1))


def _candidate(document: ForeignDocument, rank: int) -> Candidate:
    score = document.score or 0.0
    day = _DAY.match(document.date)
    return Candidate(
        id=id_of(document),
        rank=rank,
        vector_rank=0,
        cosine=0.0,
        bm25=0.0,
        fused=score,
        score=score,
        date=day[0] if day else "",
        message_count=0,
        size_chars=len(document.text),
        summary=_title(document),
        line=document.text[:LONGEST_DOCUMENT],
        shown=True,
    )


def _title(document: ForeignDocument) -> str:
    words = " ".join((document.title or document.text or document.id).split())
    return words if len(words) <= LONGEST_TITLE else words[: LONGEST_TITLE - 1] + "…"
