"""Why a run did not choose something: the answer to what was typed or clicked, on its page or as one of its own."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp.explain import WhyNotError, why_not
from memoryapp.explain.wanted import LONGEST
from memoryapp.models import Role, Run
from rerankui.access import requires, run_or_404
from rerankui.pages import show
from rerankui.runs.page.why_not import WhyNotView, view_of

_NAMES = ("topic", "message", "text")


@require_safe
@requires(Role.VIEWER)
def run_why_not(request: HttpRequest, pk: UUID) -> HttpResponse:
    run = run_or_404(request, pk)
    given = {name: request.GET.get(name, "").replace("\0", "").strip()[: LONGEST + 1] for name in _NAMES}
    view = _view(run, {name: value for name, value in given.items() if value})
    context = {"run": run, "why": view}
    return show(request, "pages/runs/run_why_not.html", "partials/runs/why_not/answer.html", context)


def _view(run: Run, given: dict[str, str]) -> WhyNotView:
    asked = next(iter(given.values()), "")
    if not given:
        return WhyNotView()
    try:
        return view_of(run, asked, why_not(run, **given))
    except WhyNotError as error:
        return WhyNotView(asked, str(error))
