"""One question asked in several ways at once; the runs lead to their comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from memoryapp.compare.comparison import CompareError
from memoryapp.compare.many import MOST_WAYS, start_many
from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.react.writing import ANSWER
from memoryapp.models import Prompt, Role, Run
from memoryapp.runs.lifecycle import LONGEST_QUERY
from memoryapp.runs.runner import runner
from memoryapp.suggestions import proposals
from rerankui.access import operator_of, owner_or_404, requires
from rerankui.forms import AskForm

LISTED_PROMPTS = 12
_COMPARABLE = (RERANK.name, ENRICH.name, ANSWER.name)


class SeveralForm(forms.Form):
    """A question, and the ways to ask it."""

    query = forms.CharField(max_length=LONGEST_QUERY, error_messages={"required": _("Type a question.")})
    strategies = forms.MultipleChoiceField(
        choices=[(name, name) for name in STRATEGIES],
        error_messages={"required": _("Choose a strategy."), "invalid_choice": _("There is no such strategy.")},
    )
    models = forms.CharField(max_length=4_000, required=False)
    prompts = forms.ModelMultipleChoiceField(Prompt.objects.filter(name__in=_COMPARABLE), required=False)

    def clean_models(self) -> Sequence[str]:
        """One name a line, each once."""
        lines = (line.strip()[:200] for line in self.cleaned_data["models"].splitlines())
        return list(dict.fromkeys(line for line in lines if line))


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def several(request: HttpRequest, owner_id: int) -> HttpResponse:
    memory = owner_or_404(request, owner_id)
    may_ask = operator_of(request).may(Role.DEBUGGER)
    initial: dict[str, Any] = {"query": request.GET.get("q", ""), "strategies": ["flash", "vector"]}
    form = SeveralForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and not may_ask:
        form.add_error(None, AskForm.NOT_ALLOWED)
    elif form.is_bound and form.is_valid():
        try:
            runs = start_many(memory, **form.cleaned_data, operator=operator_of(request).user)
        except CompareError as error:
            form.add_error(None, str(error))
        else:
            return redirect(_launched(runs))
    context = {
        "memory": memory,
        "form": form,
        "may_ask": may_ask,
        "chosen": [str(each) for each in form["strategies"].value() or []],
        "ticked": [str(each) for each in form["prompts"].value() or []],
        "strategies": list(STRATEGIES),
        "prompts": Prompt.objects.filter(name__in=_COMPARABLE).order_by("-made_at")[:LISTED_PROMPTS],
        "has_models": proposals.is_model_connected(),
        "most": MOST_WAYS,
    }
    status = 403 if form.is_bound and not may_ask else 422 if form.is_bound else 200
    return render(request, "pages/compare/several.html", context, status=status)


def _launched(runs: Sequence[Run]) -> str:
    for run in runs:
        runner.launch(run.pk)
    return f"{reverse('compare')}?{urlencode([('run', str(run.pk)) for run in runs])}"
