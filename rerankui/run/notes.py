"""Notes of events, in the reader's language."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.events import CandidatesFound, ModelReplied, Retried, RunFinished, TopicsRead
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.notes import Note, english
from rerankui.text import endpoint_words, file_words
from rerankui.text.counts import grouped

WORDS: dict[str, Promise] = {
    "none_similar": _(
        "No topic is similar enough to the query (the best %(best).2f, at least %(threshold).2f):"
        " the assistant answers without context."
    ),
    "all_filtered": _(
        "Everything that was found was filtered out (the best %(best).2f, at least %(threshold).2f):"
        " the assistant answers without context."
    ),
    "extracts_only": _("No model was asked: the answer is put together of what the messages say."),
    "model_failed": _(
        "The model gave no answer that can be used, so the answer is put together of what the messages say."
    ),
    "low_coverage": _("The messages found speak of %(coverage).2f of the question, at least %(least).2f is needed."),
    "unsupported": _(
        "Of the claims checked %(support).2f are confirmed by the messages, at least %(least).2f is needed."
    ),
    "statements_uncited": _("Statements of the model left out because they cite no message that was found: %(n)d."),
    "nothing_found": _("Nothing in the memory speaks of this."),
    "no_vector_in_time": _("The embedding model gave no vector within %(seconds).3g s."),
    "no_such_tool": _("The model called the tool %(name)s, which does not exist."),
    "names_nothing": _("The call named no topics."),
    "out_of_time": _("The call could not be answered in the time that was left."),
    "topics_out_of_time": _("The topics could not be loaded in the time that was left."),
    "not_candidates": _("Not among the candidates: %(ids)s."),
    "already_loaded": _("Already loaded: %(ids)s."),
    "no_longer_stored": _("No longer stored: %(ids)s."),
    "cut": _("Cut at %(limit)s characters: %(ids)s."),
    **endpoint_words.WORDS,
    **file_words.WORDS,
}


def remarks(event: CandidatesFound | TopicsRead | Answered | RunFinished) -> str:
    """What an event remarks; events of earlier versions contain English words, which are shown unchanged."""
    return event.note or " ".join(map(sentence_of, event.notes))


def error_words(event: ModelReplied | Retried) -> str:
    """What failed; empty for a turn with an answer. Errors without notes are shown as they were stored."""
    stored = event.error if isinstance(event, ModelReplied) else event.why
    return " ".join(map(sentence_of, event.notes)) or stored


def sentence_of(note: Note) -> str:
    if note.code not in WORDS:
        return english([note])
    return str(WORDS[note.code]) % {name: _written(name, value) for name, value in note.values.items()}


def _written(name: str, value: Any) -> Any:
    if name == "quoted":
        return f": {value}" if value else ""
    if name == "most":
        return grouped(value)
    return ", ".join(value) if isinstance(value, list) else value
