"""Prompts as data: versioned texts with variables, the tool, the schema of the answer.

Everything that people wrote enters a prompt through a variable, quoted and between tags of its own, so that a person
who edits the text cannot remove that protection by accident. Every variable of a prompt is recorded with the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from string import Template
from types import MappingProxyType
from typing import Any, Literal, get_args

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.engine.memory import MessageContent, parse_topic_id
from memoryapp.engine.parameters import DEFAULTS, Limits
from memoryapp.engine.prompt_texts.agents import AGENT_TEXTS
from memoryapp.engine.prompt_texts.strategies import STRATEGY_TEXTS
from memoryapp.engine.text.json_answers import INTEGER, list_schema, object_schema
from memoryapp.engine.text.lines import message_text, one_line, plain, quoted, shortened

TOOL_NAME = "get_topics_content"

Language = Literal["en", "ru"]
PromptName = Literal[
    "rerank", "enrich", "split", "merge", "consolidate", "extract", "plan", "expand", "answer", "verify", "describe"
]

# How many messages of the running conversation the models are shown, enough to resolve "it" and "that one": the
# reranker reads ten, the enricher the last five of them.
CURRENT_MESSAGES = 10
_ENRICHER_MESSAGES = 5
_CURRENT_CHARS = 500
TEXT_CHARS = 40_000
# A Russian question about vLLM on H100 contains many Latin letters and is still Russian.
_CYRILLIC_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class PromptText:
    """One version of one prompt; ``system`` and ``user`` are ``string.Template`` texts. Version 0 is built in."""

    name: PromptName
    language: Language
    version: int
    system: str
    user: str

    @property
    def label(self) -> str:
        """``rerank-en-0``."""
        return f"{self.name}-{self.language}-{self.version}"


PromptBook = Mapping[tuple[str, str], PromptText]

BUILT_IN: PromptBook = MappingProxyType(
    {
        (name, language): PromptText(name, language, 0, *{**STRATEGY_TEXTS, **AGENT_TEXTS}[name, language])
        for name in get_args(PromptName)
        for language in get_args(Language)
    }
)

_BACKGROUND = ("today", "profile", "recent_topics", "messages", "media", "query")
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "rerank": (
        *_BACKGROUND,
        "enriched",
        "inner_circle",
        "topic_candidates",
        "people_candidates",
        "artifact_candidates",
        "max_topics",
        "max_people",
        "max_artifacts",
        "excerpt_over",
        "tool",
    ),
    "enrich": _BACKGROUND,
    "split": ("topic", "profile", "sizes"),
    "merge": ("topics",),
    "consolidate": ("topics",),
    "extract": ("topic",),
    "plan": ("today", "query"),
    "expand": ("today", "query"),
    "answer": ("today", "query", "sources"),
    "verify": ("sources", "statements"),
    "describe": ("file",),
}
# Variables that the user message must contain; without them the model would answer some other question.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "rerank": ("query", "topic_candidates", "people_candidates", "artifact_candidates"),
    "enrich": ("query",),
    "split": ("topic",),
    "merge": ("topics",),
    "consolidate": ("topics",),
    "extract": ("topic",),
    "plan": ("query",),
    "expand": ("query",),
    "answer": ("query", "sources"),
    "verify": ("sources", "statements"),
    "describe": ("file",),
}
# The variables that contain what people wrote, and the tags around each of them.
TAGS: Mapping[str, str] = {
    "profile": "user_profile",
    "inner_circle": "inner_circle",
    "recent_topics": "recent_topics",
    "messages": "current_messages",
    "media": "media",
    "query": "user_query",
    "enriched": "contextualized_query",
    "topic_candidates": "topic_candidates",
    "people_candidates": "people_candidates",
    "artifact_candidates": "artifact_candidates",
    "topic": "topic",
    "topics": "topics",
    "sources": "sources",
    "statements": "statements",
    "file": "file",
}


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """The input of a rerank. ``candidates``, ``people`` and ``artifacts`` are what the model may see, best first.

    ``query`` is the user's own text, ``enriched`` the one that was searched, ``baseline`` the ids in plain vector
    order, ``messages`` the running conversation. ``language`` is "en" or "ru"; when it is empty, the query decides.
    ``recent_topics`` and ``inner_circle`` are lines of text. ``variables`` replace those of the prompt when a run is
    tried again: they are sent unchanged, whatever has changed since.
    """

    query: str
    enriched: str
    candidates: tuple[Candidate, ...]
    baseline: tuple[str, ...]
    today: date
    messages: tuple[MessageContent, ...] = ()
    profile: str = ""
    recent_topics: tuple[str, ...] = ()
    language: str = ""
    people: tuple[ItemCandidate, ...] = ()
    artifacts: tuple[ItemCandidate, ...] = ()
    media: tuple[MediaContent, ...] = ()
    inner_circle: tuple[str, ...] = ()
    prompts: PromptBook = field(default_factory=lambda: BUILT_IN)
    variables: Mapping[str, str] = field(default_factory=dict)


TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": (
            "Load the full text of topics, to study them before choosing. Give every id you want in ONE call. "
            "Mind the sizes: load topics over 10K chars only when their summary fits the query well."
        ),
        "parameters": object_schema(
            ids={
                **list_schema(INTEGER),
                "description": "Numbers of the topics to load: 42 for [Topic:42] or [Session:42].",
            }
        ),
    },
}

_REASON: Mapping[str, Any] = {"type": "string", "description": "One or two sentences: why this helps"}
_EXCERPT: Mapping[str, Any] = {"type": "string", "description": "Whole messages of a large topic, else empty"}


def _choice(example: str, **more: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a list of selected items."""
    id = {"type": "string", "description": f"As in the candidate list: {example}"}
    return list_schema(object_schema(id=id, reason=_REASON, **more))


