"""Notes of events, in the reader's language."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.events import CandidatesFound, ModelReplied, Retried, RunFinished, TopicsRead
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.notes import Note, sentence

# What is said to models and programs in words that people have no use for.
FOR_PEOPLE: dict[str, Promise] = {
    "no_model": _(
        "No chat model is connected, or models are switched off, so nothing is answered: these are the passages nearest"
        " to the question."
    ),
    "no_such_tool": _("The model called the tool {name}, which does not exist."),
    "names_nothing": _("The call named no topics."),
    "already_loaded": _("Already loaded: {ids}."),
}


def remarks(event: CandidatesFound | TopicsRead | Answered | RunFinished) -> str:
    """What an event remarks; events of earlier versions contain English words, which are shown unchanged."""
    return event.note or " ".join(map(sentence_of, event.notes))


def error_words(event: ModelReplied | Retried) -> str:
    """What failed; empty for a turn with an answer. Errors without notes are shown as they were stored."""
    stored = event.error if isinstance(event, ModelReplied) else event.why
    return (" ".join(map(sentence_of, event.notes)) or stored) if stored else ""


def reading_words(event: ModelReplied) -> str:
    """How an answer was read that came in another way than it should; empty for one that came as it should."""
    return "" if event.error else " ".join(map(sentence_of, event.notes))


def sentence_of(note: Note) -> str:
    own = FOR_PEOPLE.get(note.code)
    return sentence(note, gettext if own is None else lambda _english: str(own))
