"""The question box when it asks for memories: a post starts a run, which one watches as it selects topics."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryapp.models import Role, Run
from memoryapp.runs import lifecycle
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.runner import runner
from rerankui.access import operator_of, owner_or_404, requires
from rerankui.ask.question import BoxPage, question_box
from rerankui.forms import RecallForm
from rerankui.web.moment import moment_of

RECENT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPage(BoxPage):
    """The box, and the last runs of this memory."""

    recent: QuerySet[Run]


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def recall(request: HttpRequest, owner_id: int) -> HttpResponse:
    memory = owner_or_404(request, owner_id)
    may_ask = operator_of(request).may(Role.DEBUGGER)
    # The filter lab leads here with its cuts.
    linked = {**request.GET.dict(), "query": request.GET.get("q", "")}
    form = RecallForm(request.POST if request.method == "POST" else None, initial=linked)
    if request.method == "POST" and not may_ask:
        form.add_error(None, RecallForm.NOT_ALLOWED)
    if request.method == "POST" and form.is_valid():
        try:
            run = lifecycle.start(
                memory,
                form.cleaned_data["query"],
                strategy=form.cleaned_data["strategy"],
                parameters=form.parameters(),
                operator=operator_of(request).user,
                as_of=moment_of(request),
            )
        except ParameterError as refused:
            form.add_error(None, str(refused))
        else:
            runner.launch(run.pk)
            return redirect("run", pk=run.pk)
    page = RecallPage(
        box=question_box(request, memory, recall=form),
        memories_first=True,
        recent=Run.objects.of(memory).by_hand().with_answers().select_related("owner", "operator")[:RECENT],
    )
    status = 422 if form.is_bound and form.errors else 200
    if form.is_bound and not may_ask:
        status = 403
    return render(request, "pages/ask/recall.html", page.names(), status=status)
