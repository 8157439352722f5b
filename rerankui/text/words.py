"""What the tools of the strategy react report, in words: the names of values, and the codes among the values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext, pgettext_lazy
from django.utils.translation import gettext as _

from memoryapp.engine.prompt_registry import prompts
from memoryapp.engine.prompts.prompt import TEXT_CHARS, PromptFault, PromptText
from memoryapp.models import EmbeddingProfile
from memoryapp.upkeep.pipeline.embed import Successor

_NAMES: dict[str, Promise] = {
    "authors": pgettext_lazy("tool", "authors"),
    "by": pgettext_lazy("tool", "by"),
    "by_meaning": pgettext_lazy("tool", "by meaning"),
    "by_words": pgettext_lazy("tool", "by words"),
    "channels": pgettext_lazy("tool", "chats"),
    "citations": pgettext_lazy("tool", "sources"),
    "confidence": pgettext_lazy("tool", "confidence"),
    "coverage_est": pgettext_lazy("tool", "coverage"),
    "documents": pgettext_lazy("tool", "passages"),
    "documents_found": pgettext_lazy("tool", "passages found"),
    "evidence": pgettext_lazy("tool", "evidence"),
    "failure": pgettext_lazy("tool", "failure"),
    "hits": pgettext_lazy("tool", "found"),
    "kept_earlier": pgettext_lazy("tool", "earlier sources kept"),
    "left_out": pgettext_lazy("tool", "left out"),
    "meaning": pgettext_lazy("tool", "weight of meaning"),
    "messages": pgettext_lazy("tool", "messages"),
    "misquoted": pgettext_lazy("tool", "other sources say it"),
    "missing": pgettext_lazy("tool", "missing"),
    "moved": pgettext_lazy("tool", "moved"),
    "new": pgettext_lazy("tool", "new"),
    "queries": pgettext_lazy("tool", "queries"),
    "reasons": pgettext_lazy("tool", "because"),
    "relaxed": pgettext_lazy("tool", "filters widened"),
    "route": pgettext_lazy("tool", "preferred"),
    "since": pgettext_lazy("tool", "since"),
    "sources": pgettext_lazy("tool", "sources"),
    "tokens": pgettext_lazy("tool", "tokens"),
    "until": pgettext_lazy("tool", "until"),
    "verified": pgettext_lazy("tool", "verified"),
    "why": pgettext_lazy("tool", "because"),
    "words": pgettext_lazy("tool", "weight of words"),
}
_WAYS: dict[str, Promise] = {
    "bm25": pgettext_lazy("tool", "words"),
    "dense": pgettext_lazy("tool", "meaning"),
    "hybrid": pgettext_lazy("tool", "both alike"),
}
_DECIDERS: dict[str, Promise] = {
    "model": pgettext_lazy("tool", "a model"),
    "nobody": pgettext_lazy("tool", "no model"),
    "scorer": pgettext_lazy("tool", "the embedded scorer"),
    "words": pgettext_lazy("tool", "words"),
}
_REASONS: dict[str, Promise] = {
    "date": pgettext_lazy("tool", "names a day"),
    "descriptive": pgettext_lazy("tool", "asks for an explanation"),
    "found_little": pgettext_lazy("tool", "little was found"),
    "identifier": pgettext_lazy("tool", "names an identifier"),
    "long": pgettext_lazy("tool", "a long question"),
    "no_model": pgettext_lazy("tool", "none is connected"),
    "no_plan": pgettext_lazy("tool", "the model planned nothing"),
    "number": pgettext_lazy("tool", "names a number"),
    "quoted": pgettext_lazy("tool", "quotes words"),
    "short": pgettext_lazy("tool", "a short question"),
}
# Other values are texts of people and of models, which may happen to read like a code.
_CODES: dict[str, dict[str, Promise]] = {"route": _WAYS, "by": _DECIDERS, "reasons": _REASONS, "why": _REASONS}


def part_name(name: str) -> str:
    """What a value in the report of a tool is called; the tools of other programs name theirs themselves."""
    return str(_NAMES.get(name, name))


def part_words(value: Any, name: str) -> str:
    """The value of that ``name`` in the report of a tool, as ``plain_value`` but for codes, which are put in words."""
    codes = _CODES.get(name, {})
    if isinstance(value, bool):
        return pgettext("tool", "yes") if value else pgettext("tool", "no")
    if isinstance(value, str):
        return str(codes.get(value, value))
    if codes and isinstance(value, Sequence):
        return " · ".join(part_words(each, name) for each in value)
    return plain_value(value)


def plain_value(value: Any) -> str:
    """A number, a code or a list of them as a tool reports it; shares with two digits."""
    if isinstance(value, float):
        return floatformat(value, -2)
    if isinstance(value, Mapping):
        return " · ".join(f"{name} {plain_value(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " · ".join(map(plain_value, value))
    return str(value)


# Numbers of things in words, grouped as the reader's language groups them.


def grouped(number: int | float) -> str:
    """1284 as ``1,284``, in the reader's language."""
    return number_format(number, force_grouping=True)


