"""Which of the two changed an answer, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.compare.causes import AskedModel, Cause, Causes

SENTENCES: Mapping[Cause, str | Promise] = {
    "none": _("Nothing changed it: the memory and the model of now choose the same."),
    "memory": _("The memory changed it: the model of then, too, chooses otherwise over the memory of now."),
    "model": _("The model changed it: over the memory of then, too, that of now chooses otherwise."),
    "either": _("Both changed it: the memory of now and the model of now, each alone, are enough to choose otherwise."),
    "both": _("Only both together changed it: neither the memory nor the model alone makes a difference."),
    "luck": _(
        "Asked again over the memory of then by the model of then, it already chooses otherwise: the choice is not"
        " steady, or rested on talk that was in no topic yet. The stability lab shows how steady it is."
    ),
    "failed": _("In one of them the model failed, so nothing can be concluded. Ask again what is missing."),
    "unknown": "",
}
_SAME = _("The memory changed it: the model and the prompt are the same as then.")


def sentence_of(found: Causes) -> str | Promise:
    """Empty as long as not all is asked."""
    return _SAME if found.cause == "memory" and found.is_one_model else SENTENCES[found.cause]


def model_words(asked: AskedModel) -> str | Promise:
    """The model with its prompt."""
    if not asked.name:
        return _("no model is asked")
    return f"{asked.name} · {asked.prompt}" if asked.prompt else asked.name
