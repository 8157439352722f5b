"""Capsules: made from a finished run, written as JSON, and read from the JSON of any installation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.utils.translation import gettext as _
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memoryapp.engine.events import TopicsRead, from_payload, to_payload
from memoryapp.engine.json_values import MOST_VALUES, has_more_values
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.outline import Outline
from memoryapp.models import Message, Run, TopicMessage
from memoryapp.runs import followers
from memoryapp.runs.followers import StoredEvent
from memoryapp.runs.recall_document import session_messages

FORMAT: Literal["mnemoscope-run"] = "mnemoscope-run"
LARGEST_BYTES = 20_000_000
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
    if len(content) > LARGEST_BYTES:
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
