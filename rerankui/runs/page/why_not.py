"""Why a run did not choose something, as its page shows it: the way of a candidate with the step that lost it, the
numbers there, and the changes that were tried, each with the address where it can be made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import pgettext_lazy

from memoryapp.engine.events import ModelReplied
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.offline import scorer
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.strategy import NEAREST
from memoryapp.insight.compare import stability
from memoryapp.insight.explain import Explanation
from memoryapp.insight.explain.counterfactuals import Counterfactual
from memoryapp.models import Run, RunEvent, Topic
from memoryapp.runs import forks

# The way of a candidate, in words, each step with the stages that can lose it there.
_STEPS: Mapping[str, tuple[Promise | str, frozenset[str]]] = {
    "memory": (pgettext_lazy("step", "in memory"), frozenset(("unknown", "erased", "in_session"))),
    "found": (pgettext_lazy("step", "found"), frozenset(("not_searched", "no_vector", "filtered"))),
    "shown": (pgettext_lazy("step", "shown"), frozenset(("below_threshold", "beyond_candidates"))),
    "read": (pgettext_lazy("step", "read"), frozenset(("not_requested", "did_not_fit"))),
    "chosen": (pgettext_lazy("step", "chosen"), frozenset(("cut", "not_chosen", "beyond_limit"))),
    "context": (pgettext_lazy("step", "in the context"), frozenset(("not_in_context",))),
    "used": (pgettext_lazy("step", "used"), frozenset(("not_used",))),
}
# Beyond these steps nothing is known unless something was lost there.
_LAST_KNOWN = "context"
# Stages at which a model decided.
_JUDGED = frozenset(("not_requested", "not_chosen"))
_TRIES = 5


@dataclass(frozen=True, slots=True)
class WhyNotView:
    """``error`` is a sentence in place of an explanation; ``asked`` is what was typed. ``prompts`` is the address of
    the lab that tries another version of the prompt, empty where that tells nothing. ``said`` is what the model said
    when it lost it, if it said anything."""

    asked: str = ""
    error: str = ""
    explanation: Explanation | None = None
    way: Sequence[tuple[Promise | str, str]] = ()
    tried: Sequence[dict[str, Any]] = ()
    prompts: str = ""
    others: Sequence[tuple[str, str]] = ()
    said: str = ""


def view_of(run: Run, asked: str, explanation: Explanation) -> WhyNotView:
    """``others`` are topics that may have been meant, as ids with summaries."""
    tried = [_tried(run, each) for each in explanation.counterfactuals]
    way = tuple(_way(run, explanation.stage))
    others = _others(run, explanation.others)
    said = _said(run, explanation.stage)
    return WhyNotView(asked, "", explanation, way, tried, _prompts(run, explanation), others, said)


def _said(run: Run, stage: str) -> str:
    """The reasoning of the turn in which a model judged it: the first chooses what is read, the last among that. The
    embedded scorer says nothing beyond its numbers, which the sentence has."""
    if stage not in _JUDGED:
        return ""
    replies = RunEvent.objects.filter(owner=run.owner_id, run=run, kind=ModelReplied.kind).order_by("seq")
    said = list(replies.exclude(payload__model=scorer.MODEL).values_list("payload__reasoning", flat=True))
    return str((said[0] if stage == "not_requested" else said[-1]) or "") if said else ""


def _others(run: Run, ids: Sequence[str]) -> list[tuple[str, str]]:
    found = Topic.objects.of(run.owner_id).in_bulk([parse_topic_id(id) or 0 for id in ids]) if ids else {}
    return [(topic_id(number), topic.summary) for number, topic in found.items()]


def _prompts(run: Run, explanation: Explanation) -> str:
    """Where a model judged and lost it, the newest other prompt in the lab, with the cost of five tries first."""
    if explanation.stage not in _JUDGED or not settings.LLM_BASE_URL or run.fallback:
        return ""
    others = stability.other_prompts(forks.events_of(run))
    if not others:
        return ""
    query = urlencode([("kind", "prompted"), ("prompt", others[0]), ("times", str(_TRIES))])
    return f"{reverse('run_lab', args=[run.pk])}?{query}"


def _way(run: Run, stage: str) -> Iterator[tuple[Promise | str, str]]:
    """The steps in words, each with its state: passed, lost or ahead."""
    strategy = STRATEGIES.get(run.strategy)
    # Where similarity alone decides, nothing is read.
    is_read = strategy is None or strategy.ranking is not NEAREST
    names = [name for name in _STEPS if name != "read" or is_read]
    lost = next((name for name in names if stage in _STEPS[name][1]), "")
    for name in names[: names.index(_LAST_KNOWN) + 1] if lost != "used" else names:
        words, _stages = _STEPS[name]
        is_passed = not lost or names.index(name) < names.index(lost)
        yield words, "lost" if name == lost else "passed" if is_passed else "ahead"


def _tried(run: Run, each: Counterfactual) -> dict[str, Any]:
    """The change and its result in words, and the address of the editor in which it is filled in."""
    if each.merge:
        query = urlencode([("topics", parse_topic_id(id) or 0) for id in each.merge])
        return {
            "change": each.change,
            "result": each.result,
            "address": f"{reverse('merge', args=[run.owner_id])}?{query}",
            "is_fork": False,
        }
    return {"change": each.change, "result": each.result, "address": _editor(run, each), "is_fork": True}


def _editor(run: Run, each: Counterfactual) -> str:
    """The editor of a fork with the change filled in."""
    given: dict[str, Any] = {} if each.turn is None else {"turn": each.turn}
    for name, value in (each.changes or {}).items():
        if isinstance(value, Mapping):
            given |= {f"p_{key}": one for key, one in value.items()}
        else:
            given[name] = ", ".join(value) if isinstance(value, list | tuple) else value
    return f"{reverse('run_fork', args=[run.pk])}?{urlencode(given)}"
