"""The words for stages, remedies and states of misses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.insight.misses.remedies import REMEDIES
from memoryapp.models import Miss

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

STAGES: Mapping[str, StrOrPromise] = {
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
LABELS: Mapping[str, StrOrPromise] = {
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
