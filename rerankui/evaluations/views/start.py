"""The start of an evaluation from the browser, with what it will cost first, and its end before time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from memoryapp.engine.strategies import STRATEGIES
from memoryapp.evaluation import passes
from memoryapp.evaluation.judgements import golden
from memoryapp.evaluation.questions import QuestionsError
from memoryapp.models import Evaluation, GoldenQuestion, Role
from rerankui.access import operator_of, requires, visible_owners
from rerankui.pages import is_partial

USUAL = 50
BASELINE = "vector"
USUAL_STRATEGIES = ("flash", BASELINE)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.DEBUGGER)
def evaluation_new(request: HttpRequest) -> HttpResponse:
    """The form; a partial answer is the forecast for what is chosen so far."""
    typed = request.POST if request.method == "POST" else request.GET
    name, limit = typed.get("set", ""), _limit(typed)
    strategies = [each for each in STRATEGIES if each in typed.getlist("strategies")]
    strategies.sort(key=lambda each: each != BASELINE)
    rows = GoldenQuestion.objects.filter(owner__in=visible_owners(request), collection=name).order_by("pk")[:limit]
    error = ""
    if request.method == "POST":
        try:
            by = operator_of(request).user.get_username()
            return redirect("evaluation", pk=passes.begin(list(rows), strategies, source=name, by=by).pk)
        except QuestionsError as refused:
            error = str(refused)
    context: dict[str, Any] = {
        "sets": golden.collections(visible_owners(request)),
        "chosen_set": name,
        "limit": limit,
        "most": passes.MOST_QUESTIONS,
        "strategies": [(each, each in (strategies or USUAL_STRATEGIES)) for each in STRATEGIES],
        "baseline": BASELINE,
        "error": error,
    }
    if name and strategies:
        context["forecast"] = passes.forecast(visible_owners(request), rows.count(), strategies)
    template = "partials/evaluations/forecast.html" if is_partial(request) else "pages/evaluations/evaluation_new.html"
    return render(request, template, context, status=422 if error else 200)


def _limit(typed: Mapping[str, str]) -> int:
    given = typed.get("limit", "")
    return min(max(int(given), 1), passes.MOST_QUESTIONS) if given.isdecimal() and len(given) < 6 else USUAL


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.DEBUGGER)
def evaluation_stop(request: HttpRequest, pk: int) -> HttpResponse:
    """Ends an evaluation that this operator started, or any for an admin; it reports on what was asked."""
    operator = operator_of(request)
    own = (
        Evaluation.objects.all()
        if operator.sees_everyone
        else Evaluation.objects.filter(asked_by=operator.user.get_username())
    )
    found = get_object_or_404(own, pk=pk)
    if request.method == "POST":
        passes.stop(found)
    return redirect("evaluation", pk=pk)
