"""Erasing a chat user: what would go, its name typed to confirm, then how far it is and the receipt. For admins."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import erasure
from memoryapp.models import Erasure, Role
from rerankui.access import owner_or_404, requires


@never_cache
@require_http_methods(("GET", "HEAD", "POST"))
@requires(Role.ADMIN)
def erase(request: HttpRequest, owner: int) -> HttpResponse:
    """The question in numbers; posted with the name, the erasure begins and the worker carries it out."""
    of = owner_or_404(request, owner)
    context: dict[str, Any] = {"owner": of, "held": erasure.holding(of), "sentence": ""}
    if request.method != "POST":
        return render(request, "pages/erase.html", context)
    if request.POST.get("name", "").strip() != of.name:
        context["sentence"] = _("That is not the name; nothing was erased.")
        return render(request, "pages/erase.html", context, status=422)
    begun = erasure.begin(of, request.user.get_username())
    return redirect("erasure", pk=begun.pk)


@never_cache
@require_safe
@requires(Role.ADMIN)
def receipt(request: HttpRequest, pk: int) -> HttpResponse:
    """How many rows went from each table by now. The page asks again by itself until the end."""
    return render(request, "pages/erasure.html", {"erasure": get_object_or_404(Erasure, pk=pk)})