# Where an endpoint does not enforce the schema, the prompt still describes it.
ANSWER_SCHEMA = object_schema(
    topics=_choice("Topic:42", excerpt=_EXCERPT), people=_choice("Person:5"), artifacts=_choice("Artifact:3")
)

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
    """The language of the instructions: the ``wanted`` one, otherwise decided by the share of Cyrillic letters in the
    query."""
    if wanted in ("en", "ru"):
        return "ru" if wanted == "ru" else "en"
    letters = [c for c in query if c.isalpha()]
    cyrillic = sum("\u0400" <= c <= "\u04ff" for c in letters)
    return "ru" if letters and cyrillic / len(letters) >= _CYRILLIC_SHARE else "en"


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
    found = [PromptFault("too_long", part) for part, template in parts.items() if len(template.template) > TEXT_CHARS]
    found += [PromptFault("stray_dollar", part) for part, template in parts.items() if not template.is_valid()]
    for part, template in parts.items():
        unknown = dict.fromkeys(n for n in template.get_identifiers() if n not in VARIABLES[text.name])
        found += [PromptFault("unknown_variable", part, name) for name in unknown]
    present = parts["user"].get_identifiers()
    return found + [
        PromptFault("missing_variable", "user", name) for name in REQUIRED[text.name] if name not in present
    ]


def rendered(text: PromptText, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """System and user message in OpenAI's format. A ``$`` inside a variable stays as it is.

    Raises KeyError for a variable without a value, and ValueError for a broken text; see ``faults``.
    """
    values = {name: _enclosed(name, value) for name, value in variables.items()}
    return [
        {"role": "system", "content": Template(text.system).substitute(values)},
        {"role": "user", "content": Template(text.user).substitute(values)},
    ]


def _enclosed(name: str, value: str) -> str:
    return f"<{TAGS[name]}>\n{value}\n</{TAGS[name]}>" if name in TAGS else value


def rerank_text(request: RerankRequest) -> PromptText:
    """The prompt in force for a request, in its language."""
    return request.prompts["rerank", language_of(request.query, request.language)]


def rerank_variables(request: RerankRequest, limits: Limits = DEFAULTS) -> dict[str, str]:
    """All variables of a rerank prompt; what people wrote is quoted."""
    none = NONE[language_of(request.query, request.language)]
    return {
        **_background(request.query, request.messages[-CURRENT_MESSAGES:], request.profile, none),
        "today": request.today.isoformat(),
        "recent_topics": _listed(request.recent_topics) or none,
        "media": _attached(request.media) or none,
        "enriched": quoted(request.enriched.strip() or request.query.strip()),
        "inner_circle": _listed(request.inner_circle) or none,
        "topic_candidates": "\n".join(candidate.line for candidate in request.candidates) or none,
        "people_candidates": "\n".join(candidate.line for candidate in request.people) or none,
        "artifact_candidates": "\n".join(candidate.line for candidate in request.artifacts) or none,
        "max_topics": str(limits.max_topics),
        "max_people": str(limits.max_people),
        "max_artifacts": str(limits.max_artifacts),
        "excerpt_over": str(limits.excerpt_over_chars),
        "tool": TOOL_NAME,
        **request.variables,
    }


def enrich_variables(
    query: str,
    *,
    messages: Sequence[MessageContent],
    profile: str,
    recent_topics: Sequence[str],
    media: Sequence[MediaContent],
    today: date,
) -> dict[str, str]:
    """All variables of the enricher's prompt; what people wrote is quoted."""
    none = NONE[language_of(query)]
    return {
        **_background(query, messages[-_ENRICHER_MESSAGES:], profile, none),
        "today": today.isoformat(),
        "recent_topics": _listed(recent_topics) or none,
        "media": _attached(media) or none,
    }


def _background(query: str, messages: Sequence[MessageContent], profile: str, none: str) -> dict[str, str]:
    return {
        "query": quoted(query.strip()),
        "messages": "\n".join(shortened(message_text(message), _CURRENT_CHARS) for message in messages) or none,
        "profile": quoted(profile.strip()) or none,
    }


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {one_line(line)}" for line in lines)


def _attached(media: Sequence[MediaContent]) -> str:
    """The files that came with the query, in order."""
    return "\n".join(_attachment(number, each.item) for number, each in enumerate(media, 1))


def _attachment(number: int, item: MediaItem) -> str:
    return f"{number}. {item.type} {plain(item.name)} ({plain(item.mime_type)}, {item.size_bytes} bytes)"


def topic_number(id: str) -> int:
    """The 42 of ``Topic:42``, for an id that the program made."""
    number = parse_topic_id(id)
    if number is None:
        raise ValueError(f"{id} is no topic id")
    return number
