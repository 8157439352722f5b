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
    "no_model": _(
        "No chat model is connected, or models are switched off, so nothing is answered: these are the passages nearest"
        " to the question."
    ),
    "no_answer": _("The chat model gave no answer that can be used: these are the passages nearest to the question."),
    "searched_plainly": _("Every search of the agent was late, so the question was searched for and answered once."),
    "statements_unsupported": _(
        "Statements of the model left out because the messages they cite do not say so: %(n)d."
    ),
    "wrong_citations": _(
        "Statements of the model that cited a message which does not say so, now with one that does: %(n)d."
    ),
    "nothing_within": _("No message meets the filters %(filters)s."),
    "filters_widened": _(
        "Too little was found within %(filters)s, which was guessed from the question, so messages beyond it were"
        " searched too."
    ),
    "said_by_others": _("The question names %(named)s; what comes nearest to it was said by %(who)s."),
    "filters_unread": _("These filters could not be read, write a day as 2026-05-31: %(filters)s."),
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
    "not_replayable": _("The memory has changed since the run that this one forks, so that its replies no longer fit."),
    "foreign_reranked": _("Chosen is what the program’s reranker returned."),
    "foreign_returned": _("Chosen is what the search of the memory returned of what it had found."),
    "foreign_in_prompt": _("Chosen are the documents whose words the model was sent afterwards."),
    "foreign_all_found": _("The trace does not say what was used, so everything found counts as chosen."),
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
    return (" ".join(map(sentence_of, event.notes)) or stored) if stored else ""


def reading_words(event: ModelReplied) -> str:
    """How an answer was read that came in another way than it should; empty for one that came as it should."""
    return "" if event.error else " ".join(map(sentence_of, event.notes))


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
