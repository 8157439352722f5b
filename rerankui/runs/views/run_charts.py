"""Pictures of one run: how its candidates went through the stages, and how their scores are spread."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryapp.engine.outline import Outline
from memoryapp.models import Role, Run
from memoryapp.runs import followers, recall_document
from rerankui.access import requires, run_or_404
from rerankui.compare.state_words import LEGEND, STATE_WORDS
from rerankui.runs.charts.river import river, states_of
from rerankui.runs.charts.score_bins import GROUPS, spreads


@require_safe
@requires(Role.VIEWER)
def run_charts(request: HttpRequest, pk: UUID) -> HttpResponse:
    run = run_or_404(request, pk)
    events = [item.event for item in followers.stored(pk)]
    if not run.is_finished or not events:
        raise Http404
    outline = Outline.of(events)
    uses = [use["id"] for use in (run.delivered or {}).get("uses", ())]
    context = {
        "run": run,
        "memory": run.owner,
        "river": river(events, _handed_over(run), uses),
        "spreads": spreads(outline.found.candidates if outline.found else (), states_of(events)),
        "groups": list(GROUPS.items()),
        "legend": [(name, STATE_WORDS[name]) for name in LEGEND if name != "below"],
        "state_words": STATE_WORDS,
    }
    return render(request, "pages/runs/run_charts.html", context)


def _handed_over(run: Run) -> str:
    try:
        return recall_document.part_text(run, "topics")
    except LookupError:
        return ""
