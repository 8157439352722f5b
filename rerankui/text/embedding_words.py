"""A change of the embedding model in sentences: how far the one to come is, and that its thresholds wait."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.models import EmbeddingProfile
from memoryapp.pipeline.embed import Successor


def successor_words(successor: Successor) -> str:
    """How many passages have no vector of the profile that is being made."""
    form = ngettext(
        "%(name)s is to take over: %(n)s passage has no vector of it yet.",
        "%(name)s is to take over: %(n)s passages have no vector of it yet.",
        successor.waiting,
    )
    count = number_format(successor.waiting, force_grouping=True)
    return form % {"name": successor.row, "n": f"{count}+" if successor.has_more else count}


def undecided_words(row: EmbeddingProfile) -> str:
    """That nobody decided on the thresholds of a profile that took over."""
    form = _("%(name)s took over, and its thresholds are not measured ones: look at those that are proposed.")
    return form % {"name": row.model}
