"""What became of a topic in a compared run, in a word."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from memoryapp.compare.states import ABSENT, BELOW, SHOWN
from rerankui.runs.page.legend import WORDS

STATE_WORDS: Mapping[str, str | Promise] = {
    **WORDS,
    SHOWN: WORDS[""],
    BELOW: pgettext_lazy("candidates", "below"),
    ABSENT: pgettext_lazy("candidate", "not found"),
}
# What the colours of a matrix mean.
LEGEND = ("chosen", "instead", "read", "dropped", SHOWN, BELOW)
