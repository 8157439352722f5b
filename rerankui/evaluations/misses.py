"""Misses: the list with what the days say, the report of one, and its page from why to kept right."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation import CurationError
from memoryapp.engine.memory import parse_topic_id
from memoryapp.insight.explain.wanted import LONGEST
from memoryapp.insight.misses import keeping, misses, remedies
from memoryapp.insight.misses.days import MissDays, days_of
from memoryapp.insight.misses.misses import MissError, MissHolders
from memoryapp.models import ChatUser, Message, Miss, Role, Run
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.runner import runner
from rerankui.evaluations.tags import STAGES
from rerankui.frame.access import open_to, operator_of, visible_owners
from rerankui.frame.filters import Filter, choice
from rerankui.frame.pages import Page, is_partial
from rerankui.lists.facets import Facet
from rerankui.lists.list_page import AskedList, ListPage
from rerankui.runs.page.why_not import view_of

STEP, HEIGHT = 10, 60
# Questions asked lately that a report offers.
LATELY = 8


class MissFilter(Filter):
    placeholder = gettext_lazy("Search questions")
    SORTS = {"newest": ("-at", "-id")}
    WORDS = ("question", "expected", "answer")
    state = choice(gettext_lazy("State"), gettext_lazy("all states"), list(Miss.State.choices), by="state")


class MissList(ListPage[Miss, MissFilter]):
    title = gettext_lazy("Misses")
    name = "misses"
    whole = True
    form = MissFilter
    columns = {
        "id": "pk",
        "question": "question",
        "expected": "expected",
        "stage": "stage",
        "state": "state",
        "remedy": "remedy",
        "at": "at",
        "repaired_at": "repaired_at",
    }
    page, partial = "pages/misses/misses.html", "partials/misses/misses.html"

    def rows(self, asked: AskedList[MissFilter]) -> QuerySet[Miss]:
        return Miss.objects.filter(owner=asked.owner)

    def facets(self, asked: AskedList[MissFilter]) -> tuple[Facet, ...]:
        return (Facet("stage", gettext_lazy("Lost where"), "stage", STAGES),)

    def more(self, asked: AskedList[MissFilter], page: Page[Miss], found: Any) -> dict[str, Any]:
        days = days_of([asked.owner], now=timezone.now(), zone=timezone.get_current_timezone())
        return {"days": days, "bars": _bars(days), "may_report": operator_of(asked.request).may(Role.DEBUGGER)}


MISSES = MissList()


def _bars(days: MissDays) -> list[dict[str, Any]]:
    """The days of the picture; their parts from below, each with stage, top and height."""
    most = max((counts.total() for _day, counts in days.days), default=0) or 1
    bars = []
    for place, (day, counts) in enumerate(days.days):
        parts, base = [], float(HEIGHT)
        for stage, count in sorted(counts.items()):
            height = round(count / most * (HEIGHT - 4), 1)
            base -= height
            parts.append((stage, round(base, 1), height))
        bars.append({"day": day, "total": counts.total(), "x": place * STEP, "parts": parts})
    return bars


# The report: what a person typed or pasted, or the run on whose page the button is.


@open_to(Role.DEBUGGER, post=Role.DEBUGGER, whole=True)
def miss_report(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The form; ``run`` in the address is the run that went wrong. Posted, the miss is reported and its page opens. A
    complaint without its question ("the assistant forgot …") says what should have been known; the form then offers the
    questions asked lately, and the other memories that say it."""
    given = request.POST if request.method == "POST" else request.GET
    run = _run(owner, given.get("run", ""))
    typed = {
        name: given.get(name, "").replace("\0", "").strip() for name in ("question", "expected", "answer", "pasted")
    }
    error = ""
    if request.method == "POST":
        for name in ("pasted", "question"):
            if what := misses.forgotten(typed[name]):
                typed |= {name: "", "expected": typed["expected"] or what}
        read = misses.read_pasted(typed["pasted"])
        question = run.query if run else typed["question"] or read.question
        told: dict[str, Any] = {"expected": typed["expected"], "answer": typed["answer"] or read.answer}
        by = operator_of(request).user
        try:
            miss = misses.report(owner, question, **told, run=run, by=by.get_username(), operator=by)
        except (MissError, ParameterError) as refused:
            error, typed["answer"] = str(refused), told["answer"]
        else:
            _launch(miss.run)
            return redirect("miss", owner.pk, miss.pk)
    context = {"owner": owner, "run": run, "typed": typed, "error": error, "longest": LONGEST}
    if run is None:
        context |= _elsewhere(request, owner, typed["expected"])
    return render(request, "pages/misses/miss_report.html", context, status=422 if error else 200)


