"""What the assistant said with the context of a run, pasted by a person: which of the chosen memories it used."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryapp import delivery
from memoryapp.engine.outline import Outline
from memoryapp.models import Role
from memoryapp.runs import followers
from rerankui.access import Request, requires, run_or_404
from rerankui.runs.page.delivered import delivered_view


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.DEBUGGER)
def run_delivered(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Compares the answer; for htmx only that part of the run's page, which is all that changes."""
    run = run_or_404(request, pk)
    error = ""
    if request.method == "POST":
        try:
            delivery.deliver(run, request.POST.get("text", ""))
        except delivery.DeliveryError as refused:
            error = str(refused)
    if not cast(Request, request).htmx:
        return redirect("run", pk=run.pk)
    finished = Outline.of([item.event for item in followers.stored(run.pk)]).finished
    context = {"run": run, "delivered": delivered_view(run, finished, error)}
    return render(request, "partials/runs/delivered/uses.html", context, status=422 if error else 200)
