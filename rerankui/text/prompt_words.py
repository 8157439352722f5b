"""Texts of the prompt pages: the purpose of each prompt, what its variables hold, the faults of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.prompts import REQUIRED, TEXT_CHARS, VARIABLES, PromptFault, PromptText

PURPOSES: dict[str, Promise] = {
    "rerank": _("Chooses among the candidates that search found."),
    "enrich": _("Rewrites the query for search."),
    "split": _("Proposes to a curator where to split a topic."),
    "merge": _("Proposes to a curator the summary of merged topics."),
    "consolidate": _("Judges whether two similar topics are one."),
    "extract": _("Extracts facts and people from a topic."),
    "plan": _("Plans what the strategy react searches for beside the question."),
    "expand": _("Writes what else the strategy react searches for when it has found too little."),
    "answer": _("Answers from the messages found, each statement with its source."),
    "verify": _("Judges which sources say what an answer states."),
    "describe": _("Describes a picture or a recording, so that it is found by words."),
}
# What a trial of another text on a past run does.
TRIALS: dict[str, Promise] = {
    "rerank": _("A past run is repeated with another text and the same candidates."),
    "enrich": _("A past run is repeated: another prompt rewrites its query for search."),
}
DIFFERS: dict[str, Promise] = {
    "rerank": _("The new run takes the same candidates, so any difference comes from the prompt."),
    "enrich": _(
        "The new run gets the same query, searches today's memory for its own rewrite and chooses with the same "
        "rerank prompt."
    ),
}
TITLES: dict[str, Promise] = {
    "rerank": _("Rerank"),
    "enrich": _("Enrich the query"),
    "split": _("Propose a split"),
    "merge": _("Propose a merged summary"),
    "consolidate": _("Judge a merge"),
    "extract": _("Extract facts and people"),
    "plan": _("Plan searches"),
    "expand": _("Search once more"),
    "answer": _("Answer with sources"),
    "verify": _("Check an answer"),
    "describe": _("Describe pictures and sound"),
}
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
    "sources": _("the messages found, numbered"),
    "statements": _("the statements of the answer, numbered"),
    "file": _("the file's name and the message that it came with"),
    "topic": _("the messages of the topic, one a line"),
    "sizes": _("how small and how many topics may be"),
    "topics": _("the topics that are or may be merged, with their messages"),
}

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
    words = {"title": TITLES.get(name, name), "purpose": PURPOSES.get(name, ""), "tongue": LANGUAGES[language]}
    trial = {"trial_words": TRIALS.get(name, ""), "differs_words": DIFFERS.get(name, "")}
    return {"name": name, "language_code": language, **words, **trial}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a prompt; ``uses`` counts its occurrences in the text."""

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