def _elsewhere(request: HttpRequest, owner: ChatUser, expected: str) -> dict[str, Any]:
    """What else may be meant: questions that were asked of this memory, and the other memories that say it."""
    others = visible_owners(request).exclude(pk=owner.pk)
    return {"asked_before": misses.asked_before(owner, LATELY), "others": misses.memories_saying(others, expected)}


def _run(owner: ChatUser, number: str) -> Run | None:
    try:
        return Run.objects.of(owner).filter(pk=UUID(number)).first() if number else None
    except (ValueError, ValidationError):
        return None


def _launch(run: Run | None) -> None:
    if run is not None and run.state == Run.State.PENDING:
        runner.launch(run.pk)


# One miss: why, put right, kept right.


@open_to(Role.VIEWER, post=Role.CURATOR, whole=True)
def miss(request: HttpRequest, owner: ChatUser, miss: int) -> HttpResponse:
    """The page; a partial answer is the miss while its run goes on. ``do`` says what is posted."""
    row = _miss_or_404(owner, miss)
    error = ""
    if request.method == "POST":
        try:
            _decide(request, row)
        except (MissError, CurationError, ParameterError) as refused:
            error = str(refused)
        else:
            return redirect("miss", owner.pk, row.pk)
    is_swapped = is_partial(request) and not error
    template = "partials/misses/miss.html" if is_swapped else "pages/misses/miss.html"
    context = {**_context(request, row), "owner": owner, "error": error, "is_swapped": is_swapped}
    return render(request, template, context, status=409 if error else 200)


def _miss_or_404(owner: ChatUser, number: int) -> Miss:
    rows = Miss.objects.select_related("owner", "run__owner", "again", "golden", "topic_edit", "change")
    return get_object_or_404(rows, owner=owner, pk=number)


def _decide(request: HttpRequest, row: Miss) -> None:
    do, actor = request.POST.get("do", ""), operator_of(request).user
    name = actor.get_username()
    if do == "repair":
        values = _values(request.POST)
        remedies.apply(row, request.POST.get("remedy", ""), values, actor=name, operator=actor)
        if request.POST.get("keep") and row.evidence:
            keeping.keep(row, name)
    else:
        misses.decide(row, do, request.POST.get("expected", ""), actor=name, keep=keeping.keep, operator=actor)
    _launch(row.again)


def _values(sent: Mapping[str, str]) -> dict[str, Any]:
    """What was offered, with the text that a person may have changed. Raises MissError."""
    try:
        values = json.loads(sent.get("values", "{}"))
        return {**values, "text": sent.get("text", "").replace("\0", "").strip()}
    except (ValueError, TypeError, RecursionError):
        raise MissError(_("These values are none that this remedy takes.")) from None


def _context(request: HttpRequest, row: Miss) -> dict[str, Any]:
    why = misses.explain(row)
    may_change = operator_of(request).may(Role.CURATOR)
    context: dict[str, Any] = {"miss": row, "is_waiting": row.run is not None and not row.run.is_finished}
    context |= {"may_change": may_change, "stands": misses.stands(row), "longest": LONGEST}
    context["asks_again"] = row.again is not None and not row.again.is_finished
    context["found_again"] = misses.settle(row)
    context["messages_of_it"] = list(Message.objects.of(row.owner).filter(pk__in=row.evidence).in_order()[:5])
    if why and row.run:
        context |= {"why": view_of(row.run, row.expected or row.question, why), "holders": MissHolders(row)}
        context["lost"] = parse_topic_id(why.topic)
    return context


@open_to(Role.VIEWER, whole=True)
def miss_remedies(request: HttpRequest, owner: ChatUser, miss: int) -> HttpResponse:
    """The remedies that fit, each tried; the page asks for them by themselves, because trying takes a moment."""
    row = _miss_or_404(owner, miss)
    why = misses.explain(row)
    known = (*why.now, why.topic) if why else ()
    may_change = operator_of(request).may(Role.CURATOR)
    found = remedies.offers(row, why, asks_model=may_change) if why else []
    context = {
        "owner": row.owner,
        "miss": row,
        "why": why,
        "by_hand": next((id for id in known if id.startswith(("Topic:", "Person:"))), ""),
        "offers": [(each, json.dumps(dict(each.values), ensure_ascii=False)) for each in found],
        "may_change": may_change,
    }
    if why and why.stage in ("chosen", "unknown") and operator_of(request).may(Role.DEBUGGER):
        context |= _elsewhere(request, row.owner, row.expected or row.question)
    template = "partials/misses/miss_remedies.html" if is_partial(request) else "pages/misses/miss_remedies.html"
    return render(request, template, context)
