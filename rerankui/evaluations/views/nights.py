"""Golden sets that are asked each night, for admins: the list, one with its nights, and its making and changing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.evaluation import passes
from memoryapp.evaluation.judgements import golden
from memoryapp.evaluation.nights import alarms, schedule
from memoryapp.evaluation.nights.schedule import NightlyError
from memoryapp.models import GoldenNight, NightlyRun, Role
from rerankui.access import requires, visible_owners
from rerankui.evaluations.night_chart import SHOWN, chart, rows_of
from rerankui.pages import is_partial
from rerankui.web.local_time import reader_zone

USUAL, USUAL_HOUR = 50, 3


@require_safe
@requires(Role.ADMIN)
def nightly_list(request: HttpRequest) -> HttpResponse:
    last = GoldenNight.objects.filter(nightly=OuterRef("pk")).order_by("-at", "-id")
    rows = NightlyRun.objects.annotate(
        last_state=Subquery(last.values("state")[:1]), last_at=Subquery(last.values("at")[:1])
    )
    context = {
        "rows": rows[: schedule.MOST_NIGHTLY],
        "has_mail": alarms.has_mail(),
        "states": dict(GoldenNight.State.choices),
    }
    return render(request, "pages/evaluations/nights.html", context)


@require_safe
@requires(Role.ADMIN)
def nightly(request: HttpRequest, pk: int) -> HttpResponse:
    """Its last nights, as lines and as a table, with what it would cost to ask it again."""
    row = get_object_or_404(NightlyRun.objects.select_related("baseline"), pk=pk)
    shown = rows_of(
        list(row.nights.select_related("evaluation", "against").defer("evaluation__report", "against__report")[:SHOWN])
    )
    count = schedule.questions_of(row).count()
    context = {
        "nightly": row,
        "shown": shown,
        "chart": chart(shown),
        "count": count,
        "forecast": passes.forecast(visible_owners(request), count, [row.strategy]),
        "has_mail": alarms.has_mail(),
        "is_going": any(each.night.state == GoldenNight.State.RUNNING for each in shown),
    }
    return render(request, "pages/evaluations/nightly.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.ADMIN)
def nightly_make(request: HttpRequest) -> HttpResponse:
    """The form; a partial answer is the forecast of a night for what is chosen so far."""
    row = NightlyRun(
        collection=request.GET.get("set", ""), strategy=DEFAULT.name, most=USUAL, hour=USUAL_HOUR, zone=_zone(request)
    )
    row.made_by = cast(User, request.user).get_username()
    return _edited(request, row)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.ADMIN)
def nightly_edit(request: HttpRequest, pk: int) -> HttpResponse:
    return _edited(request, get_object_or_404(NightlyRun, pk=pk))


def _edited(request: HttpRequest, row: NightlyRun) -> HttpResponse:
    is_sent, error = request.method == "POST", ""
    if is_sent or is_partial(request):
        _fill(row, request.POST if is_sent else request.GET)
    if is_sent:
        row.zone = _zone(request)
        try:
            return redirect("nightly", pk=schedule.save(row).pk)
        except NightlyError as refused:
            error = str(refused)
    context: dict[str, Any] = {
        "nightly": row,
        "sets": golden.collections(visible_owners(request)),
        "strategies": list(STRATEGIES),
        "hours": range(24),
        "zone": _zone(request),
        "most": passes.MOST_QUESTIONS,
        "has_mail": alarms.has_mail(),
        "error": error,
    }
    if row.collection and row.strategy in STRATEGIES:
        count = schedule.questions_of(row).count()
        context["forecast"] = passes.forecast(visible_owners(request), count, [row.strategy])
    template = "partials/evaluations/forecast.html" if is_partial(request) else "pages/evaluations/nightly_form.html"
    return render(request, template, context, status=422 if error else 200)


def _fill(row: NightlyRun, typed: Mapping[str, str]) -> None:
    row.collection, row.strategy = typed.get("set", "")[:80], typed.get("strategy", "")[:16]
    row.most, row.hour = _number(typed, "limit", USUAL), _number(typed, "hour", USUAL_HOUR)
    row.recipients = typed.get("recipients", "")[:4_000]


def _number(typed: Mapping[str, str], name: str, usual: int) -> int:
    given = typed.get(name, "")
    return int(given) if given.isdecimal() and given.isascii() and len(given) < 6 else usual


def _zone(request: HttpRequest) -> str:
    return str(reader_zone(request.COOKIES))


@require_POST
@requires(Role.ADMIN)
def nightly_act(request: HttpRequest, pk: int) -> HttpResponse:
    """``do`` says what: ask it now, pause, resume, try the alarm, another baseline."""
    row = get_object_or_404(NightlyRun, pk=pk)
    do = request.POST.get("do", "")
    if do == "now" and not schedule.begin_now(row):
        messages.info(request, _("It is being asked already."))
    elif do == "test":
        for sentence in alarms.try_alarm(row):
            messages.info(request, sentence)
    elif do in ("pause", "resume"):
        _switch(request, row, do == "resume")
    elif do == "baseline":
        _set_baseline(row, request.POST.get("night", ""))
    return redirect("nightly", pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.ADMIN)
def nightly_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks first. The evaluations of its nights stay."""
    row = get_object_or_404(NightlyRun, pk=pk)
    if request.method == "POST":
        row.delete()
        messages.success(request, _("“%(name)s” was removed.") % {"name": row.collection})
        return redirect("nights")
    return render(request, "pages/evaluations/nightly_remove.html", {"nightly": row, "count": row.nights.count()})


def _switch(request: HttpRequest, row: NightlyRun, is_on: bool) -> None:
    row.is_on = is_on
    try:
        schedule.save(row)
    except NightlyError as refused:
        messages.error(request, str(refused))


def _set_baseline(row: NightlyRun, number: str) -> None:
    """That night's evaluation, or without a number none: then the last good night is compared with."""
    nights = row.nights.filter(pk=int(number) if number.isdecimal() and len(number) < 19 else 0)
    if number and not (nights := nights.filter(evaluation__isnull=False)):
        return
    row.baseline_id = nights[0].evaluation_id if number else None
    row.save(update_fields=["baseline"])
