"""The stages of background work: what waits, what is running and what failed, its cost, and buttons to pause and
resume.
"""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.insight.browsing import usage
from memoryapp.models import ChatUser, Role
from memoryapp.platform import heartbeats, work
from memoryapp.search.profiles import serving_profile, undecided
from memoryapp.upkeep.pipeline import STAGES
from memoryapp.upkeep.pipeline.shown import stages
from rerankui.frame.access import Request, open_to, operator_of, visible_owners
from rerankui.frame.pages import show
from rerankui.frame.toasts import next_address


@open_to(Role.VIEWER, post=Role.ADMIN)
def pipeline(request: Request) -> HttpResponse:
    """The stages of every chat user; when posted, one is paused or resumed for all."""
    return _changed(request, None) if request.method == "POST" else _shown(request, None)


@open_to(Role.VIEWER, post=Role.CURATOR)
def memory_pipeline(request: Request, owner: ChatUser) -> HttpResponse:
    """The same for one chat user."""
    if request.method != "POST":
        return _shown(request, owner)
    return _retried(request, owner) if "retry" in request.POST else _changed(request, owner)


def _shown(request: Request, owner: ChatUser | None) -> HttpResponse:
    operator, now, profile = operator_of(request), timezone.now(), serving_profile()
    sees_all = owner is None and operator.sees_everyone
    found = stages(visible_owners(request), profile, now=now, owner=owner, erasures=sees_all)
    context: dict[str, Any] = {
        "owner": owner,
        "stages": found,
        "profile": profile,
        "now": now,
        "is_at_work": any(stage.is_at_work for stage in found),
        "may_pause": operator.may(Role.CURATOR if owner else Role.ADMIN),
        "undecided": undecided() if operator.may(Role.ADMIN) else None,
        "may_retry": operator.may(Role.CURATOR),
        "silent": [process for process, state in heartbeats.states().items() if state != "ok"],
    }
    if not request.htmx:
        context |= _costs(request, owner)
    return show(request, "pages/pipeline/pipeline.html", "partials/pipeline/pipeline.html", context)


def _costs(request: HttpRequest, owner: ChatUser | None) -> dict[str, Any]:
    """What the last days cost, on the reader's calendar."""
    owners = ChatUser.objects.filter(pk=owner.pk) if owner else visible_owners(request)
    now, zone = timezone.now(), timezone.get_current_timezone()
    return {
        "cost_stages": usage.stages(),
        "cost_days": usage.by_day(owners, now=now, zone=zone),
        "cost_owners": [] if owner else usage.by_owner(owners, now=now, zone=zone),
        "days": usage.DAYS_OF_COSTS,
    }


def _retried(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """An archive is asked for again; other work that rests after faults, or was given up, is left to the next sweep."""
    stage = STAGES.get(request.POST["retry"])
    kind = stage and stage.kind
    if not kind:
        return HttpResponseBadRequest(_("Say what is to be tried again."))
    if paused := work.pause_sentence(kind, owner):
        messages.warning(request, paused)
    elif kind != work.ARCHIVE:
        work.try_again(owner, kind)
        messages.success(request, _("%(stage)s is tried again within a minute.") % {"stage": kind.label})
    else:
        work.ask_to_archive(owner, request.user.get_username())
        messages.success(request, _("The messages of %(name)s will be archived within seconds.") % {"name": owner})
    return _back(request, owner)


def _changed(request: HttpRequest, owner: ChatUser | None) -> HttpResponse:
    stage = STAGES.get(request.POST.get("pause") or request.POST.get("resume", ""))
    kind = stage and stage.kind
    # What names nobody is paused for all or not at all.
    if not stage or not kind or (owner and stage.names_nobody):
        return HttpResponseBadRequest(_("Say which stage is to be paused or resumed."))
    if "pause" in request.POST:
        work.pause(kind, request.user.get_username(), owner)
        messages.success(request, _("%(stage)s is paused: no new work starts.") % {"stage": kind.label})
    else:
        work.resume(kind, owner)
        messages.success(request, _("%(stage)s goes on.") % {"stage": kind.label})
    return _back(request, owner)


def _back(request: HttpRequest, owner: ChatUser | None) -> HttpResponse:
    here = reverse("memory_pipeline", args=[owner.pk]) if owner else reverse("pipeline")
    return redirect(next_address(request) or here)
