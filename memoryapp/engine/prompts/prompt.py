"""A prompt as a value, and a version of its text. Everything that people wrote enters a prompt through a variable,
quoted and between tags of its own, so that a person who edits the text cannot remove that protection by accident. Every
variable of a prompt is recorded with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from string import Template
from types import MappingProxyType
from typing import Any, Literal

from memoryapp.engine.beside import table_beside
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lines import message_text, one_line, plain, quoted, shortened

# The languages of instructions, and what models are asked in each of them beside the prompts.

Language = Literal["en", "ru"]
INSTRUCTION_LANGUAGES: tuple[Language, ...] = ("en", "ru")
# A Russian question about vLLM on H100 contains many Latin letters and is still Russian.
_CYRILLIC_SHARE = 0.3

NONE: Mapping[Language, str] = {"en": "(none)", "ru": "(нет)"}
ANSWER_NOW: Mapping[Language, str] = {
    "en": "Tools are switched off now. Answer with the JSON, from what you have read.",
    "ru": "Инструменты отключены. Ответь JSON по тому, что уже прочитано.",
}

ANSWER_AGAIN: Mapping[Language, str] = {
    "en": "That answer could not be read. Answer again, with the JSON alone.",
    "ru": "Этот ответ не удалось прочитать. Ответь ещё раз, только JSON.",
}

ANSWER_CUT: Mapping[Language, str] = {
    "en": "That answer was cut off before its end. Answer again: complete, and shorter.",
    "ru": "Этот ответ оборвался. Ответь ещё раз: полностью и короче.",
}


def language_of(query: str, wanted: str = "") -> Language:
    """The language of the instructions: the ``wanted`` one, else by the share of Cyrillic letters in the query."""
    if wanted in ("en", "ru"):
        return "ru" if wanted == "ru" else "en"
    letters = [c for c in query if c.isalpha()]
    cyrillic = sum("\u0400" <= c <= "\u04ff" for c in letters)
    return "ru" if letters and cyrillic / len(letters) >= _CYRILLIC_SHARE else "en"


TEXT_CHARS = 40_000


@dataclass(frozen=True, slots=True)
class PromptVariable:
    """``holds`` says in English what its value is. A value that people wrote is enclosed in the ``tag``, which is empty
    for values of the program."""

    name: str
    holds: str
    tag: str = ""

    def enclosed(self, value: str) -> str:
        """The value as the model reads it."""
        return f"<{self.tag}>\n{value}\n</{self.tag}>" if self.tag else value


@dataclass(frozen=True, slots=True)
class PromptTrial:
    """What people read where another text of a prompt is tried on a past run: what is done, and what will differ."""

    does: str
    differs: str


@dataclass(frozen=True, slots=True, eq=False)
class BuiltInPrompt:
    """A prompt as it comes with the program. People edit its texts in versions, see ``PromptText``.

    ``title`` and ``purpose`` are English words for people. ``texts`` are the system and the user message by language,
    both for ``string.Template``. The user message must contain the ``required`` variables; without them the model would
    answer some other question. A past run can be repeated with another text of a prompt that has a ``trial``.

    Raises ValueError for a text with faults, and for a variable that is required but not declared, or declared but
    not used."""

    name: str
    title: str
    purpose: str
    texts: Mapping[Language, tuple[str, str]]
    variables: tuple[PromptVariable, ...]
    required: tuple[PromptVariable, ...]
    trial: PromptTrial | None = None

    def __post_init__(self) -> None:
        undeclared = [variable.name for variable in self.required if variable not in self.variables]
        wrong = [f"${name} is required but not declared" for name in undeclared]
        for text in map(self.built_in, INSTRUCTION_LANGUAGES):
            wrong += [f"{text.language}: {fault}" for fault in faults(text)]
            unused = [variable.name for variable in self.variables if variable.name not in text.used]
            wrong += [f"{text.language}: ${name} is declared but not used" for name in unused]
        if wrong:
            raise ValueError(f"The prompt {self.name}: {'; '.join(wrong)}.")

    def built_in(self, language: Language) -> PromptText:
        """Its text as it comes with the program, which is version 0."""
        return PromptText(self, language, 0, *self.texts[language])

    def of(self, prompts: PromptBook, language: Language) -> PromptText:
        """Its text in ``prompts``, or the built-in one when there is none."""
        return prompts.get((self.name, language)) or self.built_in(language)


@dataclass(frozen=True, slots=True)
class PromptText:
    """One version of the texts of one prompt in one language; ``system`` and ``user`` are ``string.Template`` texts."""

    prompt: BuiltInPrompt
    language: Language
    version: int
    system: str
    user: str

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def label(self) -> str:
        """``rerank-en-0``."""
        return f"{self.name}-{self.language}-{self.version}"

    @property
    def used(self) -> frozenset[str]:
        """The names of the variables in both messages, whether the prompt has them or not."""
        return frozenset(name for text in (self.system, self.user) for name in Template(text).get_identifiers())


def texts_beside(module: str, prompt: str) -> Mapping[Language, tuple[str, str]]:
    """The built-in texts of a prompt, from the TOML file with the name of its ``module``, which says ``__file__``."""
    found = table_beside(module)[prompt]
    return {language: (found[language]["system"], found[language]["user"]) for language in INSTRUCTION_LANGUAGES}


# The texts in force, by name and language.
PromptBook = Mapping[tuple[str, str], PromptText]
# Without an edited text the built-in ones apply.
UNEDITED: PromptBook = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PromptFault:
    """A fault in an edited message; ``name`` is the variable concerned, if any."""

    code: Literal["too_long", "stray_dollar", "unknown_variable", "missing_variable"]
    part: Literal["system", "user"]
    name: str = ""

    def __str__(self) -> str:
        """For the log: ``user: missing_variable $query``."""
        return f"{self.part}: {self.code}" + (f" ${self.name}" if self.name else "")


def faults(text: PromptText) -> list[PromptFault]:
    """The faults of an edited text. A text without faults can be ``rendered``."""
    parts: dict[Literal["system", "user"], Template] = {"system": Template(text.system), "user": Template(text.user)}
    known = {variable.name for variable in text.prompt.variables}
    found = [PromptFault("too_long", part) for part, template in parts.items() if len(template.template) > TEXT_CHARS]
    found += [PromptFault("stray_dollar", part) for part, template in parts.items() if not template.is_valid()]
    for part, template in parts.items():
        unknown = dict.fromkeys(name for name in template.get_identifiers() if name not in known)
        found += [PromptFault("unknown_variable", part, name) for name in unknown]
    present, required = parts["user"].get_identifiers(), [variable.name for variable in text.prompt.required]
    return found + [PromptFault("missing_variable", "user", name) for name in required if name not in present]


def rendered(text: PromptText, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """System and user message in OpenAI's format. A ``$`` inside a variable stays as it is. Raises KeyError for a
    variable without a value, and ValueError for a broken text; see ``faults``."""
    known = {variable.name: variable for variable in text.prompt.variables}
    values = {name: known[name].enclosed(value) if name in known else value for name, value in variables.items()}
    return [
        {"role": "system", "content": Template(text.system).substitute(values)},
        {"role": "user", "content": Template(text.user).substitute(values)},
    ]


# Words of the engine for people, which its pages translate.


def gettext_noop(text: str) -> str:
    """Marks an English ``text`` for the catalogue of translations and returns it unchanged."""
    return text


# Variables of several prompts, and the values of those that describe what a query is asked in.

# How many messages of the running conversation the reranker is shown, enough to resolve "it" and "that one".
CURRENT_MESSAGES = 10
_CURRENT_CHARS = 500

TODAY = PromptVariable("today", gettext_noop("the date, as 2026-03-02"))
QUERY = PromptVariable("query", gettext_noop("the query as the user typed it"), tag="user_query")
PROFILE = PromptVariable("profile", gettext_noop("what is known of the user"), tag="user_profile")
TOPIC = PromptVariable("topic", gettext_noop("the messages of the topic, one a line"), tag="topic")
SOURCES = PromptVariable("sources", gettext_noop("the messages found, numbered"), tag="sources")
# What ``background`` has values of.
BACKGROUND = (
    TODAY,
    PROFILE,
    PromptVariable("recent_topics", gettext_noop("what was talked about lately"), tag="recent_topics"),
    PromptVariable("messages", gettext_noop("the last messages of the running conversation"), tag="current_messages"),
    PromptVariable("media", gettext_noop("what is attached to the query, by name"), tag="media"),
    QUERY,
)


def background(
    query: str,
    *,
    messages: Sequence[MessageContent],
    profile: str,
    recent_topics: Sequence[str],
    media: Sequence[MediaContent],
    today: date,
    none: str,
) -> dict[str, str]:
    """The values of ``BACKGROUND``; what people wrote is quoted, and ``none`` stands for what there is none of."""
    files = [(number, each.item) for number, each in enumerate(media, 1)]
    attached = [f"{n}. {i.type} {plain(i.name)} ({plain(i.mime_type)}, {i.size_bytes} bytes)" for n, i in files]
    return {
        "query": quoted(query.strip()),
        "messages": "\n".join(shortened(message_text(message), _CURRENT_CHARS) for message in messages) or none,
        "profile": quoted(profile.strip()) or none,
        "today": today.isoformat(),
        "recent_topics": listed(recent_topics) or none,
        "media": "\n".join(attached) or none,
    }


def listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {one_line(line)}" for line in lines)
