"""What people are told about prompts: what each one is for, and what its variables hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.prompts import REQUIRED, VARIABLES, PromptText

PURPOSES: dict[str, Promise] = {
    "rerank": _("Chooses among the candidates that search found."),
    "enrich": _("Rewrites the query into the line that search looks for."),
}
# What trying another text on a run of the past comes to.
TRIALS: dict[str, Promise] = {
    "rerank": _("The run of the past is asked again with another text and the same candidates."),
    "enrich": _("The run of the past is asked again: another text writes the line that search looks for."),
}
DIFFERS: dict[str, Promise] = {
    "rerank": _("The new run takes the same candidates, so what differs is the prompt's doing."),
    "enrich": _(
        "The new run is told the same, searches the memory of today for its own line and chooses with the rerank prompt"
        " in force."
    ),
}
TITLES: dict[str, Promise] = {"rerank": _("Rerank"), "enrich": _("Enrich the query")}
LANGUAGES: dict[str, Promise] = {"en": _("English"), "ru": _("Russian")}

HOLDS: dict[str, Promise] = {
    "max_topics": _("how many topics may be chosen"),
    "max_people": _("how many people may be chosen"),
    "max_artifacts": _("how many files may be chosen"),
    "excerpt_over": _("the size in characters from which a topic needs an excerpt"),
    "tool": _("the name of the tool that loads topics"),
    "profile": _("what is known of the user"),
    "inner_circle": _("the people closest to the user"),
    "recent_topics": _("what was talked about lately"),
    "today": _("the date, as 2026-03-02"),
    "enriched": _("the query as search saw it"),
    "query": _("the query as the user typed it"),
    "messages": _("the last messages of the running conversation"),
    "media": _("what is attached to the query, by name"),
    "topic_candidates": _("a line for each topic that search found"),
    "people_candidates": _("a line for each person that search found"),
    "artifact_candidates": _("a line for each file that search found"),
}

# A variable as a text uses it: $name or ${name}; $$ is a dollar sign.
_USED = re.compile(r"(?<!\$)\$(?:(\w+)|\{(\w+)\})")

# What the engine finds wrong, which it says in English, and how the reader is told.
FAULTS: tuple[tuple[re.Pattern[str], Promise], ...] = (
    (
        re.compile(r"The (?P<part>\w+) message is longer than (?P<n>\d+) characters\."),
        _("%(part)s: longer than %(n)s characters."),
    ),
    (
        re.compile(r"The (?P<part>\w+) message has a \$ that begins no variable; .*"),
        _("%(part)s: a $ that begins no variable. Write $$ for a dollar sign."),
    ),
    (
        re.compile(r"The (?P<part>\w+) message uses \$(?P<name>\w+), which is no variable of this prompt\."),
        _("%(part)s: $%(name)s is no variable of this prompt."),
    ),
    (re.compile(r"The (?P<part>\w+) message must hold \$(?P<name>\w+)\."), _("%(part)s: it must hold $%(name)s.")),
)
PARTS: dict[str, Promise] = {"system": _("System message"), "user": _("User message")}


def told(fault: str) -> str:
    """A sentence of ``engine.prompts.faults`` in the reader's language; one that is new here as it came."""
    for pattern, words in FAULTS:
        found = pattern.fullmatch(fault)
        if found:
            return str(words) % {**found.groupdict(), "part": PARTS.get(found["part"], found["part"])}
    return fault


def label_of(text: PromptText) -> str:
    """How people call a version."""
    return text.label if text.version else gettext("%(label)s, built in") % {"label": f"{text.name}-{text.language}"}


def words_of(key: tuple[str, str]) -> dict[str, Any]:
    """How pages call this prompt."""
    name, language = key
    words = {"title": TITLES.get(name, name), "purpose": PURPOSES.get(name, ""), "tongue": LANGUAGES[language]}
    trial = {"trial_words": TRIALS.get(name, ""), "differs_words": DIFFERS.get(name, "")}
    return {"name": name, "language_code": language, **words, **trial}


@dataclass(frozen=True, slots=True)
class Variable:
    """``uses`` counts where the text names it."""

    name: str
    holds: Promise | str
    is_required: bool
    uses: int


def variables_of(text: PromptText) -> Sequence[Variable]:
    """Every variable the text may use, in the order of the engine."""
    required = set(REQUIRED.get(text.name, ()))
    return [Variable(name, HOLDS.get(name, ""), name in required, _uses(name, text)) for name in VARIABLES[text.name]]


def _uses(name: str, text: PromptText) -> int:
    return sum(name in found.groups() for found in _USED.finditer(f"{text.system}\n{text.user}"))