def messages(count: int) -> str:
    return ngettext("%(shown)s message", "%(shown)s messages", count) % {"shown": grouped(count)}


def characters(count: int) -> str:
    return ngettext("%(shown)s character", "%(shown)s characters", count) % {"shown": grouped(count)}


# A change of the embedding model in sentences: how far the one to come is, and that its thresholds wait.


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


# Kinds of files in words.

_FILE_TYPES = {
    "image": pgettext_lazy("file", "picture"),
    "voice": pgettext_lazy("file", "voice message"),
    "audio": pgettext_lazy("file", "sound"),
    "video": pgettext_lazy("file", "video"),
    "document": pgettext_lazy("file", "document"),
    "text": pgettext_lazy("file", "text"),
}


def file_type(code: str) -> str | Promise:
    """What kind of file it is; a kind nobody foresaw (``pdf``) as it is stored."""
    return _FILE_TYPES.get(code, code)


# Moments in words, on the reader's clock.


def absolute(moment: datetime) -> str:
    """The moment on the reader's clock, with the zone it is of."""
    here = timezone.localtime(moment)
    zone = here.tzname() or ""
    # Zones without letters of their own are named by their distance: "+03".
    written = date_format(here, _("j F Y, H:i"))
    return f"{written} {f'UTC{zone}' if zone[:1] in '+-' else zone}"


def coming(moment: datetime) -> str:
    """A moment that is near on the reader's clock: the time alone if it is today, else with its date."""
    here = timezone.localtime(moment)
    return date_format(here, "H:i") if here.date() == timezone.localdate() else absolute(moment)


# The words of an endpoint's trial: what was asked, and what came of it.

QUESTIONS: dict[str, Promise] = {
    "forced_call": gettext_lazy("A forced tool call"),
    "free_call": gettext_lazy("A free tool call"),
    "schema": gettext_lazy("An answer by a schema"),
    "streaming": gettext_lazy("A streamed answer"),
    "reasoning": gettext_lazy("Reasoning"),
    "usage": gettext_lazy("Counted tokens"),
    "images": gettext_lazy("A picture"),
    "embeddings": gettext_lazy("Embeddings"),
}
OUTCOMES: dict[str, Promise] = {
    "yes": pgettext_lazy("trial", "works"),
    "instead": pgettext_lazy("trial", "works with a substitute"),
    "no": pgettext_lazy("trial", "does not work"),
}


# Texts of the prompt pages: names, variables and faults of a text.

LANGUAGES: dict[str, Promise] = {"en": gettext_lazy("English"), "ru": gettext_lazy("Russian")}

# A variable as a text uses it: $name or ${name}; $$ is a dollar sign.
_USED = re.compile(r"(?<!\$)\$(?:(\w+)|\{(\w+)\})")

FAULTS: dict[str, Promise] = {
    "too_long": gettext_lazy("%(part)s: longer than %(n)s characters."),
    "stray_dollar": gettext_lazy("%(part)s: a $ that begins no variable. Write $$ for a dollar sign."),
    "unknown_variable": gettext_lazy("%(part)s: $%(name)s is not a variable of this prompt."),
    "missing_variable": gettext_lazy("%(part)s: it must contain $%(name)s."),
}
PARTS: dict[str, Promise] = {"system": gettext_lazy("System message"), "user": gettext_lazy("User message")}


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
