"""The words of an endpoint's trial: what was asked, and what came of it."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

QUESTIONS: dict[str, Promise] = {
    "forced_call": _("A forced tool call"),
    "free_call": _("A free tool call"),
    "schema": _("An answer by a schema"),
    "streaming": _("A streamed answer"),
    "reasoning": _("Reasoning"),
    "usage": _("Counted tokens"),
    "images": _("A picture"),
    "embeddings": _("Embeddings"),
}
OUTCOMES: dict[str, Promise] = {
    "yes": pgettext_lazy("trial", "works"),
    "instead": pgettext_lazy("trial", "works with a substitute"),
    "no": pgettext_lazy("trial", "does not work"),
}
