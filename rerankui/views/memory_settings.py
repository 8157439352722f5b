"""A chat user's own settings: when sessions end, how small topics may be, and what is done automatically."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp.models import Role
from rerankui.access import owner_or_404, requires
from rerankui.memory_settings import MemorySettingsForm


@require_http_methods(("GET", "HEAD", "POST"))
@requires(Role.CURATOR)
def memory_settings(request: HttpRequest, owner_id: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    form = MemorySettingsForm(request.POST if request.method == "POST" else None, owner)
    if request.method == "POST" and form.is_valid():
        form.save(owner)
        messages.success(request, _("The memory settings of %(name)s are saved.") % {"name": owner})
        return redirect("memory", owner.pk)
    context: dict[str, Any] = {
        "owner": owner,
        "form": form,
        "model": settings.LLM_BASE_URL and settings.SPLITTER_MODEL,
    }
    return render(request, "pages/memory_settings.html", context, status=422 if form.is_bound else 200)
