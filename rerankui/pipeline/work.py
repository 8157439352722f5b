"""Background work as people see it: its progress, and a button that requests an archive now."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.intake import archiving
from memoryapp.memory.sessions import Session, limits
from memoryapp.models import ChatUser, Message, Role
from memoryapp.platform import work
from rerankui.frame.access import Request, open_to, operator_of, visible_owners
from rerankui.frame.pages import show
from rerankui.frame.toasts import next_address

MESSAGES_LOOKED_AT = 2_000
SESSIONS_SHOWN = 6
MESSAGES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ActiveSession:
    """``first`` is its first message, ``seconds_left`` when it is archived if nobody writes."""

    first: int
    label: str
    count: int
    last_at: datetime
    seconds_left: float

    @property
    def countdown(self) -> str:
        return work.duration(self.seconds_left)


@open_to(Role.VIEWER)
def all_work(request: HttpRequest) -> HttpResponse:
    """Shows the running work of every chat user; the panel is polled every two seconds while there is any."""
    return _shown(request, panel_of(visible_owners(request), reverse("work")))


@open_to(Role.VIEWER, post=Role.CURATOR)
def memory_work(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The same for one memory; when posted, its archive is asked for."""
    if request.method == "POST":
        if paused := work.pause_sentence(work.ARCHIVE, owner):
            messages.warning(request, paused)
        else:
            work.ask_to_archive(owner, request.user.get_username())
            messages.success(request, _("The messages of %(name)s will be archived within seconds.") % {"name": owner})
        return redirect(next_address(request) or reverse("memory", args=[owner.pk]))
    context = {"owner": owner, **panel_for(owner), **sessions_of(request, owner)}
    if cast(Request, request).htmx.target == "sessions":
        answer = render(request, "partials/work/sessions.html", context)
        if not (context["sessions"] or context["is_archived_now"]):
            # The numbers beside the panel have changed too.
            answer["HX-Refresh"] = "true"
        return answer
    return _shown(request, context)


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


def _shown_session(session: Session, now: datetime) -> ActiveSession:
    first, last = session.messages[0], session.messages[-1]
    left = (session.due_at - now).total_seconds()
    return ActiveSession(first.id, first.label, len(session.messages), last.sent_at, max(left, 0.0))


def _shown(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return show(request, "pages/work.html", "partials/work/work.html", context)
