"""Evaluations: the passes over files of labelled questions, and one of them with its strategies side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from memoryapp.engine.strategies import STRATEGIES
from memoryapp.insight.evaluation import judgements, passes
from memoryapp.insight.evaluation.passes import OPEN
from memoryapp.insight.evaluation.questions import QuestionsError
from memoryapp.insight.evaluation.scores import RESAMPLES
from memoryapp.insight.misses import keeping
from memoryapp.models import Evaluation, GoldenQuestion, Role, Run
from rerankui.evaluations.side_by_side import (
    QuestionRow,
    StrategyAnswer,
    StrategyColumn,
    columns,
    forest,
    questions,
    rows,
)
from rerankui.frame.access import open_to, operator_of, visible_owners
from rerankui.frame.pages import is_partial, page_of, show

PAGE_SIZE = 20
MOST_EARLIER = 20
MOST_QUESTIONS = 100


@open_to(Role.VIEWER, whole=True)
def evaluations(request: HttpRequest) -> HttpResponse:
    """Each pass once, under the first of its strategies."""
    passes = (
        _visible(request)
        .filter(reference__isnull=True)
        .prefetch_related(Prefetch("beside", Evaluation.objects.order_by("pk")))
    )
    page = page_of(request, passes, ("-started_at", "-id"), PAGE_SIZE)
    context = {"page": page, "may_start": operator_of(request).may(Role.DEBUGGER)}
    context["may_schedule"] = operator_of(request).may(Role.ADMIN)
    context["kept"] = keeping.standing(visible_owners(request))
    return show(request, "pages/evaluations/evaluations.html", "partials/evaluations/evaluations.html", context)


@open_to(Role.VIEWER, whole=True)
def evaluation(request: HttpRequest, pk: int) -> HttpResponse:
    """The strategies of a pass; ``against`` names an evaluation to compare them with, ``figure`` what is drawn."""
    seen = _visible(request)
    chosen = get_object_or_404(seen.select_related("reference"), pk=pk)
    first = chosen.reference or chosen
    beside = [first, *first.beside.order_by("pk")]
    others = _others(seen, beside)
    against = next((each for each in others if str(each.pk) == request.GET.get("against")), None)
    context = {"first": first, "others": others, "against": against, "resamples": RESAMPLES}
    context |= {"is_going": first.state in OPEN, "may_stop": operator_of(request).may(Role.DEBUGGER)}
    if is_partial(request):
        return render(request, "partials/evaluations/progress.html", context)
    shown = columns(against, beside) if against else columns(first, beside[1:])
    return render(
        request,
        "pages/evaluations/evaluation.html",
        context | _tables(shown) | {"forest": forest(shown, request.GET.get("figure", ""))},
    )


def _tables(shown: Sequence[StrategyColumn]) -> dict[str, object]:
    asked = questions(shown)
    return {
        "columns": shown,
        "rows": rows(shown),
        "listed": _listed(asked[:MOST_QUESTIONS]),
        "worse": sum(each.loss > 0 for each in asked),
        "unshown": max(len(asked) - MOST_QUESTIONS, 0),
    }


def _visible(request: HttpRequest) -> QuerySet[Evaluation]:
    """Those whose every run may be seen; one without any run is that of the admins, or of the person who started it."""
    operator = operator_of(request)
    if operator.sees_everyone:
        return Evaluation.objects.all()
    runs = Run.objects.filter(evaluation=OuterRef("pk"))
    owners = visible_owners(request)
    theirs = Exists(runs.filter(owner__in=owners)) | Q(asked_by=operator.user.get_username())
    return Evaluation.objects.filter(theirs, ~Exists(runs.exclude(owner__in=owners)))


def _others(seen: QuerySet[Evaluation], beside: Sequence[Evaluation]) -> list[Evaluation]:
    """The latest other evaluations of a file of that name that have a report."""
    rest = seen.filter(source=beside[0].source).exclude(pk__in=[each.pk for each in beside]).exclude(report={})
    return list(rest[:MOST_EARLIER])


def _listed(asked: Sequence[QuestionRow]) -> list[tuple[str, QuestionRow, list[tuple[StrategyAnswer | None, str]]]]:
    """Each question with its words, empty where its runs are gone, and each strategy's answer with its run."""
    numbers = {number for each in asked for number in each.runs}
    queries = {str(pk): query for pk, query in Run.objects.filter(pk__in=numbers).values_list("pk", "query")}
    return [
        (
            next((queries[number] for number in each.runs if number in queries), ""),
            each,
            [(answer, _run_of(answer, queries)) for answer in each.answers],
        )
        for each in asked
    ]


def _run_of(answer: StrategyAnswer | None, queries: dict[str, str]) -> str:
    """The run's id, empty where it is gone."""
    return str(answer.row["run"]) if answer and answer.row["run"] in queries else ""


# The start of an evaluation from the browser, with what it will cost first, and its end before time.

USUAL = 50
BASELINE = "vector"
USUAL_STRATEGIES = ("flash", BASELINE)


@open_to(Role.DEBUGGER, post=Role.DEBUGGER, whole=True)
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
        "sets": judgements.collections(visible_owners(request)),
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


@open_to(Role.DEBUGGER, post=Role.DEBUGGER, whole=True)
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
