"""The words of the filter: its cuts, and what became of each topic."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.strategies.cuts import Fate

LABELS: Mapping[str, Promise] = {
    "initial_top_k": _("First stage: candidates at most"),
    "initial_threshold": _("First stage: similarity at least"),
    "threshold": _("Similarity at least"),
    "score_gap": _("Cut at a drop above"),
    "final_top_k": _("Topics at most"),
}
FATE_NAMES: Mapping[Fate, Promise] = {
    "kept": _("kept"),
    "below_initial": _("below the first stage"),
    "beyond_initial": _("beyond the first stage"),
    "below_threshold": _("below the threshold"),
    "after_gap": _("behind the gap"),
    "beyond_top_k": _("beyond the most"),
}
# By the stage of the event ``filtered``, which does not tell the two fates of the first stage apart.
STAGE_WORDS: Mapping[str, Promise] = {
    "initial": _("outside the first stage"),
    "threshold": FATE_NAMES["below_threshold"],
    "gap": FATE_NAMES["after_gap"],
    "top_k": FATE_NAMES["beyond_top_k"],
}
