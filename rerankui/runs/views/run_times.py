"""Times and costs of the last runs: where the seconds went, which runs stand out, and what each day cost."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryapp.browsing import costs
from memoryapp.browsing.stage_times import MOST_RUNS, stage_times
from memoryapp.models import Role, Run
from rerankui.access import requires, visible_owners
from rerankui.pages import show
from rerankui.runs.charts.cost_bars import cost_bars
from rerankui.runs.charts.stage_strips import stage_strips
from rerankui.runs.views.runs import RunFilter

COST_DAYS = 30


@require_safe
@requires(Role.VIEWER)
def run_times(request: HttpRequest) -> HttpResponse:
    """Narrowed like the list of runs; costs by the chat user alone, because agents' questions have no other filter."""
    owners = visible_owners(request)
    filters = RunFilter(request.GET, owners=owners)
    listed = filters.fitting(filters.worded(Run.objects.by_hand().made_here().filter(owner__in=owners)))
    runs = stage_times(listed.select_related("owner"))
    now, zone = timezone.now(), timezone.get_current_timezone()
    payers = owners.filter(name=filters.chosen["user"]) if filters.chosen["user"] else owners
    days = costs.by_day(payers, now=now, zone=zone, days=COST_DAYS)
    context = {
        "filters": filters,
        "strips": stage_strips(runs),
        "runs": len(runs),
        "most": MOST_RUNS,
        "costs": cost_bars(days, now.astimezone(zone).date(), COST_DAYS),
        "cost_days": days,
        "cost_stages": costs.stages(),
    }
    return show(request, "pages/runs/run_times.html", "partials/runs/charts/run_times.html", context)
