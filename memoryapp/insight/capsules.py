"""A run as a file that needs no server: its events, and the talk that it read or chose, with personal data masked if
that is wished. In: a finished run, or the bytes of such a file of another installation. Out: a ``Capsule``, its JSON
document, and the same with names, numbers and addresses masked. It imports the models and ``runs``."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Literal
from uuid import UUID

import phonenumbers
from django.utils.translation import gettext as _
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memoryapp.engine.events import KINDS, CandidatesFound, RunFinished, TopicsRead, from_payload, to_payload
from memoryapp.engine.json_values import MOST_VALUES, Code, has_more_values, rewritten
from memoryapp.engine.memory import parse_item_id, parse_topic_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.text.lexical import normal
from memoryapp.engine.text.scripts import WORD, is_spaced
from memoryapp.models import ChatUser, Fact, Message, Person, Run, TopicMessage
from memoryapp.runs import followers
from memoryapp.runs.followers import StoredEvent
from memoryapp.runs.parameters import all_declarations
from memoryapp.runs.recall_document import session_messages

# Capsules: made from a finished run, written as JSON, and read from the JSON of any installation.

FORMAT: Literal["mnemoscope-run"] = "mnemoscope-run"
LARGEST_CAPSULE_BYTES = 20_000_000
MOST_EVENTS = 2_000
MOST_MESSAGES = 5_000


class CapsuleError(Exception):
    """A file that is no capsule, or a run that has not ended, in a sentence for people."""


@dataclass(frozen=True, slots=True)
class CapsuleMessage:
    """A message of a topic or session that the run read or chose."""

    number: int
    role: str
    author: str
    sent_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Capsule:
    """``talks`` are the messages of what was read or chosen, by id such as ``Topic:42``; ``masked`` counts what was
    masked, by kind: names, numbers, addresses."""

    id: UUID
    user: str
    query: str
    strategy: str
    parameters: Mapping[str, Any]
    asked_at: datetime
    events: Sequence[StoredEvent]
    talks: Mapping[str, Sequence[CapsuleMessage]]
    masked: Mapping[str, int] = field(default_factory=dict)


def capsule_of(run: Run) -> Capsule:
    """The capsule of a finished run, in four queries. Raises CapsuleError while the run goes on."""
    events = followers.stored(run.pk)
    if Outline.of([item.event for item in events]).finished is None:
        raise CapsuleError(_("The run goes on; a file of it can be made when it has ended."))
    return Capsule(
        id=run.pk,
        user=str(run.owner),
        query=run.query,
        strategy=run.strategy,
        parameters=run.parameters,
        asked_at=run.created_at,
        events=events,
        talks=_talks(run, events),
    )


def _talks(run: Run, events: Sequence[StoredEvent]) -> dict[str, list[CapsuleMessage]]:
    outline = Outline.of([item.event for item in events])
    ids = [read.id for item in events if isinstance(item.event, TopicsRead) for read in item.event.read]
    if last := outline.finished:
        ids += [selected.id for selected in (*last.selected, *last.unsure)]
    found: dict[str, list[CapsuleMessage]] = {id: [] for id in dict.fromkeys(ids) if parse_topic_id(id)}
    numbers = [number for id in found if (number := parse_topic_id(id)) and number > 0]
    rows = TopicMessage.objects.filter(owner=run.owner_id, topic__in=numbers).select_related("message")
    for row in rows.order_by("message__sent_at", "message_id")[:MOST_MESSAGES]:
        found[f"Topic:{row.topic_id}"].append(_talk_message(row.message))
    of_session = session_messages(outline.found, found)
    for message in Message.objects.of(run.owner_id).filter(pk__in=list(of_session)).in_order()[:MOST_MESSAGES]:
        found[of_session[message.pk]].append(_talk_message(message))
    return found


def _talk_message(row: Message) -> CapsuleMessage:
    return CapsuleMessage(row.pk, row.role, row.author, row.sent_at, row.text)


def document(capsule: Capsule) -> dict[str, Any]:
    """The capsule as a JSON value."""
    return {
        "format": FORMAT,
        "version": 1,
        "run": {
            "id": str(capsule.id),
            "user": capsule.user,
            "query": capsule.query,
            "strategy": capsule.strategy,
            "parameters": dict(capsule.parameters),
            "asked_at": capsule.asked_at.isoformat(),
        },
        "events": [
            {"seq": item.seq, "at": item.at.isoformat(), "kind": item.event.kind, "payload": to_payload(item.event)}
            for item in capsule.events
        ],
        "talks": {
            id: [{**asdict(message), "sent_at": message.sent_at.isoformat()} for message in talk]
            for id, talk in capsule.talks.items()
        },
        "masked": dict(capsule.masked),
    }


class _Strict(BaseModel):
    model_config = ConfigDict(strict=False, extra="ignore")


class _Event(_Strict):
    seq: int = Field(ge=1, le=MOST_EVENTS)
    at: AwareDatetime
    kind: str = Field(max_length=40)
    payload: dict[str, Any]


class _Message(_Strict):
    number: int = Field(ge=1, lt=2**63)
    role: Literal["user", "assistant", "peer", "system"]
    author: str = Field(max_length=400)
    sent_at: AwareDatetime
    text: str


class _Run(_Strict):
    id: UUID
    user: str = Field(max_length=400)
    query: str = Field(max_length=100_000)
    strategy: str = Field(max_length=16)
    parameters: dict[str, Any]
    asked_at: AwareDatetime


class _Document(_Strict):
    format: Literal["mnemoscope-run"]
    version: Literal[1]
    run: _Run
    events: list[_Event] = Field(min_length=1, max_length=MOST_EVENTS)
    talks: dict[Annotated[str, Field(pattern=r"^(?:Topic|Session):[0-9]{1,18}$")], list[_Message]]
    masked: dict[str, int] = Field(default_factory=dict)


def opened(content: bytes) -> Capsule:
    """The capsule that a file contains. Raises CapsuleError with what is wrong with it."""
    if len(content) > LARGEST_CAPSULE_BYTES:
        raise CapsuleError(_("This file is larger than 20 MB, which no run is."))
    if has_more_values(content):
        most = f"{MOST_VALUES:,}"
        raise CapsuleError(_("This file holds more than %(most)s values, which no run does.") % {"most": most})
    try:
        read = _Document.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or _("the file")
        raise CapsuleError(
            _("This is no run as JSON from Mnemoscope: %(place)s: %(why)s.") % {"place": place, "why": first["msg"]}
        ) from None
    if [item.seq for item in read.events] != list(range(1, len(read.events) + 1)):
        raise CapsuleError(_("The events of this file are not numbered from 1 without gaps."))
    if sum(map(len, read.talks.values())) > 2 * MOST_MESSAGES:
        raise CapsuleError(_("This file contains more messages than any run reads."))
    return Capsule(
        **read.run.model_dump(),
        events=list(_events(read.events)),
        talks={id: [CapsuleMessage(**each.model_dump()) for each in talk] for id, talk in read.talks.items()},
        masked=read.masked,
    )


def _events(read: Sequence[_Event]) -> Iterable[StoredEvent]:
    for item in read:
        try:
            yield StoredEvent(item.seq, item.at, from_payload(item.kind, item.payload))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CapsuleError(
                _("Event %(seq)d (%(kind)s) of this file cannot be read.") % {"seq": item.seq, "kind": item.kind}
            ) from None


# Masks personal data in a capsule: names of the people in the memory and names in its profile, facts and biographies,
# their numbers, telephone and other long numbers, addresses of mail and of the web. A line of the profile, of a fact
# or of a biography is masked whole.
#
# Each letter and digit becomes a dot, so that texts keep their length and excerpts their places. Whatever an event
# does not declare as a code counts as text. A name is masked with its endings in Russian. In the talk itself, names
# that the memory does not list, and postal addresses, are not recognised.

DOT = "•"
SHORTEST_NAME = 3
_WORD_CHARACTER = re.compile(r"\w")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}|\bhttps?://[^\s<>\"']{1,2000}", re.I)
_NUMBER = re.compile(r"(?<![\w.:-])\d{6,30}(?![\w:-])|(?<!\w)\d{4}(?:[ -]\d{4}){2,4}(?!\w)")
# A number of two digits or more, also in groups; no part of a day, of a time, of an id or of a decimal fraction.
_FIGURE = re.compile(r"(?<![\w.:\[-])(?:\d{1,3}(?:[ ,.'\u00a0\u202f]\d{3})+|\d{2,30})(?![\d:]|-\d)")
# Ends of lines, also as JSON writes them, and characters that JSON escapes.
_BREAK = re.compile(r"(\n|\\[nrt])")
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4}){1,200}")
_CYRILLIC = re.compile(r"[а-я]")
_ENDING = re.compile(r"[аяоеийьыу]$")
# After these a sentence or a line begins, whose first word has a capital whatever it is.
_ENDS = ".!?:;•-–—\n"
# The parts of a context that are no talk: what is known of the user and of others.
_TALK = ("topics", "unsure", "recent_topics", "artifacts")
_KNOWN = ("profile", "inner_circle")


@dataclass(frozen=True, slots=True)
class _Personal:
    """What is masked: ``names`` as whole words, ``stems`` of Russian ones, ``short`` ones as they are written, those
    ``within`` words of scripts without spaces, ``figures`` as digits, and whole ``lines``."""

    names: frozenset[str]
    stems: frozenset[str]
    short: frozenset[str]
    within: tuple[str, ...]
    figures: frozenset[str]
    lines: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str], statements: Iterable[str]) -> _Personal:
        statements = list(statements)
        words = {word for text in names for word in _words(text)} | set(_named_in(statements))
        spaced = {word for word in words if is_spaced(word) and not word.isdigit()}
        long = {normal(word) for word in spaced if len(word) >= SHORTEST_NAME}
        return cls(
            frozenset(long),
            frozenset(_stem(word) for word in long if _CYRILLIC.search(word)),
            frozenset(word for word in spaced if len(word) < SHORTEST_NAME and word[:1].isupper()),
            tuple(sorted((word for word in words if not is_spaced(word) and len(word) > 1), key=len, reverse=True)),
            frozenset(_digits(found[0]) for text in statements for found in _FIGURE.finditer(text)),
            frozenset(filter(None, map(_plain, statements))),
        )

    def names_word(self, word: str) -> bool:
        if word in self.short:
            return True
        plain = normal(word)
        beginnings = (plain[: len(plain) - bends] for bends in range(4)) if _CYRILLIC.search(plain) else ()
        return plain in self.names or not self.stems.isdisjoint(beginnings)


def masked(capsule: Capsule, owner: ChatUser) -> Capsule:
    """The capsule without personal data, and how much of it was masked."""
    counts: Counter[str] = Counter()
    known = [line for text in chain(_known(owner), _known_then(capsule)) for line in text.splitlines()]
    mask = _masker(_Personal.of(_names(capsule, owner), known), counts)
    declared = all_declarations()

    def change(text: str, path: tuple[str, ...] = ("",)) -> str:
        options = declared[path[1]].options if path[0] == "parameters" and path[1] in declared else ()
        if text in options or parse_item_id(text):
            return text
        value = _json_in(text)
        if value is None:
            return mask(text)
        new = rewritten(None, value, change, ("",))
        return text if new == value else json.dumps(new, ensure_ascii=False)

    events = [
        StoredEvent(
            item.seq,
            item.at,
            from_payload(item.event.kind, rewritten(KINDS[item.event.kind], to_payload(item.event), change)),
        )
        for item in capsule.events
    ]
    talks = {
        id: [replace(message, author=mask(message.author), text=mask(message.text)) for message in talk]
        for id, talk in capsule.talks.items()
    }
    parameters = rewritten(Mapping[Code, Any], dict(capsule.parameters), change, ("parameters",))
    user, query = mask(capsule.user), mask(capsule.query)
    found = {kind: counts[kind] for kind in ("names", "numbers", "addresses", "statements")}
    return replace(capsule, user=user, query=query, parameters=parameters, events=events, talks=talks, masked=found)


def _known(owner: ChatUser) -> Iterator[str]:
    """What the memory knows of its user and of others today, and once knew."""
    yield owner.profile
    yield from Fact.objects.filter(owner=owner).values_list("content", flat=True).iterator()
    yield from Person.objects.filter(owner=owner).exclude(bio="").values_list("bio", flat=True).iterator()


def _known_then(capsule: Capsule) -> Iterator[str]:
    """The same as the run knew it: in its prompts, among its candidates and in its context."""
    for item in capsule.events:
        variables: Mapping[str, str] = getattr(item.event, "variables", {})
        yield from (variables[name] for name in _KNOWN if name in variables)
        if isinstance(item.event, CandidatesFound):
            yield from (each.line for each in item.event.people)
        if isinstance(item.event, RunFinished):
            yield from (part.text for part in item.event.context if part.name not in _TALK)


def _names(capsule: Capsule, owner: ChatUser) -> Iterator[str]:
    yield from (owner.name, owner.display_name, capsule.user)
    yield from (item.event.stopped_by for item in capsule.events if isinstance(item.event, RunFinished))
    said = Message.objects.of(owner).order_by()
    yield from said.exclude(role="assistant").values_list("author", flat=True).distinct().iterator()
    yield from said.exclude(forwarded_from="").values_list("forwarded_from", flat=True).distinct().iterator()
    rows = Person.objects.filter(owner=owner).values_list("display_name", "username", "aliases")
    for name, username, aliases in rows.iterator():
        yield from (name, username, *(alias for alias in aliases if isinstance(alias, str)))


def _named_in(statements: Iterable[str]) -> Iterator[str]:
    """The words with a capital; the first of a sentence only if no prompt and no statement has it in small letters."""
    prompts = (part for text in built_in().values() for part in (text.system, text.user))
    ordinary = {word for text in chain(prompts, statements) for word in _words(text) if word.islower()}
    for text in statements:
        for found in WORD.finditer(text):
            before = text[: found.start()].rstrip()
            begins = not before or before[-1] in _ENDS
            if found[0][0].isupper() and not (begins and found[0].lower() in ordinary):
                yield found[0]


def _words(text: str) -> Iterator[str]:
    return (found[0] for found in WORD.finditer(text))


def _json_in(text: str) -> Any:
    """What a text means that is a JSON object or list as a whole, such as the arguments of a call; else None."""
    try:
        return json.loads(text) if text.strip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def _digits(figure: str) -> str:
    return "".join(filter(str.isdigit, figure))


def _plain(line: str) -> str:
    """A line without what makes it an item of a list, and empty for a tag."""
    line = line.strip().removeprefix("- ").strip()
    return "" if line.startswith("<") and line.endswith(">") else line


def _meant(escaped: re.Match[str]) -> str:
    return "".join(chr(int(code, 16)) for code in escaped[0].split("\\u")[1:])


def _stem(name: str) -> str:
    """What all forms of a Russian name begin with."""
    stem = _ENDING.sub("", name)
    return stem if len(stem) >= SHORTEST_NAME else name


def _masker(personal: _Personal, counts: Counter[str]) -> Callable[[str], str]:
    """A function that masks a text and counts what it masks."""
    within = re.compile("|".join(re.escape(each) for each in personal.within)) if personal.within else None

    def dots(kind: str, text: str) -> str:
        counts[kind] += 1
        return _WORD_CHARACTER.sub(DOT, text)

    def figure(found: re.Match[str]) -> str:
        return dots("numbers", found[0]) if _digits(found[0]) in personal.figures else found[0]

    def word(found: re.Match[str]) -> str:
        if not personal.names_word(found[0]):
            return found[0]
        counts["names"] += 1
        return DOT * len(found[0])

    def line(text: str) -> str:
        if _plain(text) in personal.lines:
            return dots("statements", text)
        text = _ADDRESS.sub(lambda found: dots("addresses", found[0]), text)
        text = _without_telephones(text, counts)
        text = _NUMBER.sub(lambda found: dots("numbers", found[0]), text)
        text = _FIGURE.sub(figure, text) if personal.figures else text
        text = within.sub(lambda found: dots("names", found[0]), text) if within else text
        return WORD.sub(word, text)

    def mask(text: str) -> str:
        lines = "".join(part if at % 2 else line(part) for at, part in enumerate(_BREAK.split(text)))
        return _ESCAPED.sub(lambda found: found[0] if mask(_meant(found)) == _meant(found) else DOT, lines)

    return mask


def _without_telephones(text: str, counts: Counter[str]) -> str:
    if not any(letter.isdigit() for letter in text):
        return text
    for found in phonenumbers.PhoneNumberMatcher(text, "RU", leniency=phonenumbers.Leniency.VALID):
        counts["numbers"] += 1
        text = text[: found.start] + _WORD_CHARACTER.sub(DOT, found.raw_string) + text[found.end :]
    return text
