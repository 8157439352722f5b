"""The page *Recall*: ask one memory a question and watch how topics are selected."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryapp.models import Message, Role, Run, Topic
from memoryapp.runs import lifecycle
from memoryapp.runs.runner import runner
from rerankui.access import operator_of, owner_or_404, requires
from rerankui.forms import RecallForm

RECENT = 8


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def recall(request: HttpRequest, owner: int) -> HttpResponse:
    memory = owner_or_404(request, owner)
    may_ask = operator_of(request).may(Role.DEBUGGER)
    form = RecallForm(request.POST if request.method == "POST" else None, initial={"query": request.GET.get("q", "")})
    if request.method == "POST" and not may_ask:
        form.add_error(None, RecallForm.NOT_ALLOWED)
    if request.method == "POST" and form.is_valid():
        run = lifecycle.start(
            memory,
            form.cleaned_data["query"],
            strategy=form.cleaned_data["strategy"],
            parameters=form.parameters(),
            operator=operator_of(request).user,
        )
        runner.launch(run.pk)
        return redirect("run", pk=run.pk)
    context = {
        "memory": memory,
        "form": form,
        "may_ask": may_ask,
        "topics": Topic.objects.of(memory).live().count(),
        "is_begun": Message.objects.of(memory).active().exists(),
        "may_archive": operator_of(request).may(Role.CURATOR),
        "recent": Run.objects.of(memory).by_hand().select_related("owner", "operator")[:RECENT],
    }
    status = 422 if form.is_bound and form.errors else 200
    if form.is_bound and not may_ask:
        status = 403
    return render(request, "pages/runs/recall.html", context, status=status)
