"""Texts of the prompt pages: names, variables and faults of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.prompt_registry import prompts
from memoryapp.engine.prompts.prompt import TEXT_CHARS, PromptFault, PromptText

LANGUAGES: dict[str, Promise] = {"en": _("English"), "ru": _("Russian")}

# A variable as a text uses it: $name or ${name}; $$ is a dollar sign.
_USED = re.compile(r"(?<!\$)\$(?:(\w+)|\{(\w+)\})")

FAULTS: dict[str, Promise] = {
    "too_long": _("%(part)s: longer than %(n)s characters."),
    "stray_dollar": _("%(part)s: a $ that begins no variable. Write $$ for a dollar sign."),
    "unknown_variable": _("%(part)s: $%(name)s is not a variable of this prompt."),
    "missing_variable": _("%(part)s: it must contain $%(name)s."),
}
PARTS: dict[str, Promise] = {"system": _("System message"), "user": _("User message")}


def fault_words(fault: PromptFault) -> str:
    return str(FAULTS[fault.code]) % {"part": PARTS[fault.part], "name": fault.name, "n": TEXT_CHARS}


def label_of(text: PromptText) -> str:
    """The label of a version, as people read it."""
    return text.label if text.version else gettext("%(label)s, built in") % {"label": f"{text.name}-{text.language}"}


def words_of(key: tuple[str, str]) -> dict[str, Any]:
    """The prompt's names and texts, for the context of a page."""
    name, language = key
    prompt = prompts()[name]
    words = {"title": gettext(prompt.title), "purpose": gettext(prompt.purpose), "tongue": LANGUAGES[language]}
    trial = prompt.trial
    trial_words = {"trial_words": gettext(trial.does), "differs_words": gettext(trial.differs)} if trial else {}
    return {"name": name, "language_code": language, **words, **trial_words}


def title_of(name: str) -> str:
    """What the prompt of that name is called."""
    return gettext(prompts()[name].title)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a prompt; ``uses`` counts its occurrences in the text."""

    name: str
    holds: str
    is_required: bool
    uses: int


def variables_of(text: PromptText) -> Sequence[Variable]:
    """Every variable the text may use, in the order of the prompt."""
    prompt = text.prompt
    return [
        Variable(each.name, gettext(each.holds), each in prompt.required, _uses(each.name, text))
        for each in prompt.variables
    ]


def _uses(name: str, text: PromptText) -> int:
    return sum(name in found.groups() for found in _USED.finditer(f"{text.system}\n{text.user}"))
