"""Work in the background as people see it: how far it is, and a button that asks for an archive now."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import work
from memoryapp.models import ChatUser, Role
from rerankui.access import operator_of, owner_or_404, requires, seen_owners
from rerankui.changes import ours
from rerankui.pages import show


@require_safe
def all_work(request: HttpRequest) -> HttpResponse:
    """What goes on for every chat user; the panel is asked for every two seconds while something does."""
    return _shown(request, panel_of(seen_owners(request), reverse("work")))


@require_http_methods(["GET", "HEAD", "POST"])
def memory_work(request: HttpRequest, owner: int) -> HttpResponse:
    """The same for one memory; when posted, its archive is asked for."""
    of = owner_or_404(request, owner)
    if request.method == "POST":
        answer: HttpResponse = _archive_now(request, of)
        return answer
    return _shown(request, {"owner": of, **panel_for(of)})


@requires(Role.CURATOR)
def _archive_now(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Asks the worker to archive every session of this memory, those that may still go on too."""
    work.ask_to_archive(owner, request.user.get_username())
    messages.success(request, _("The messages of %(name)s will be archived within seconds.") % {"name": owner})
    return redirect(ours(request, request.POST.get("next", "")) or reverse("memory", args=[owner.pk]))


def panel_for(owner: ChatUser) -> dict[str, Any]:
    """What ``partials/work.html`` shows of one chat user."""
    return panel_of(ChatUser.objects.filter(pk=owner.pk), reverse("memory_work", args=[owner.pk]))


def panel_of(owners: QuerySet[ChatUser], address: str) -> dict[str, Any]:
    """What ``partials/work.html`` shows of these chat users; ``address`` answers with the panel as it is later."""
    shown = work.unfinished(owners)
    return {
        "works": shown,
        "works_address": address,
        "is_at_work": any(item.is_going_on or item.work.asked_at for item in shown),
    }


def may_archive(request: HttpRequest) -> bool:
    return operator_of(request).may(Role.CURATOR)


def _shown(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return show(request, "pages/work.html", "partials/work.html", {**context, "is_asked_for": True})
