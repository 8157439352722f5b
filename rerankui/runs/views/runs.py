"""The list of runs that people and programs asked for, newest first unless another order is asked for."""

from typing import Any
from uuid import UUID

from django.db.models import Case, OuterRef, QuerySet, Subquery, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy, pgettext_lazy

from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.erasure.expiry import note_going
from memoryapp.insight.browsing import usage
from memoryapp.insight.browsing.usage import MOST_RUNS, recall_figures, stage_times
from memoryapp.models import Role, Run, RunEvent
from memoryapp.models.run import NO_ANSWERS, UNANSWERED, is_shown_as
from memoryapp.runs import followers, recall_document
from rerankui.compare.pair import LEGEND, STATE_WORDS
from rerankui.frame.access import open_to, run_or_404, visible_owners
from rerankui.frame.filters import OfOwnersFilter, choice
from rerankui.frame.pages import Page, show
from rerankui.lists.facets import Facet, day_facet, of_project
from rerankui.lists.list_page import AskedList, ListPage
from rerankui.runs.charts import GROUPS, cost_bars, river, spreads, stage_strips, states_of
from rerankui.runs.page.answer_view import DOES
from rerankui.runs.page.outcomes import CHOICES, NAMES

# The strategies as they are chosen by people: the name, and what it does.
_STRATEGIES = {name: format_lazy("{} — {}", name, DOES[name]) if name in DOES else name for name in STRATEGIES}
# No program has this name: a blank at the beginning is cut off.
_HERE = " "
_COSTS = {"3": gettext_lazy("over $0.01"), "2": gettext_lazy("up to $0.01"), "1": pgettext_lazy("cost", "free")}


class RunFilter(OfOwnersFilter):
    placeholder = gettext_lazy("Words of the query")
    SORTS = {
        "newest": ("-created_at", "-id"),
        "oldest": ("created_at", "id"),
        "longest": ("-seconds", "-id"),
        "shortest": ("seconds", "id"),
        "costliest": ("-cost_usd", "-id"),
    }
    WORDS = ("query",)
    strategy = choice(
        gettext_lazy("Strategy"), gettext_lazy("all strategies"), list(_STRATEGIES.items()), by="strategy"
    )
    outcome = choice(
        gettext_lazy("Outcome"), gettext_lazy("all outcomes"), [*CHOICES.items(), *NAMES.items()], by=is_shown_as
    )


class RunList(ListPage[Run, RunFilter]):
    title = gettext_lazy("Runs")
    name = "runs"
    form = RunFilter
    columns = {
        "id": "pk",
        "chat_user": "owner__name",
        "query": "query",
        "strategy": "strategy",
        "origin": "origin",
        "fallback": "fallback",
        "topics_chosen": "selected_count",
        "candidates": "candidate_count",
        "turns": "turns",
        "tool_calls": "tool_calls",
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cost_usd": "cost_usd",
        "seconds": "seconds",
        "asked_at": "created_at",
    }
    page, partial = "pages/runs/runs.html", "partials/runs/runs.html"
    is_counted = False

    def rows(self, asked: AskedList[RunFilter]) -> QuerySet[Run]:
        runs = Run.objects.by_hand().filter(owner__in=asked.filters.owners)
        return runs.select_related("owner", "operator").with_answers()

    def facets(self, asked: AskedList[RunFilter]) -> tuple[Facet, ...]:
        return (
            Facet("origin", gettext_lazy("Origin"), _origin(), {_HERE: gettext_lazy("this memory")}),
            Facet("how", gettext_lazy("Strategy"), "strategy", _STRATEGIES),
            of_project(gettext_lazy("the whole memory")),
            Facet("ended", gettext_lazy("Outcome"), _end(), {**NAMES, **CHOICES}),
            Facet("model", gettext_lazy("Model"), _of_start("model")),
            Facet("prompt", gettext_lazy("Prompt"), _of_start("prompt_version")),
            day_facet("created_at"),
            Facet("cost", gettext_lazy("Cost"), _cost(), _COSTS, in_order=True),
        )

    def more(self, asked: AskedList[RunFilter], page: Page[Run], found: Any) -> dict[str, Any]:
        note_going(None, ["run", "trace"], page)
        return {}


RUNS = RunList()


@open_to(Role.VIEWER)
def run_list(request: HttpRequest) -> HttpResponse:
    filters = RunFilter(request.GET, owners=visible_owners(request))
    return RUNS.answer(AskedList(None, filters, request=request))


def _origin() -> Case:
    return Case(When(origin="", then=Value(_HERE)), default="origin", output_field=TextField())


def _of_start(key: str) -> Subquery:
    """What the first event of a run says."""
    started = RunEvent.objects.filter(run=OuterRef("pk"), seq=1)
    return Subquery(started.values(text=KeyTextTransform(key, "payload"))[:1], output_field=TextField())


def _end() -> Case:
    return Case(
        When(fallback__gt="", then="fallback"),
        When(answer__in=NO_ANSWERS, then=Value(UNANSWERED)),
        When(selected_count=0, selected_people_count=0, selected_artifact_count=0, then=Value("none")),
        default=Value("chosen"),
        output_field=TextField(),
    )


def _cost() -> Case:
    return Case(When(cost_usd__gt=0.01, then=Value("3")), When(cost_usd__gt=0, then=Value("2")), default=Value("1"))


# Pictures of one run: how its candidates went through the stages, and how their scores are spread.


@open_to(Role.VIEWER)
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


# Times and costs of the last runs: where the seconds went, which runs stand out, and what each day cost.

COST_DAYS = 30


@open_to(Role.VIEWER)
def run_times(request: HttpRequest) -> HttpResponse:
    """Narrowed like the list of runs; costs by the chat user alone, because agents' questions have no other filter."""
    owners = visible_owners(request)
    filters = RunFilter(request.GET, owners=owners)
    listed = filters.fitting(filters.worded(Run.objects.by_hand().made_here().filter(owner__in=owners)))
    runs = stage_times(listed.select_related("owner"))
    now, zone = timezone.now(), timezone.get_current_timezone()
    payers = owners.filter(name=filters.chosen["user"]) if filters.chosen["user"] else owners
    days = usage.by_day(payers, now=now, zone=zone, days=COST_DAYS)
    context = {
        "filters": filters,
        "strips": stage_strips(runs),
        "figures": recall_figures(runs),
        "runs": len(runs),
        "most": MOST_RUNS,
        "costs": cost_bars(days, now.astimezone(zone).date(), COST_DAYS),
        "cost_days": days,
        "cost_stages": usage.stages(),
    }
    return show(request, "pages/runs/run_times.html", "partials/runs/charts/run_times.html", context)
