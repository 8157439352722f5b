"""Alarms: what is in trouble now, everything that is watched with its last success and its rhythm, and what is over."""

from datetime import timedelta
from itertools import groupby
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.models import Alarm, ChatUser, Rhythm, Role
from memoryapp.upkeep.alarms import Told, told
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.forms import DurationField

MOST_OVER = 30
_HOURS = [
    *(("", gettext_lazy("as it is")), ("0", gettext_lazy("tell people"))),
    *(("1", gettext_lazy("silent for an hour")), ("24", gettext_lazy("silent for a day"))),
    ("168", gettext_lazy("silent for a week")),
]


class RhythmForm(forms.Form):
    """How often success is expected, empty for what was learnt, and for how many hours nobody is told."""

    period = DurationField(required=False)
    hours = forms.ChoiceField(required=False, choices=_HOURS)


def open_for(request: HttpRequest, owner: ChatUser | None = None) -> list[Told]:
    """The alarms that are not over or silent and that the operator may see; of a memory, those of caps."""
    rows = Alarm.objects.filter(healed_at__isnull=True).select_related("rhythm")
    rows = rows.exclude(rhythm__silent_until__gt=timezone.now())
    if owner:
        return told(rows.filter(rhythm__watch="cap", rhythm__subject__in=("all", str(owner.pk))))
    return told(rows, names_others=operator_of(request).sees_everyone)


@open_to(Role.VIEWER, post=Role.ADMIN, whole=True)
def alarms(request: HttpRequest) -> HttpResponse:
    """The page; when posted, a rhythm is set or silenced."""
    if request.method == "POST":
        rhythm, form = get_object_or_404(Rhythm, pk=request.POST.get("rhythm", "0")), RhythmForm(request.POST)
        if form.is_valid():
            rhythm.period = form.cleaned_data["period"]
            if hours := form.cleaned_data["hours"]:
                rhythm.silent_until = timezone.now() + timedelta(hours=int(hours))
            rhythm.save(update_fields=["period", "silent_until"])
            messages.success(request, _("This is watched so from now on."))
        else:
            messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
        return redirect("alarms")
    sees_all = operator_of(request).sees_everyone
    watched = told(Rhythm.objects.order_by("watch", "pk"), names_others=sees_all)
    over = Alarm.objects.filter(healed_at__isnull=False).select_related("rhythm")
    context: dict[str, Any] = {
        "alarms": open_for(request),
        "watched": [(watch, list(rows)) for watch, rows in groupby(watched, key=lambda each: each.label)],
        "over": told(over[:MOST_OVER], names_others=sees_all),
        "hours": _HOURS,
        "now": timezone.now(),
        "late": set(Alarm.objects.filter(healed_at__isnull=True).values_list("rhythm", flat=True)),
        "may_set": operator_of(request).may(Role.ADMIN),
    }
    return render(request, "pages/pipeline/alarms.html", context)
