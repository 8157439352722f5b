"""Why a run of another program did not choose a document, as far as its trace says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.engine.memory import document_id
from memoryapp.engine.outline import Outline
from memoryapp.models import Run
from memoryapp.runs import followers


@dataclass(frozen=True, slots=True)
class ForeignFate:
    """What became of a document: a stage as for runs of this memory, a sentence, and the event that decided."""

    stage: str
    id: str
    sentence: str
    numbers: Mapping[str, Any]
    seq: int


def foreign_fate(run: Run, asked: str) -> ForeignFate:
    """The fate of the document with this id, or whose text contains these words."""
    stored = followers.stored(run.pk)
    outline = Outline.of([item.event for item in stored])
    seqs = {type(item.event): item.seq for item in stored}
    document = _document(outline, asked)
    if document is None:
        sentence = _("Nothing like that is in the trace; what %(origin)s has in its memory besides is not known here.")
        return ForeignFate("unknown", "", sentence % {"origin": run.origin}, {}, 0)
    selected = outline.selected(document.id)
    named = {"id": document.id, "rank": document.rank, "origin": run.origin}
    numbers = {"rank": document.rank}
    if selected:
        sentence = _("%(id)s was found as #%(rank)s, and it was chosen as #%(chosen)s.")
        return ForeignFate("chosen", document.id, sentence % {**named, "chosen": selected.rank}, numbers, 0)
    dropped = outline.finished.dropped if outline.finished else ()
    if document.id in dropped:
        sentence = _("%(id)s was found as #%(rank)s, and the reranker of %(origin)s left it out.")
    else:
        sentence = _("%(id)s was found as #%(rank)s, but its words are not in what the model was sent afterwards.")
    last = seqs.get(RunFinished, seqs.get(CandidatesFound, 0))
    return ForeignFate("not_chosen", document.id, sentence % named, numbers, last)


def _document(outline: Outline, asked: str) -> Candidate | None:
    ranked = outline.found.candidates if outline.found else ()
    words = " ".join(asked.casefold().split())
    by_id = (each for each in ranked if each.id in (asked, document_id(asked)))
    by_words = (each for each in ranked if words in " ".join(f"{each.summary} {each.line}".casefold().split()))
    return next(by_id, None) or next(by_words, None)
