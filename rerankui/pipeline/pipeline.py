"""The stages of background work: what waits, what is running and what failed, its cost, and buttons to pause and
resume."""

from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.insight.browsing import usage
from memoryapp.intake import archiving
from memoryapp.memory.sessions import Session, limits
from memoryapp.models import ChatUser, Message, Role
from memoryapp.platform import heartbeats, work
from memoryapp.search.profiles import serving_profile, undecided
from memoryapp.upkeep.pipeline import STAGES
from memoryapp.upkeep.pipeline.shown import stages
from memoryapp.upkeep.watches import PROCESSES
from rerankui.frame.access import Request, open_to, operator_of, visible_owners
from rerankui.frame.pages import show
from rerankui.frame.toasts import next_address
from rerankui.pipeline.alarms import open_for


@open_to(Role.VIEWER, post=Role.ADMIN, whole=True)
def pipeline(request: Request) -> HttpResponse:
    """The stages of every chat user; when posted, one is paused or resumed for all."""
    return _changed(request, None) if request.method == "POST" else _shown(request, None)


@open_to(Role.VIEWER, post=Role.CURATOR, whole=True)
def memory_pipeline(request: Request, owner: ChatUser) -> HttpResponse:
    """The same for one chat user."""
    if request.method != "POST":
        return _shown(request, owner)
    return _retried(request, owner) if "retry" in request.POST else _changed(request, owner)


def _shown(request: Request, owner: ChatUser | None) -> HttpResponse:
    operator, now, profile = operator_of(request), timezone.now(), serving_profile()
    sees_all = owner is None and operator.sees_everyone
    found = stages(visible_owners(request), profile, now=now, owner=owner, erasures=sees_all)
    alarms, states = open_for(request, owner), heartbeats.states()
    told = {each.rhythm.subject for each in alarms if each.watch is PROCESSES}
    context: dict[str, Any] = {
        "owner": owner,
        "stages": found,
        "profile": profile,
        "now": now,
        "alarms": alarms,
        "is_at_work": any(stage.is_at_work for stage in found),
        "may_pause": operator.may(Role.CURATOR if owner else Role.ADMIN),
        "undecided": undecided() if operator.may(Role.ADMIN) else None,
        "may_retry": operator.may(Role.CURATOR),
        "silent": [process for process, state in states.items() if state != "ok" and process not in told],
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
    if kind == work.ARCHIVE:
        _archive_asked(request, owner)
    elif paused := work.pause_sentence(kind, owner):
        messages.warning(request, paused)
    else:
        work.try_again(owner, kind)
        messages.success(request, _("%(stage)s is tried again within a minute.") % {"stage": kind.label})
    return _back(request, owner)


def _archive_asked(request: HttpRequest, owner: ChatUser) -> None:
    if paused := work.pause_sentence(work.ARCHIVE, owner):
        messages.warning(request, paused)
    else:
        work.ask_to_archive(owner, request.user.get_username())
        messages.success(request, _("The messages of %(name)s will be archived within seconds.") % {"name": owner})


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


# Background work of a memory: its progress, and a button that requests an archive now.


MESSAGES_LOOKED_AT = 2_000
SESSIONS_SHOWN = 6
MESSAGES_SHOWN = 3


@open_to(Role.VIEWER, whole=True)
def all_work(request: HttpRequest) -> HttpResponse:
    """Shows the running work of every chat user; the panel is polled every two seconds while there is any."""
    return _work_page(request, panel_of(visible_owners(request), reverse("work")))


@open_to(Role.VIEWER, post=Role.CURATOR, whole=True)
def memory_work(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The same for one memory; when posted, its archive is asked for."""
    if request.method == "POST":
        _archive_asked(request, owner)
        return redirect(next_address(request) or reverse("memory", args=[owner.pk]))
    context = {"owner": owner, **panel_for(owner), **sessions_of(request, owner)}
    if cast(Request, request).htmx.target == "sessions":
        answer = render(request, "partials/work/sessions.html", context)
        if not (context["sessions"] or context["is_archived_now"]):
            # The numbers beside the panel have changed too.
            answer["HX-Refresh"] = "true"
        return answer
    return _work_page(request, context)


def _only(owner: ChatUser) -> QuerySet[ChatUser]:
    return ChatUser.objects.filter(pk=owner.pk)


def panel_for(owner: ChatUser) -> dict[str, Any]:
    """What ``partials/work/work.html`` shows of one chat user."""
    return panel_of(_only(owner), reverse("memory_work", args=[owner.pk]))


def panel_of(owners: QuerySet[ChatUser], address: str) -> dict[str, Any]:
    """What ``partials/work/work.html`` shows of these chat users; ``address`` answers with the panel as it is later."""
    shown = work.unfinished(owners)
    return {
        "works": shown,
        "works_address": address,
        "is_at_work": any(item.is_going_on or item.work.asked_at for item in shown),
    }


def sessions_of(request: HttpRequest, owner: ChatUser) -> dict[str, Any]:
    """What ``partials/work/sessions.html`` shows: the active sessions and when each of them is archived."""
    sessions = archiving.latest_sessions(owner, limits(owner), MESSAGES_LOOKED_AT)
    now, count = timezone.now(), Message.objects.of(owner).active().count()
    shown = sessions[:SESSIONS_SHOWN]
    listed = sum(len(session.messages) for session in shown)
    archive = next((item for item in work.unfinished(_only(owner)) if item.work.kind == work.ARCHIVE), None)
    is_asked = bool(archive and archive.work.asked_at)
    return {
        "sessions": [_shown_session(session, now) for session in shown],
        "unlisted": count - listed,
        "waiting_count": count,
        "latest": Message.objects.of(owner).active().order_by("-sent_at", "-id")[:MESSAGES_SHOWN],
        "archive": archive,
        "paused": work.pause_sentence(work.ARCHIVE, owner),
        "is_asked": is_asked,
        "is_archived_now": is_asked or bool(archive and archive.is_going_on),
        "may_archive": operator_of(request).may(Role.CURATOR),
    }


def _shown_session(session: Session, now: datetime) -> dict[str, Any]:
    """``first`` is its first message; after the ``countdown`` it is archived if nobody writes."""
    first, last = session.messages[0], session.messages[-1]
    left = max((session.due_at - now).total_seconds(), 0.0)
    named = {"first": first.id, "label": first.session, "last_at": last.sent_at, "seconds_left": left}
    return {**named, "count": len(session.messages), "countdown": work.duration(left)}


def _work_page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return show(request, "pages/work.html", "partials/work/work.html", context)
