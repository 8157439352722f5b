"""What changed an answer: the memory or the model, as two by two forks of a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryapp.compare import causes
from memoryapp.compare.comparison import CompareError
from memoryapp.models import Role
from memoryapp.runs import forks
from memoryapp.runs.replays import ForkError
from memoryapp.runs.runner import runner
from rerankui.access import operator_of, requires, run_or_404
from rerankui.compare.cause_words import model_words, sentence_of
from rerankui.forms import RecallForm
from rerankui.pages import is_partial


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def run_causes(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The table with what it would cost, or what it shows; posted, what is missing is asked, or all of it again."""
    run = run_or_404(request, pk)
    if not run.is_finished:
        raise Http404
    events, operator = forks.events_of(run), operator_of(request)
    context: dict[str, Any] = {"run": run, "memory": run.owner, "may_ask": operator.may(Role.DEBUGGER)}
    try:
        if request.method == "POST":
            if not operator.may(Role.DEBUGGER):
                raise PermissionDenied(RecallForm.NOT_ALLOWED)
            for fork in causes.begin(run, events, operator.user, again="again" in request.POST):
                runner.launch(fork.pk)
            return redirect("run_causes", pk=run.pk)
        context |= _shown(causes.causes(run, events), events)
    except (CompareError, ForkError) as refused:
        context["error"] = str(refused)
    page = "partials/compare/causes.html" if is_partial(request) else "pages/compare/causes.html"
    return render(request, page, context, status=422 if "error" in context and request.method == "POST" else 200)


def _shown(found: causes.Causes, events: Any) -> dict[str, Any]:
    cells = {(cell.memory, cell.model): cell for cell in found.cells}
    return {
        "found": found,
        "sentence": sentence_of(found),
        "models": [(when, found.models[when], model_words(found.models[when])) for when in ("then", "now")],
        "rows": [(memory, [cells[memory, model] for model in ("then", "now")]) for memory in ("then", "now")],
        "faults": list(dict.fromkeys(model.fault for model in found.models.values() if model.fault)),
        "cost": causes.forecast(found, events) if found.missing else None,
        "count": len(causes.distinct(found)),
    }
