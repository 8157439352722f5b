"""Words of misses in templates."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from memoryapp.models import Miss
from rerankui.misses.words import LABELS, LOOKS, STAGES

register = template.Library()

_DAYS_FROM = 48


@register.filter
def stage_words(stage: str) -> str:
    return str(STAGES.get(stage, stage))


@register.filter
def remedy_words(remedy: str) -> str:
    return str(LABELS.get(remedy, remedy))


@register.filter
def hours(value: float) -> str:
    """``12 min``, ``5 h`` or ``3 days``."""
    if value < 1:
        return gettext("%(n)d min") % {"n": max(1, round(value * 60))}
    if value < _DAYS_FROM:
        return gettext("%(n)d h") % {"n": round(value)}
    return ngettext("%(n)d day", "%(n)d days", round(value / 24)) % {"n": round(value / 24)}


@register.simple_tag
def miss_state(miss: Miss) -> SafeString:
    return format_html('<span class="tag {}">{}</span>', LOOKS[miss.state], miss.get_state_display())
