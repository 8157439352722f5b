"""Evaluations: the passes over files of labelled questions, and one of them with its strategies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from memoryapp.evaluation.bootstrap import RESAMPLES
from memoryapp.evaluation.passes import OPEN
from memoryapp.models import Evaluation, Role, Run
from rerankui.access import operator_of, requires, visible_owners
from rerankui.evaluations.forest import forest
from rerankui.evaluations.side_by_side import QuestionRow, StrategyAnswer, StrategyColumn, columns, questions, rows
from rerankui.pages import is_partial, page_of, show

PAGE_SIZE = 20
MOST_EARLIER = 20
MOST_QUESTIONS = 100


@dataclass(frozen=True, slots=True)
class ListedQuestion:
    """A question with its words, empty where its runs are gone, and each strategy's answer with its run."""

    query: str
    asked: QuestionRow
    answers: tuple[tuple[StrategyAnswer | None, str], ...]


@require_safe
@requires(Role.VIEWER)
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
    return show(request, "pages/evaluations/evaluations.html", "partials/evaluations/evaluations.html", context)


@require_safe
@requires(Role.VIEWER)
def evaluation(request: HttpRequest, pk: int) -> HttpResponse:
    """The strategies of a pass; ``against`` in the address names another evaluation to compare them with, ``figure``
    the one that is drawn."""
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


def _listed(asked: Sequence[QuestionRow]) -> list[ListedQuestion]:
    numbers = {number for each in asked for number in each.runs}
    queries = {str(pk): query for pk, query in Run.objects.filter(pk__in=numbers).values_list("pk", "query")}
    return [
        ListedQuestion(
            next((queries[number] for number in each.runs if number in queries), ""),
            each,
            tuple((answer, _run_of(answer, queries)) for answer in each.answers),
        )
        for each in asked
    ]


def _run_of(answer: StrategyAnswer | None, queries: dict[str, str]) -> str:
    """The run's id, empty where it is gone."""
    return str(answer.row["run"]) if answer and answer.row["run"] in queries else ""
