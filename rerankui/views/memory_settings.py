"""A chat user's own settings: when sessions end, how small topics may be, and what is done automatically."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp.models import ChatUser, Message, Role
from rerankui.access import owner_or_404, requires
from rerankui.memory_settings import MemorySettingsForm

LOOKED_AT = 200
# Between people topics are found better after longer sessions, see docs/measurements.md.
BETWEEN_PEOPLE = "6h"


@require_http_methods(("GET", "HEAD", "POST"))
@requires(Role.CURATOR)
def memory_settings(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    proposed = {"silence_seconds": BETWEEN_PEOPLE} if "between_people" in request.GET else {}
    form = MemorySettingsForm(request.POST if request.method == "POST" else None, of, proposed)
    if request.method == "POST" and form.is_valid():
        form.save(of)
        messages.success(request, _("The memory settings of %(name)s are saved.") % {"name": of})
        return redirect("memory", of.pk)
    context: dict[str, Any] = {
        "owner": of,
        "form": form,
        "between_people": BETWEEN_PEOPLE if not of.silence_seconds and not proposed and _is_between_people(of) else "",
        "model": settings.LLM_BASE_URL and settings.SPLITTER_MODEL,
    }
    return render(request, "pages/memory_settings.html", context, status=422 if form.is_bound else 200)


def _is_between_people(owner: ChatUser) -> bool:
    """Whether no assistant speaks in the latest messages."""
    latest = Message.objects.of(owner).order_by("-sent_at", "-pk")
    roles = set(latest.values_list("role", flat=True)[:LOOKED_AT])
    return bool(roles) and "assistant" not in roles
