"""Runs compared: two side by side, more as a matrix; and what a run may be compared with."""

from typing import Any
from uuid import UUID

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from memoryapp.insight.compare.comparison import MOST_RUNS, CompareError, RunComparison, compare, meanwhile
from memoryapp.models import Role, Run
from rerankui.compare.pair import LEGEND, SORTS, STATE_WORDS, matrix_of, pair_of
from rerankui.frame.access import open_to, run_or_404, visible_owners
from rerankui.frame.pages import show

# How many runs are proposed of each kind.
PROPOSED = 8


@open_to(Role.VIEWER)
def compared(request: HttpRequest) -> HttpResponse:
    """Two runs, or a matrix of more; a matrix is also shown while some of its runs go on."""
    runs = _runs(request)
    context: dict[str, Any] = {"runs": runs, "memory": runs[0].owner if runs else None}
    ended = [run for run in runs if run.is_finished]
    context["going"] = len(runs) - len(ended)
    try:
        comparison = compare(ended if len(runs) > 2 else runs)
    except CompareError as error:
        context["error"] = "" if len(runs) > 2 and context["going"] else str(error)
        return _shown(request, context, 422 if context["error"] else 200)
    if len(runs) > 2:
        context["matrix"] = matrix_of(comparison, request.GET.get("sort", ""))
        context["is_one_query"] = len({run.query for run in runs}) == 1
        context |= {"sorts": SORTS, "legend": [(name, STATE_WORDS[name]) for name in LEGEND]}
    else:
        context |= _pair_context(comparison)
    return _shown(request, context)


def _shown(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    return show(request, "pages/compare/compare.html", "partials/compare/compare.html", context, status=status)


def _pair_context(comparison: RunComparison) -> dict[str, Any]:
    a, b = comparison.runs
    return {
        "pair": pair_of(comparison),
        "divergence": comparison.divergence,
        "meanwhile": None if a.is_foreign and b.is_foreign else meanwhile(a, b),
        "left_out": comparison.left_out,
    }


def _runs(request: HttpRequest) -> list[Run]:
    """The runs that the address names, in its order. Raises Http404 for one that is not there or may not be seen."""
    named = list(dict.fromkeys(_id(given) for given in request.GET.getlist("run")[: MOST_RUNS + 1]))
    seen = Run.objects.filter(owner__in=visible_owners(request), pk__in=named).select_related("owner", "prompt")
    found = {run.pk: run for run in seen}
    if len(found) < len(named):
        raise Http404
    return [found[pk] for pk in named]


def _id(given: str) -> UUID:
    try:
        return UUID(given.strip())
    except ValueError as error:
        raise Http404 from error


@open_to(Role.VIEWER)
def run_compare(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What this run may be compared with: the run that it was forked from, its forks, earlier runs of the question."""
    run = run_or_404(request, pk)
    context = {"run": run, "memory": run.owner, "proposals": list(_proposals(run))}
    return show(request, "pages/compare/choose.html", "partials/compare/choose.html", context)


def _proposals(run: Run) -> list[dict[str, Any]]:
    """Runs that it may be compared with, and why."""
    ended = Run.objects.of(run.owner_id).by_hand().filter(state=Run.State.FINISHED).exclude(pk=run.pk)
    ended = ended.select_related("owner", "prompt")
    kinds: list[tuple[str | Promise, Q]] = [
        (_FORKED_FROM, Q(pk=run.parent_id)),
        (_FORKS, Q(parent=run)),
        (_SAME_QUESTION, Q(query=run.query)),
        (_LATEST, Q()),
    ]
    proposed: list[dict[str, Any]] = []
    seen = {run.pk}
    for why, condition in kinds:
        found = [each for each in ended.filter(condition)[: PROPOSED + len(seen)] if each.pk not in seen][:PROPOSED]
        seen |= {each.pk for each in found}
        proposed += [{"why": why, "runs": found}] if found else []
    return proposed


_FORKED_FROM = gettext_lazy("The run that it was forked from")
_FORKS = gettext_lazy("Its forks")
_SAME_QUESTION = gettext_lazy("Other runs of this question")
_LATEST = gettext_lazy("The latest runs of this memory")
