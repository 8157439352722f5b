"""Golden sets that are asked each night, for admins: the list, one with its nights, and its making and changing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import FloatField, OuterRef, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.insight.evaluation import judgements, passes
from memoryapp.insight.evaluation import nights as alarms
from memoryapp.insight.evaluation import nights as schedule
from memoryapp.insight.evaluation.comparison import MEASURES
from memoryapp.insight.evaluation.nights import NightlyError
from memoryapp.insight.evaluation.scores import Interval
from memoryapp.models import Evaluation, GoldenNight, NightlyRun, Role
from memoryapp.platform import mail
from rerankui.evaluations.side_by_side import NAMES, picture
from rerankui.frame.access import open_to, visible_owners
from rerankui.frame.pages import is_partial
from rerankui.web.pages import reader_zone

# The last nights of a golden set as lines: two figures of each, and what came of it.

NIGHTS_SHOWN = 30
WIDTH, HEIGHT = 720, 132
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 12, 10, 10
_SIGNS = {measure.name: measure.sign for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class NightRow:
    """A night as the table shows it: its two figures, None where it has none, and what got worse, in words."""

    night: GoldenNight
    recall: float | None
    f1: float | None
    worse: tuple[tuple[str, str], ...]

    @property
    def may_be_baseline(self) -> bool:
        """Whether other nights can be compared with it."""
        return bool(self.night.evaluation_id) and self.night.state in (
            GoldenNight.State.PASSED,
            GoldenNight.State.DROPPED,
        )


def rows_of(nights: Sequence[GoldenNight]) -> list[NightRow]:
    """One statement for the figures, without the reports themselves, which are large."""
    numbers = {night.evaluation_id for night in nights if night.evaluation_id}
    found = Evaluation.objects.filter(pk__in=numbers).annotate(
        recall=Cast(KT("report__candidates__recall@5"), FloatField()),
        f1=Cast(KT("report__selection__f1"), FloatField()),
    )
    figures = {pk: (recall, f1) for pk, recall, f1 in found.values_list("pk", "recall", "f1")}
    return [
        NightRow(
            night, *figures.get(night.evaluation_id or 0, (None, None)), worse=tuple(map(_worse, night.regressions))
        )
        for night in nights
    ]


def worse_in(night: GoldenNight) -> list[tuple[str, str]]:
    """What got worse, each with its difference and interval in words."""
    return [_worse(each) for each in night.regressions]


def _worse(each: Any) -> tuple[str, str]:
    name = each["figure"]
    difference = Interval(each["n"], each["mean"], each["low"], each["high"])
    label = str(NAMES[name]) if name in NAMES else _("another figure")
    return label, picture(difference, 1.0, _SIGNS.get(name, 1)).words


def chart(rows: Sequence[NightRow]) -> dict[str, Any]:
    """Lines from the oldest night to the latest; a night without figures breaks none, it has a mark of its own.
    ``rows`` are the latest first."""
    ordered = list(rows)[:NIGHTS_SHOWN][::-1]
    step = (WIDTH - _LEFT - _RIGHT) / max(len(ordered) - 1, 1)
    places = [round(_LEFT + place * step, 1) for place in range(len(ordered))]
    shown = list(zip(places, ordered, strict=True))
    lines = {
        name: [
            {"x": x, "y": _y(value), "value": value, "night": row.night}
            for x, row in shown
            if (value := getattr(row, name)) is not None
        ]
        for name in ("recall", "f1")
    }
    marked = (GoldenNight.State.FAILED, GoldenNight.State.DROPPED)
    return {
        **lines,
        **{f"{name}_line": " ".join(f"{each['x']},{each['y']}" for each in points) for name, points in lines.items()},
        "marks": [(x, row.night) for x, row in shown if row.night.state in marked],
        "grid": [(_y(value), f"{value:.1f}") for value in (0.0, 0.5, 1.0)],
        "width": WIDTH,
        "height": HEIGHT,
    }


def _y(value: float) -> float:
    return round(HEIGHT - _BOTTOM - value * (HEIGHT - _TOP - _BOTTOM), 1)


USUAL, USUAL_HOUR = 50, 3


@open_to(Role.ADMIN, whole=True)
def nightly_list(request: HttpRequest) -> HttpResponse:
    last = GoldenNight.objects.filter(nightly=OuterRef("pk")).order_by("-at", "-id")
    rows = NightlyRun.objects.annotate(
        last_state=Subquery(last.values("state")[:1]), last_at=Subquery(last.values("at")[:1])
    )
    context = {
        "rows": rows[: schedule.MOST_NIGHTLY],
        "has_mail": mail.has_mail(),
        "states": dict(GoldenNight.State.choices),
    }
    return render(request, "pages/evaluations/nights.html", context)


@open_to(Role.ADMIN, whole=True)
def nightly(request: HttpRequest, pk: int) -> HttpResponse:
    """Its last nights, as lines and as a table, with what it would cost to ask it again."""
    row = get_object_or_404(NightlyRun.objects.select_related("baseline"), pk=pk)
    shown = rows_of(
        list(
            row.nights.select_related("evaluation", "against").defer("evaluation__report", "against__report")[
                :NIGHTS_SHOWN
            ]
        )
    )
    count = schedule.questions_of(row).count()
    context = {
        "nightly": row,
        "shown": shown,
        "chart": chart(shown),
        "count": count,
        "forecast": passes.forecast(visible_owners(request), count, [row.strategy]),
        "has_mail": mail.has_mail(),
        "is_going": any(each.night.state == GoldenNight.State.RUNNING for each in shown),
    }
    return render(request, "pages/evaluations/nightly.html", context)


@open_to(Role.ADMIN, post=Role.ADMIN, whole=True)
def nightly_make(request: HttpRequest) -> HttpResponse:
    """The form; a partial answer is the forecast of a night for what is chosen so far."""
    row = NightlyRun(
        collection=request.GET.get("set", ""), strategy=DEFAULT.name, most=USUAL, hour=USUAL_HOUR, zone=_zone(request)
    )
    row.made_by = cast(User, request.user).get_username()
    return _edited(request, row)


@open_to(Role.ADMIN, post=Role.ADMIN, whole=True)
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
        "sets": judgements.collections(visible_owners(request)),
        "strategies": list(STRATEGIES),
        "hours": range(24),
        "zone": _zone(request),
        "most": passes.MOST_QUESTIONS,
        "has_mail": mail.has_mail(),
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


@open_to(post=Role.ADMIN, whole=True)
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


@open_to(Role.ADMIN, post=Role.ADMIN, whole=True)
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
