"""How a run ended, in one plain sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.events import RunFinished

INSTEAD_REQUESTED = _("The first topics it had asked to read are used instead.")
INSTEAD_VECTOR = _("The topics nearest by vectors are used instead.")

SENTENCES: dict[str, Promise] = {
    "all_hallucinated": _("The model named only topics that were not among the candidates, so nothing is used."),
    "protocol_violation": _("The model answered without reading any topic, so its answer does not count."),
    "parse_error": _("The model's answer could not be read as a choice."),
    "timeout": _("The time for the whole run was over before the model had chosen."),
    "turn_timeout": _("The model took too long over one turn."),
    "max_tool_calls": _("The model kept asking for topics until its turns were used up."),
    "llm_error": _("The model could not be reached or answered with an error."),
    "empty_response": _("The model answered with nothing, twice."),
    "disabled": _("The reranker is switched off."),
    "no_candidates": _("The search found no topic that could matter, so there was nothing to choose from."),
    "no_vectors": _("No vector of the query could be had, so the topics are those whose words match best."),
    "abandoned": _("The process that worked on this run was stopped, so nothing was chosen."),
    "crashed": _("A fault in the program ended this run; the server's log tells which."),
}
WITHOUT_INSTEAD = {"all_hallucinated", "no_candidates", "no_vectors", "abandoned", "crashed"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``tone`` is chosen, empty or fallback; ``detail`` is what the provider or parser said."""

    tone: str
    sentence: str | Promise
    instead: str | Promise = ""
    detail: str = ""


def outcome(finished: RunFinished | None) -> Outcome | None:
    """The end of a run in words; None while it runs, and where the model simply chose."""
    if finished is None or (not finished.fallback and finished.selected):
        return None
    if not finished.fallback:
        return Outcome("empty", _("The model read the candidates and found nothing relevant. That is respected."))
    sentence = SENTENCES.get(finished.fallback, finished.note or finished.fallback)
    return Outcome("fallback", sentence, _instead(finished), finished.note)


def _instead(finished: RunFinished) -> str | Promise:
    if finished.fallback in WITHOUT_INSTEAD or not finished.selected:
        return ""
    return INSTEAD_REQUESTED if finished.requested else INSTEAD_VECTOR
