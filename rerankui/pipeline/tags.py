"""How the pipeline page draws a stage: its words, the model that serves it, and its last hours as bars."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from memoryapp.engine.notes import Note
from memoryapp.upkeep.pipeline import STAGES
from memoryapp.upkeep.pipeline.shown import PipelineStage
from memoryapp.upkeep.pipeline.stage import StageWords
from rerankui.frame.forms import duration
from rerankui.runs.page.outcomes import sentence_of
from rerankui.text import words as embedding_words
from rerankui.text.words import grouped

register = template.Library()

_HOUR = (
    '<g><title>{}</title><rect class="days-room" x="{}" width="10" height="32"/>'
    '<rect x="{}" y="{}" width="8" height="{}"/></g>'
)


@register.filter
def stage_words(name: str) -> StageWords:
    return STAGES[name].words


@register.filter
def waits(words: StageWords, n: int) -> str:
    """What waits in a stage, as it is written behind its number."""
    return str(words.waits % {"n": n})


@register.simple_tag
def stage_name(name: str) -> str | Promise:
    return STAGES[name].words.name


register.filter("duration", duration)
register.filter("successor_words", embedding_words.successor_words)
register.filter("undecided_words", embedding_words.undecided_words)


@register.simple_tag(takes_context=True)
def served(context: Context, stage: PipelineStage) -> str:
    """Which model does the work of a stage, or that none does, as the settings are."""
    served_by = stage.stage.served_by
    return served_by(context["profile"]) if served_by else stage.stage.words.chat_model


@register.simple_tag
def chat_model(stage: str) -> str:
    return STAGES[stage].words.chat_model


@register.filter
def fault_words(sentence: str, note: Mapping[str, Any] | None = None) -> str:
    """Returns why something failed. A sentence without a note is English; without values, the catalogue has it."""
    if note:
        return sentence_of(Note(note["code"], note["values"]))
    ended = sentence if not sentence or sentence[-1] in ".!?…" else f"{sentence}."
    return _(ended) if ended else ""


@register.simple_tag
def hours_chart(counts: Sequence[int], now: datetime, label: str) -> SafeString:
    """A bar for each hour until ``now``; the numbers are in the titles."""
    most = max(counts, default=0) or 1
    first = timezone.localtime(now) - timedelta(hours=len(counts) - 1)
    bars = format_html_join("", _HOUR, (_hour_bar(place, count, most, first) for place, count in enumerate(counts)))
    return format_html(
        '<svg class="days hours" viewBox="0 0 {} 32" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        len(counts) * 10,
        label,
        bars,
    )


def _hour_bar(place: int, count: int, most: int, first: datetime) -> tuple[object, ...]:
    height = max(round(30 * count / most, 1), 1.5 if count else 0.5)
    title = f"{date_format(first + timedelta(hours=place), _('j M, H:00'))} · {grouped(count)}"
    return title, place * 10, place * 10 + 1, 32 - height, height
