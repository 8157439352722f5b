"""One run, live or in replay: its page, the frames for a viewer without a socket, its JSON, and the button that stops
it.
"""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp.models import Role
from memoryapp.runs import followers, recall_document, stops
from rerankui.access import Request, operator_of, requires, run_or_404
from rerankui.runs import fragments


@require_safe
@requires(Role.VIEWER)
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    found = run_or_404(request, pk)
    page = fragments.run_page(
        found,
        followers.stored(pk),
        step=fragments.step_of(request.GET.get("step", "")),
        progress=None if found.is_finished else fragments.progress_of(pk),
    )
    context = page.names(
        section=fragments.run_section(page),
        memory=found.owner,
        language=get_language(),
        may_stop=page.is_live and operator_of(request).may(Role.DEBUGGER),
    )
    return render(request, "pages/runs/run.html", context)


@require_safe
@requires(Role.VIEWER)
def run_frame(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What is new to a viewer who has the events up to ``last``; for a page whose socket is blocked."""
    found = run_or_404(request, pk)
    last = request.GET.get("last", "")
    seen = fragments.Seen(int(last) if last.isdecimal() and len(last) < 9 else -1)
    frame = fragments.frame(found.pk, seen=seen, language=get_language() or settings.LANGUAGE_CODE)
    return HttpResponse(frame.html, status=200 if frame.html else 204)


@require_safe
@requires(Role.VIEWER)
def run_json(request: HttpRequest, pk: UUID) -> JsonResponse:
    """The run as programs get it, with its query and parameters."""
    found = run_or_404(request, pk)
    try:
        document = recall_document.document(found)
    except LookupError as error:
        raise Http404(str(error)) from error
    asked = {"user": found.owner.name, "query": found.query, "strategy": found.strategy, "parameters": found.parameters}
    return JsonResponse({**asked, **document}, json_dumps_params={"ensure_ascii": False, "indent": 2})


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.DEBUGGER)
def run_stop(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Stops a run; a person who opens the address is asked for confirmation first."""
    found = run_or_404(request, pk)
    if request.method != "POST":
        return render(request, "pages/runs/run_stop.html", {"run": found})
    stops.stop(found.pk, operator_of(request).user.get_username())
    return HttpResponse(status=204) if cast(Request, request).htmx else redirect("run", pk=found.pk)
