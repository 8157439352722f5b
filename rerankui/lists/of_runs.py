"""The facets of the list of runs, and its columns as a file."""

from __future__ import annotations

from django.db.models import Case, Func, OuterRef, Subquery, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import TruncDay
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy, pgettext_lazy

from memoryapp.models import RunEvent
from memoryapp.models.run import NO_ANSWERS, UNANSWERED
from rerankui.lists.facets import Facet
from rerankui.runs.page.outcomes import CHOICES, NAMES

COLUMNS = {
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
# No program has this name: a blank at the beginning is cut off.
_HERE = " "
_COSTS = {
    "3": gettext_lazy("over $0.01"),
    "2": gettext_lazy("up to $0.01"),
    "1": pgettext_lazy("cost", "free"),
}


def facets() -> tuple[Facet, ...]:
    return (
        Facet("origin", gettext_lazy("Origin"), _origin(), _origin_words),
        Facet("how", gettext_lazy("Strategy"), "strategy"),
        Facet("ended", gettext_lazy("Outcome"), _end(), _end_words),
        Facet("model", gettext_lazy("Model"), _of_start("model")),
        Facet("prompt", gettext_lazy("Prompt"), _of_start("prompt_version")),
        Facet("day", gettext_lazy("Day"), _day(), _day_words, in_order=True),
        Facet("cost", gettext_lazy("Cost"), _cost(), lambda value: _COSTS.get(value, value), in_order=True),
    )


def _origin() -> Case:
    return Case(When(origin="", then=Value(_HERE)), default="origin", output_field=TextField())


def _origin_words(value: str) -> str:
    return str(gettext_lazy("this memory")) if value == _HERE else value


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


def _end_words(value: str) -> str:
    return str({**NAMES, **CHOICES}.get(value, value))


def _day() -> Func:
    day = TruncDay("created_at", tzinfo=timezone.get_current_timezone())
    return Func(day, Value("YYYY-MM-DD"), function="to_char", output_field=TextField())


def _day_words(value: str) -> str:
    day = parse_date(value)
    return date_format(day, "j M Y") if day else value


def _cost() -> Case:
    return Case(When(cost_usd__gt=0.01, then=Value("3")), When(cost_usd__gt=0, then=Value("2")), default=Value("1"))
