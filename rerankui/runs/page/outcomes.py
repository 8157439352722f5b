"""How a run ended, for people: what happened, what was used instead, and what to do. The sentences belong to the code
of the outcome, so that the page uses its reader's language; the engine's own note is for programs. Words of an endpoint
or a parser are quoted unchanged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    Retried,
    RunFinished,
    RunStarted,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.kinds.kind import Activity
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.notes import Note, sentence
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline, read_in
from memoryapp.engine.strategies import STRATEGIES, needs_model
from memoryapp.models import Run

# Notes of events, in the reader's language.

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


# What nothing was found for, because of the filters of the run.
NOTHING_WITHIN = frozenset({"phrase_absent", "nothing_within"})

# In a list, where there is room for two words.
NAMES: dict[str, Promise] = {
    "all_hallucinated": pgettext_lazy("outcome", "only unknown ids"),
    "protocol_violation": pgettext_lazy("outcome", "answer without reading"),
    "parse_error": pgettext_lazy("outcome", "unreadable answer"),
    "timeout": pgettext_lazy("outcome", "run too slow"),
    "turn_timeout": pgettext_lazy("outcome", "turn too slow"),
    "max_tool_calls": pgettext_lazy("outcome", "kept asking"),
    "llm_error": pgettext_lazy("outcome", "model error"),
    "empty_response": pgettext_lazy("outcome", "empty answer"),
    "refused": pgettext_lazy("outcome", "model refused"),
    "content_filter": pgettext_lazy("outcome", "content filter"),
    "disabled": pgettext_lazy("outcome", "reranker off"),
    "no_candidates": pgettext_lazy("outcome", "no candidates"),
    "no_vectors": pgettext_lazy("outcome", "no vectors"),
    "stopped": pgettext_lazy("outcome", "stopped by hand"),
    "abandoned": pgettext_lazy("outcome", "process stopped"),
    "crashed": pgettext_lazy("outcome", "program fault"),
}
# How a run ends otherwise, by ``Run.ending``.
CHOICES: dict[str, Promise] = {
    "chosen": _("something chosen"),
    "none": _("nothing fits"),
    "unanswered": pgettext_lazy("agents", "no answer"),
}
# The same of an agent's question, which is no run.
NO_ANSWER: dict[str, Promise] = {
    **{code: NAMES[code] for code in ("parse_error", "empty_response", "llm_error", "refused", "content_filter")},
    "timeout": pgettext_lazy("outcome", "no answer in time"),
    "cut": pgettext_lazy("outcome", "answer cut off"),
}
SENTENCES: dict[str, Promise] = {
    "all_hallucinated": _("The model named only ids that were not among the candidates."),
    "protocol_violation": _("The model answered without reading any topic, so its answer does not count."),
    "parse_error": _("The model's answer could not be read as a choice."),
    "timeout": _("The time for the whole run was over before the model had chosen."),
    "turn_timeout": _("The model took too long over one turn."),
    "max_tool_calls": _("The model kept asking for topics until its turns were used up."),
    "llm_error": _("The model could not be reached or answered with an error."),
    "empty_response": _("The model answered with nothing, twice."),
    "refused": _("The model refused to answer."),
    "content_filter": _("The endpoint's content filter stopped the answer."),
    "disabled": _("The reranker is switched off, so no model was asked."),
    "no_candidates": _("The search found nothing that could matter, so there was nothing to choose from."),
    "no_vectors": _("There was no vector of the query."),
    "stopped": _("%(by)s stopped this run before the model had chosen."),
    "abandoned": _("The process that worked on this run was stopped, or lost its database, before the run had ended."),
    "crashed": _("A fault in the program ended this run."),
}
ADVICE: dict[str, Promise] = {
    "all_hallucinated": _(
        "The ids it named are listed under the result. A stronger model (RERANKER_MODEL) or fewer candidates "
        "(RERANKER_CANDIDATES) may help."
    ),
    "protocol_violation": _(
        "Choose a model that calls tools (RERANKER_MODEL), or accept such answers with RERANKER_TOOL_MODE=auto."
    ),
    "parse_error": _(
        "Its answer is shown under the last turn. Choose a model that writes valid JSON (RERANKER_MODEL), or try "
        "another prompt."
    ),
    "timeout": _("Raise RERANKER_TIMEOUT (this run had %(seconds)g s), or choose a faster model (RERANKER_MODEL)."),
    "turn_timeout": _(
        "Raise RERANKER_TURN_TIMEOUT (a turn of this run had %(turn_seconds)g s), or choose a faster model"
        " (RERANKER_MODEL)."
    ),
    "max_tool_calls": _(
        "Raise RERANKER_MAX_TOOL_CALLS (this run had %(max_tool_calls)s), or choose another model (RERANKER_MODEL)."
    ),
    "llm_error": _("Check LLM_BASE_URL, LLM_API_KEY and the name of the model."),
    "empty_response": _(
        "Ask again: a provider may not answer while it loads a model. If it stays so, choose another one "
        "(RERANKER_MODEL)."
    ),
    "refused": _(
        "Its words are shown here. Ask in other words, or choose a model that accepts such questions (RERANKER_MODEL)."
    ),
    "content_filter": _(
        "The provider does not accept the question or what was read. Ask in other words, or choose another model "
        "(RERANKER_MODEL) or provider (LLM_PROVIDER)."
    ),
    "disabled": _("Set RERANKER_ENABLED=true to let a model choose."),
    "no_candidates": _("Ask in other words, or check whether the conversation is archived: only topics are searched."),
    "no_vectors": _("Check EMBEDDING_BASE_URL, EMBEDDING_API_KEY and EMBEDDING_MODEL."),
    "stopped": _("Ask again."),
    "abandoned": _(
        "Ask again. If it happens often, check whether the server runs out of memory or the database is restarted."
    ),
    "crashed": _("Look for this run's number in the server's log, and report the fault."),
}
# What to do about an ``llm_error``, by the status that the endpoint answered with.
REFUSED_ADVICE: dict[int, Promise] = {
    401: _("The endpoint does not accept the API key: check LLM_API_KEY."),
    402: _("The account at the provider has no credit left: top it up, or use another key (LLM_API_KEY)."),
    403: _("Check at the provider what the key may do (LLM_API_KEY), and whether its moderation stopped the request."),
    404: _("Check LLM_BASE_URL and the name of the model (RERANKER_MODEL, LLM_MODEL)."),
    413: _("Show the model fewer or shorter topics (RERANKER_CANDIDATES, RERANKER_READ_CHARS)."),
    429: _("The provider limits requests: ask again in a while, or raise the limit there."),
}
FAILING_ADVICE = _(
    "The endpoint itself fails: ask again in a while. If it stays so, choose another model (RERANKER_MODEL) or"
    " endpoint (LLM_BASE_URL)."
)
FILTERED_OUT = {"none_similar", "all_filtered"}
FILTERED_ADVICE = _("The filter lab shows where other cuts would have left something.")
EXPECTED = _("If you expected a topic, check among the candidates whether it was found, and whether it was read.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """``tone`` is empty or fallback; ``quote`` is the endpoint's or the embedding model's own message, unchanged."""

    tone: str
    code: str
    sentence: str | Promise
    instead: str
    advice: str
    quote: str = ""


def outcome(events: Sequence[Event]) -> Outcome | None:
    """The end of a run in words; None while it runs, and where the model simply chose."""
    finished = events[-1] if events else None
    if not isinstance(finished, RunFinished):
        return None
    if outside := next((note for note in finished.notes if note.code in NOTHING_WITHIN), None):
        return Outcome("empty", "empty", sentence_of(outside), "", "")
    if finished.fallback:
        sentence = str(SENTENCES.get(finished.fallback, finished.note or finished.fallback))
        if finished.stopped_by:
            sentence %= {"by": finished.stopped_by}
        return Outcome(
            "fallback",
            finished.fallback,
            sentence,
            _instead(finished),
            _advice(finished.fallback, events),
            _quote(finished, events),
        )
    if finished.selected or finished.people or finished.artifacts or _is_foreign(events):
        return None
    if any(isinstance(event, Answered) for event in events):
        return Outcome("empty", "empty", remarks(finished), "", str(EXPECTED))
    if finished.notes and finished.notes[0].code in FILTERED_OUT:
        return Outcome("empty", "empty", remarks(finished), "", str(FILTERED_ADVICE))
    return Outcome("empty", "empty", _nothing_relevant(events), "", str(EXPECTED))


def _is_foreign(events: Sequence[Event]) -> bool:
    """Whether another program made the run: what it did not choose says nothing of this memory."""
    first = events[0]
    return isinstance(first, RunStarted) and first.strategy not in STRATEGIES


def _nothing_relevant(events: Sequence[Event]) -> str:
    read, started = read_in(events), Outline.of(events).started
    if started and started.model == EMBEDDED_MODEL:
        return ngettext(
            "Not sure: no chat model is connected, and the %(n)d topic that the embedded scorer read is not near enough"
            " to the question.",
            "Not sure: no chat model is connected, and none of the %(n)d topics that the embedded scorer read is near"
            " enough to the question.",
            len(read),
        ) % {"n": len(read)}
    return ngettext(
        "The model read %(n)d topic and found nothing relevant. That is respected.",
        "The model read %(n)d topics and found nothing relevant. That is respected.",
        len(read),
    ) % {"n": len(read)}


def _instead(finished: RunFinished) -> str:
    count = len(finished.selected)
    if not count:
        return gettext("Nothing is used instead.")
    if finished.requested:
        sentence = ngettext(
            "The topic it had asked to read is used instead.",
            "The first %(n)d topics it had asked to read are used instead.",
            count,
        )
    elif any(selected.vector_rank for selected in finished.selected):
        sentence = ngettext(
            "The topic nearest by vectors is used instead.",
            "The %(n)d topics nearest by vectors are used instead.",
            count,
        )
    else:
        sentence = ngettext(
            "The topic whose words match best is used instead.",
            "The %(n)d topics whose words match best are used instead.",
            count,
        )
    return sentence % {"n": count}


def _advice(fallback: str, events: Sequence[Event]) -> str:
    advice = str(_advice_by_status(events) if fallback == "llm_error" else ADVICE.get(fallback, ""))
    started = Outline.of(events).started
    parameters: Mapping[str, Any] = started.parameters if started else {}
    try:
        return advice % parameters
    except (KeyError, TypeError):  # a run from before the parameter was recorded
        return ""


def _advice_by_status(events: Sequence[Event]) -> str | Promise:
    statuses = [event.status for event in events if isinstance(event, ModelReplied) and event.error]
    status = statuses[-1] if statuses else 0
    return FAILING_ADVICE if status >= 500 else REFUSED_ADVICE.get(status, ADVICE["llm_error"])


def _quote(finished: RunFinished, events: Sequence[Event]) -> str:
    if finished.fallback == "no_vectors":
        return remarks(finished)
    if finished.fallback in {"refused", "content_filter"}:
        replies = [event.refusal or event.text for event in events if isinstance(event, ModelReplied)]
        return replies[-1] if replies else ""
    errors = [error_words(event) for event in events if isinstance(event, ModelReplied) and event.error]
    return errors[-1] if errors and finished.fallback in {"llm_error", "timeout", "turn_timeout"} else ""


# What the trace of another program does not say, in sentences: its run page would otherwise look complete.


def chosen_words(run: Run, count: int) -> str:
    """How many topics a run chose, as a form with ``n``; a foreign run chose documents."""
    if run.is_foreign:
        return ngettext("%(n)s document", "%(n)s documents", count)
    return ngettext("%(n)s topic", "%(n)s topics", count)


def missing(run: Run, events: Sequence[Event]) -> list[str]:
    """The sentences for a foreign run; none for a run of this memory."""
    return list(_missing(events)) if run.is_foreign else []


def _missing(events: Sequence[Event]) -> Iterator[str]:
    outline = Outline.of(events)
    if outline.found is None:
        yield gettext("The trace contains no search, so there are no candidates.")
    elif not outline.found.candidates:
        yield gettext("The program did not send what its search found.")
    else:
        if not any(each.score for each in outline.found.candidates):
            yield gettext("The program sent no scores.")
        if not any(each.line for each in outline.found.candidates):
            yield gettext("The program did not send the texts of the documents.")
    yield from _of_model(outline.replies, [event for event in events if isinstance(event, TurnStarted)])
    if outline.finished and outline.finished.notes:
        yield remarks(outline.finished)


def _of_model(replies: Sequence[ModelReplied], turns: Sequence[TurnStarted]) -> Iterator[str]:
    if not replies:
        yield gettext("The trace contains no call of a chat model.")
        return
    if not any(turn.prompt for turn in turns):
        yield gettext("The program did not send the messages to its model.")
    if not any(reply.text or reply.tool_calls or reply.error for reply in replies):
        yield gettext("The program did not send the answers of its model.")
    if not any(reply.reasoning for reply in replies):
        yield gettext("It sent no reasoning.")
    if not any(reply.input_tokens or reply.output_tokens for reply in replies):
        yield gettext("It sent no counts of tokens.")


# What a run does after each of its events, in words: in a live run now, in a replay at that time.

# The part of the page that shows it, and its words.
_DOES: Mapping[Activity, tuple[str, str | Promise]] = {
    "enrich": ("enrich", gettext_lazy("Rewriting the query…")),
    "search": ("search", gettext_lazy("Searching the memory…")),
    "tools": ("search", gettext_lazy("Working with tools…")),
    "read": ("read", gettext_lazy("Reading topics…")),
    "turn": ("turn", gettext_lazy("Turn %(n)d: thinking")),
    "ask": ("turn", gettext_lazy("Asking the model…")),
    "retry": ("turn", gettext_lazy("Turn %(n)d: trying again")),
    "filter": ("turn", gettext_lazy("Filtering…")),
    "plan": ("turn", gettext_lazy("Planning…")),
    "check": ("turn", gettext_lazy("Checking the answer…")),
    "answer": ("turn", gettext_lazy("Answering…")),
    "locate": ("turn", gettext_lazy("Locating the sources…")),
    "": ("", ""),
}


@dataclass(frozen=True, slots=True)
class RunActivity:
    """``name`` is wait, enrich, search, turn or read, and empty when the run is over."""

    name: str
    words: str


def activity_after(event: Event | None, turn: int = 0) -> RunActivity:
    """The activity that begins with this event of that turn; before the first event the run waits for a process."""
    if event is None:
        return RunActivity("wait", gettext("Waiting for a process to begin this run…"))
    is_searched_as_typed = isinstance(event, RunStarted) and not needs_model(event.strategy)
    name, words = _DOES["search" if is_searched_as_typed else event.activity()]
    return RunActivity(name, str(words) % {"n": turn})


def turn_of(event: Event) -> int | None:
    return getattr(event, "turn", None)
