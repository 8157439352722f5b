"""The words for stages, remedies and states of misses, and how templates write them."""

from collections.abc import Mapping

from django import template
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.insight.misses.remedies import REMEDIES
from memoryapp.models import Miss

STAGES: Mapping[str, str | Promise] = {
    "unknown": pgettext_lazy("stage", "not in the memory"),
    "erased": pgettext_lazy("stage", "erased"),
    "in_session": pgettext_lazy("stage", "not archived yet"),
    "not_searched": pgettext_lazy("stage", "nothing was searched"),
    "no_vector": pgettext_lazy("stage", "without a vector"),
    "filtered": pgettext_lazy("stage", "excluded"),
    "below_threshold": pgettext_lazy("stage", "not similar enough"),
    "beyond_candidates": pgettext_lazy("stage", "ranked too low"),
    "cut": pgettext_lazy("stage", "cut off"),
    "not_requested": pgettext_lazy("stage", "shown, not opened"),
    "did_not_fit": pgettext_lazy("stage", "too large to read"),
    "not_chosen": pgettext_lazy("stage", "read, not chosen"),
    "beyond_limit": pgettext_lazy("stage", "over the limit"),
    "not_in_context": pgettext_lazy("stage", "not in the context"),
    "not_used": pgettext_lazy("stage", "not used in the answer"),
    "chosen": pgettext_lazy("stage", "not lost"),
    "": pgettext_lazy("stage", "not known yet"),
    "none": pgettext_lazy("stage", "not known yet"),
}
LABELS: Mapping[str, str | Promise] = {
    **{name: remedy.label for name, remedy in REMEDIES.items()},
    "none": _("kept without a repair"),
}
# The look of each state, see the tags of the stylesheet.
LOOKS: Mapping[str, str] = {
    Miss.State.OPEN: "tag-failed",
    Miss.State.REPAIRED: "tag-read",
    Miss.State.KEPT: "tag-chosen",
    Miss.State.DISMISSED: "",
}

register = template.Library()

_DAYS_FROM = 48


@register.filter
def miss_stage(stage: str) -> str:
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
