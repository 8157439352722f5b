"""Grades of the candidates of a run: the strip at the foot of its page, and a page to judge on, blind if wished."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from memoryapp.engine.outline import Outline
from memoryapp.insight.evaluation import judgements
from memoryapp.insight.evaluation.judgements import GoldenError, GradeError, Opinion, RunGrades
from memoryapp.models import Role, Run
from memoryapp.runs import followers
from rerankui.frame.access import open_to, operator_of, own_run_or_404, visible_owners
from rerankui.frame.pages import is_partial, show

VALUES = {"0": 0, "1": 1, "2": 2, "": None}
DEFAULT_SET = "judged"


@open_to(Role.VIEWER, post=Role.VIEWER)
def run_grades(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The candidates to judge; for htmx the strip. A grade is sent here as well, for a candidate or a message."""
    run = _finished(request, pk)
    error = ""
    if request.method == "POST":
        try:
            _grade(request, run)
        except GradeError as refused:
            error = str(refused)
        if not is_partial(request) and not error:
            blind = "?blind=1" if request.POST.get("blind") else ""
            return redirect(f"{reverse('run_grades', args=[pk])}{blind}#{request.POST.get('topic', '')}")
    message = request.POST.get("message", "")
    if message and is_partial(request) and not error:
        opinion = judgements.own_grade(run, operator_of(request).user, int(message))
        return render(
            request, "partials/runs/grades/source.html", {"run": run, "message": int(message), "opinion": opinion}
        )
    return _shown(request, run, error)


@open_to(Role.DEBUGGER, post=Role.DEBUGGER)
def run_golden(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Saves the query with its relevant messages as a golden question; who opens the address judges first."""
    run = _finished(request, pk)
    if request.method != "POST":
        return redirect("run_grades", pk)
    name = request.POST.get("collection", "").strip() or DEFAULT_SET
    try:
        made = judgements.from_grades(run, name, operator_of(request).user.get_username())
    except GoldenError as refused:
        return _shown(request, run, str(refused))
    if not is_partial(request):
        return redirect("golden_set", made.collection)
    return _shown(request, run, saved=made.collection)


def _finished(request: HttpRequest, pk: UUID) -> Run:
    run = own_run_or_404(request, pk)
    if not run.is_finished:
        raise Http404
    return run


def _grade(request: HttpRequest, run: Run) -> None:
    value, topic, message = (request.POST.get(name, "").strip() for name in ("grade", "topic", "message"))
    if value not in VALUES:
        raise Http404
    user = operator_of(request).user
    if message.isdecimal() and len(message) < 19:
        judgements.grade_message(run, user, VALUES[value], message=int(message))
    else:
        judgements.grade(run, user, VALUES[value], topic=topic)


def _shown(request: HttpRequest, run: Run, error: str = "", saved: str = "") -> HttpResponse:
    known = judgements.grades_of(run, operator_of(request).user)
    is_blind = request.GET.get("blind") == "1" or request.POST.get("blind") == "1"
    context: dict[str, Any] = {
        "run": run,
        "memory": run.owner,
        "grades": known,
        "marks": {id: _mark(opinion, is_blind=is_blind) for id, opinion in known.opinions.items()},
        "error": error,
        "saved": saved,
        "is_blind": is_blind,
        "may_save": operator_of(request).may(Role.DEBUGGER),
        "collections": [each["collection"] for each in judgements.collections(visible_owners(request))],
        "default_set": DEFAULT_SET,
    }
    if not is_partial(request):
        context["listed"] = _listed(run, known, is_blind=is_blind)
    status = 422 if error else 200
    return show(request, "pages/runs/run_grades.html", "partials/runs/grades/strip.html", context, status=status)


def _mark(opinion: Opinion, *, is_blind: bool) -> dict[str, Any]:
    """What the script shows beside a candidate; blind, nothing of what others think."""
    others = {} if is_blind else dict(opinion.by_name)
    return {"own": opinion.own, "names": others, "disputed": opinion.is_disputed and not is_blind}


def _listed(run: Run, known: RunGrades, *, is_blind: bool) -> Sequence[Mapping[str, Any]]:
    """The shown candidates; blind in an order that says nothing, the same at each visit."""
    found = Outline.of([item.event for item in followers.stored(run.pk)]).found
    shown = list(found.shown) if found else []
    if is_blind:
        shown.sort(key=lambda each: hashlib.sha256(f"{run.pk} {each.id}".encode()).digest())
    return [{"candidate": each, "opinion": known.opinions.get(each.id, Opinion())} for each in shown]
