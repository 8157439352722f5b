"""The archivist: an agent that extracts facts about the user, and people, from a talk.

The question depends on the messages alone, so the same topic leads to the same question whatever else the memory
contains. A finding names the messages that state it; a finding without any message of the talk is discarded. A talk
that is too long for one question is read in parts, and in ``halves`` where an answer was cut off."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from memoryapp.engine.agents.ask import Agent, Ask, CutAnswer
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts.prompt import TOPIC, UNEDITED, BuiltInPrompt, PromptBook, language_of, texts_beside
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text.answers import INTEGER, MOST_ANSWER_CHARS, TEXT, line, list_schema, mended, object_schema
from memoryapp.engine.text.lines import quoted

PART_CHARS = 40_000
# A longer message is divided over several lines, so that every part has room for a line.
_PIECE_CHARS = 20_000
_LINE_CHARS = 100
_LEAST_PIECE_CHARS = 500
_MOST_ALIASES = 20
_LONGEST_NAME = 100
_LONGEST_CONTENT = 1_000
_LONGEST_BIO = 500
_USUAL_IMPORTANCE = 50

FACT_TYPES = ("identity", "context", "status")
CIRCLES = ("Family", "Friends", "Work_Inner", "Work_Outer", "Other")


EXTRACT = BuiltInPrompt(
    "extract",
    title=_("Extract facts and people"),
    purpose=_("Extracts facts and people from a topic."),
    texts=texts_beside(__file__, "extract"),
    variables=(TOPIC,),
    required=(TOPIC,),
)
AGENT = Agent("archivist", _("archivist"), (EXTRACT,), model="ARCHIVIST_MODEL", stage="extract")

_NUMBERS = list_schema(INTEGER)
EXTRACT_SCHEMA = object_schema(
    facts=list_schema(
        object_schema(
            relation=TEXT,
            category=TEXT,
            content=TEXT,
            type={"type": "string", "enum": list(FACT_TYPES)},
            importance=INTEGER,
            only_one={"type": "boolean"},
            messages=_NUMBERS,
        )
    ),
    people=list_schema(
        object_schema(
            name=TEXT,
            aliases=list_schema(TEXT),
            username=TEXT,
            circle={"type": "string", "enum": list(CIRCLES)},
            bio=TEXT,
            messages=_NUMBERS,
        )
    ),
)


@dataclass(frozen=True, slots=True)
class FoundFact:
    """``importance`` is from 0 to 100. Of a relation that is ``only_one``, one fact is true at a time. ``messages`` are
    the numbers of the messages that state the fact, in order, at least one."""

    relation: str
    category: str
    content: str
    type: str
    importance: int
    only_one: bool
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoundPerson:
    """``messages`` are the numbers of the messages that speak of the person, in order, at least one."""

    name: str
    aliases: tuple[str, ...]
    username: str
    circle: str
    bio: str
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Extract:
    facts: tuple[FoundFact, ...] = ()
    people: tuple[FoundPerson, ...] = ()


def parts(messages: Sequence[MessageContent]) -> list[Sequence[MessageContent]]:
    """The messages in parts that fit one question, in order; a long message becomes several of one number."""
    runs: list[list[MessageContent]] = []
    room = 0
    for piece in _pieces(messages):
        size = len(piece.text) + _LINE_CHARS
        if not runs or size > room:
            runs.append([])
            room = PART_CHARS
        runs[-1].append(piece)
        room -= size
    return list(runs)


def _pieces(messages: Iterable[MessageContent]) -> Iterator[MessageContent]:
    for message in messages:
        for start in range(0, len(message.text), _PIECE_CHARS):
            yield replace(message, text=message.text[start : start + _PIECE_CHARS])


def halves(part: Sequence[MessageContent]) -> list[Sequence[MessageContent]]:
    """The part in two of about the same size; a single message is divided if it is long enough."""
    if len(part) == 1:
        [message] = part
        middle = len(message.text) // 2
        texts = (message.text[:middle], message.text[middle:]) if middle >= _LEAST_PIECE_CHARS else (message.text,)
        return [[replace(message, text=text)] for text in texts]
    sizes = list(accumulate(len(message.text) + _LINE_CHARS for message in part))
    middle = min(bisect_left(sizes, sizes[-1] / 2) + 1, len(part) - 1) if part else 0
    return [half for half in (part[:middle], part[middle:]) if half]


def extract(
    messages: Sequence[MessageContent], *, chat: Chat, seconds: float, prompts: PromptBook = UNEDITED
) -> Ask[Extract]:
    """Asks what the model finds in ``messages``, one of the ``parts``; without any the model is not asked."""
    ids = frozenset(message.id for message in messages)
    return Ask(
        chat,
        EXTRACT.of(prompts, language_of(" ".join(message.text for message in messages))),
        {"topic": "\n".join(map(_line, messages))},
        read=lambda answer: _found(answer, ids),
        schema=EXTRACT_SCHEMA,
        seconds=seconds,
        is_listing=True,
        answer=None if messages else Extract(),
    )


def _line(message: MessageContent) -> str:
    fields = {
        "id": message.id,
        "role": message.role,
        "author": quoted(message.author)[:_LONGEST_NAME],
        "date": f"{message.sent_at:%Y-%m-%d %H:%M}",
        "text": quoted(message.text),
    }
    return json.dumps(fields, ensure_ascii=False)


def _found(answer: str, ids: frozenset[int]) -> Extract | None:
    """The findings in an answer; None when nothing readable is listed and the answer does not say that there is
    nothing. Raises CutAnswer for one that is too long to be read."""
    if len(answer) > MOST_ANSWER_CHARS:
        raise CutAnswer("The answer is longer than what is read of one.")
    value = mended(answer)
    listed = list(_objects(value))
    facts = tuple(fact for each in listed if (fact := _fact(each, ids)))
    people = tuple(person for each in listed if (person := _person(each, ids)))
    return Extract(facts, people) if facts or people or _is_empty(value) else None


def _is_empty(value: Any) -> bool:
    """Whether the answer says that there is nothing: it is an empty list, or an object with two empty lists."""
    if isinstance(value, Mapping):
        named = [value[key] for key in ("facts", "people") if key in value]
        return bool(named) and not any(named)
    return isinstance(value, list) and (not value or len(value) == 1 and _is_empty(value[0]) and value[0] != [])


def _objects(value: Any, depth: int = 4) -> Iterator[Mapping[str, Any]]:
    """Every object that may be a finding, however the lists are nested."""
    if isinstance(value, Mapping) and ("content" in value or "name" in value):
        yield value
    elif depth and isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _objects(inner, depth - 1)


def _fact(value: Mapping[str, Any], ids: frozenset[int]) -> FoundFact | None:
    relation, content = _label(value.get("relation")), _text(value.get("content"), _LONGEST_CONTENT)
    messages = _messages(value.get("messages"), ids)
    if not (relation and content and messages):
        return None
    kind = str(value.get("type", "")).strip().lower()
    importance = _number(value.get("importance"))
    return FoundFact(
        relation=relation,
        category=_label(value.get("category")) or relation,
        content=content,
        type=kind if kind in FACT_TYPES else "context",
        importance=_USUAL_IMPORTANCE if importance is None else min(max(importance, 0), 100),
        only_one=value.get("only_one") is True,
        messages=messages,
    )


def _person(value: Mapping[str, Any], ids: frozenset[int]) -> FoundPerson | None:
    name, messages = _text(value.get("name"), _LONGEST_NAME), _messages(value.get("messages"), ids)
    if not (name and messages) or "content" in value:
        return None
    listed = value.get("aliases")
    aliases = [_text(each, _LONGEST_NAME) for each in listed] if isinstance(listed, list) else []
    circle = _folded(value.get("circle"))
    return FoundPerson(
        name=name,
        aliases=tuple(dict.fromkeys(each for each in aliases if each and each != name))[:_MOST_ALIASES],
        username=_text(value.get("username"), _LONGEST_NAME).lstrip("@"),
        circle=next((known for known in CIRCLES if _folded(known) == circle), "Other"),
        bio=_text(value.get("bio"), _LONGEST_BIO),
        messages=messages,
    )


def _messages(value: Any, ids: frozenset[int]) -> tuple[int, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(sorted({number for each in listed if (number := _number(each)) in ids and number is not None}))


def _number(value: Any) -> int | None:
    digits = str(value).removesuffix(".0")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _label(value: Any) -> str:
    """The name of a relation or category, written one way: ``lives_in``."""
    return "_".join(_text(value, _LONGEST_NAME).lower().replace("-", " ").replace("_", " ").split())


def _folded(value: Any) -> str:
    return str(value or "").strip().lower().replace(" ", "_").replace("-", "_")


def _text(value: Any, most: int) -> str:
    """A text of at most ``most`` characters on one line, as a database can hold it; empty for any other value."""
    return line(value)[:most].strip()
