"""How a run ended, for people: what happened, what was used instead, and what to do.

The sentences belong to the code of the outcome, so that the page uses its reader's language; the engine's own note is
for programs. Words of an endpoint or a parser are quoted unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.events import Event, ModelReplied, RunFinished, RunStarted
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline, read_in
from memoryapp.engine.strategies import STRATEGIES
from rerankui.runs.page.notes import error_words, remarks

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
