"""The stability lab of a run: the same question again, unchanged or with what should not matter changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from memoryapp.compare import stability
from memoryapp.compare.comparison import CompareError, compare
from memoryapp.engine.outline import Outline
from memoryapp.models import Role, Run
from memoryapp.runs import forks
from memoryapp.runs.replays import ForkError
from memoryapp.runs.runner import runner
from memoryapp.suggestions import proposals
from memoryapp.suggestions.proposals import ProposalError
from rerankui.access import operator_of, own_run_or_404, requires
from rerankui.compare.matrix import SORTS, matrix_of
from rerankui.compare.state_words import LEGEND, STATE_WORDS
from rerankui.forms import RecallForm
from rerankui.pages import is_partial

USUAL = 5
# Of what the address of the form carries, in characters; servers refuse addresses that are much longer.
_LONGEST_ADDRESS, _LONGEST_FIELD = 1_000, 60
KIND_WORDS: Mapping[str, str | Promise] = {
    "same": _("unchanged"),
    "shuffled": _("candidates shuffled"),
    "without_first": _("without the first candidate"),
    "unrewritten": _("without the enricher"),
    "paraphrased": _("paraphrased"),
    "prompted": _("with another prompt"),
}


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def run_lab(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The form with its cost, and the repetitions that there are; a partial answer is one of both."""
    run = own_run_or_404(request, pk)
    if not run.is_finished:
        raise Http404
    typed = request.POST if request.method == "POST" else request.GET
    made = stability.repetitions(run)
    events = forks.events_of(run)
    context: dict[str, Any] = {"run": run, "memory": run.owner, "typed": typed, "most": stability.MOST_TIMES}
    # Opened, the form proposes the simplest; a form that was sent says by itself what is ticked.
    is_sent = request.method == "POST" or not {"times", "kind"}.isdisjoint(typed)
    kinds = typed.getlist("kind") if is_sent else ["same"]
    times = typed.get("times", str(USUAL))
    error = ""
    try:
        count = int(times) if times.isdecimal() and len(times) < 4 else 0
        wanted = stability.WantedRepetitions(kinds, count, typed.get("paraphrases", ""), typed.get("prompt", ""))
        planned = stability.plan(run, events, wanted, made) if kinds else None
        if request.method == "POST":
            return _begun(request, run, planned)
        context["planned"] = planned
    except (CompareError, ForkError) as refused:
        error = str(refused)
    context["error"] = error
    if is_partial(request) and "times" in request.GET:
        return render(request, "partials/compare/lab_cost.html", context)
    outline = Outline.of(events)
    context |= {
        "kinds": [(kind, KIND_WORDS[kind], kind in kinds) for kind in stability.kinds_of(run, events)],
        "times": times,
        "prompts": stability.other_prompts(events),
        "can_paraphrase": proposals.is_model_connected(),
        "may_ask": operator_of(request).may(Role.DEBUGGER),
        "has_filter": outline.found is not None and not outline.found.by_words_alone,
    }
    context |= _results(request, run, made)
    page = "partials/compare/lab_results.html" if is_partial(request) else "pages/compare/lab.html"
    return render(request, page, context, status=422 if error and request.method == "POST" else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def run_paraphrases(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Lets the model word the question otherwise, and leads back to the form, where its lines stand below those that
    were typed and can be edited before anything is asked; opening it leads there, too."""
    run = own_run_or_404(request, pk)
    answer: HttpResponse = _paraphrased(request, run) if request.method == "POST" else redirect("run_lab", pk=run.pk)
    return answer


@requires(Role.DEBUGGER)
def _paraphrased(request: HttpRequest, run: Run) -> HttpResponse:
    typed = request.POST.copy()
    lines = [line.strip() for line in typed.get("paraphrases", "").splitlines() if line.strip()]
    try:
        lines += proposals.paraphrases_proposed(run.owner, run.query, operator_of(request).user.get_username())
    except ProposalError as refused:
        messages.error(request, str(refused))
    kinds = dict.fromkeys([*typed.getlist("kind"), "paraphrased"])
    pairs = [("kind", kind) for kind in kinds if kind in stability.KINDS]
    pairs += [(name, typed.get(name, "")[:_LONGEST_FIELD]) for name in ("times", "prompt") if typed.get(name)]
    pairs += [("paraphrases", "\n".join(dict.fromkeys(lines))[:_LONGEST_ADDRESS])]
    return redirect(f"{reverse('run_lab', args=[run.pk])}?{urlencode(pairs)}")


def _begun(request: HttpRequest, run: Run, planned: stability.PlannedRepetitions | None) -> HttpResponse:
    """Raises CompareError, ForkError, and PermissionDenied."""
    if not operator_of(request).may(Role.DEBUGGER):
        raise PermissionDenied(RecallForm.NOT_ALLOWED)
    if request.POST.get("stop"):
        stability.stop(run, operator_of(request).user.get_username())
    elif planned is None:
        raise CompareError(str(_("Choose what to repeat.")))
    else:
        for fork in stability.begin(run, planned, operator_of(request).user):
            runner.launch(fork.pk)
    return redirect("run_lab", pk=run.pk)


def _results(request: HttpRequest, run: Run, made: list[Run]) -> dict[str, Any]:
    """The matrix of the run and its repetitions, the share of each topic, and the position bias."""
    ended = [fork for fork in made if fork.is_finished]
    context: dict[str, Any] = {"going": len(made) - len(ended), "made": made}
    if not ended:
        return context
    comparison = compare([run, *ended])
    counts = stability.counted(ended)
    always, sometimes = stability.steadiness(comparison.topics, comparison.runs)
    shuffled = [fork for fork in ended if stability.kind_of(fork) == "shuffled"]
    return context | {
        "matrix": matrix_of(comparison, request.GET.get("sort", "")),
        "sorts": SORTS,
        "legend": [(name, STATE_WORDS[name]) for name in LEGEND],
        "counts": [(KIND_WORDS[kind], counts[kind]) for kind in stability.KINDS if counts.get(kind)],
        "always": always,
        "sometimes": sometimes,
        "bias": stability.position_bias(comparison.topics, shuffled),
        "shuffled": len(shuffled),
    }
