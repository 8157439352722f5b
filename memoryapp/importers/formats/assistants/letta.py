"""Letta's agents: agent files (``.af``) with one agent or a list of them, and messages as Letta's API lists them.

Agents of older kinds speak by calling ``send_message``, and what stands beside the call is their reasoning. What the
program writes in the user's name (logins, heartbeats, alerts) is left out, as are tools, reasoning and instructions. An
agent file numbers its messages anew each time, so their ids are made from what was said. Of the memory blocks, the
lines of ``human`` become facts, because they are about the user; the others are about the agent."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import record
from memoryapp.importers.document import JsonDocument, prefix_of_items
from memoryapp.importers.format import DocumentLayout, Format, Hints, Reader
from memoryapp.importers.formats.assistants.openai_messages import text_of
from memoryapp.importers.record import Clock, Distilled, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.values import BadRecord, Fields, fields, items, moment, quote, text

_ROLES = {"user": "user", "user_message": "user", "assistant": "assistant", "assistant_message": "assistant"}
_SPEAKING = "send_message"
# The time that Letta writes into a packed message of a user.
_PACKED_TIME = "%Y-%m-%d %I:%M:%S %p %Z%z"
_ABOUT_THE_USER = "human"
_MARKS = "-*• "


@dataclass(slots=True)
class LettaAgent:
    """An agent of the file; ``speaks_by_tool`` if it says what it says by a call. ``alike`` counts equal messages."""

    place: str
    id: str
    name: str
    speaks_by_tool: bool
    alike: Counter[str] = field(default_factory=Counter)


def recognises(value: object) -> bool:
    if isinstance(value, Mapping):
        agents = value.get("agents")
        is_agent_file = isinstance(agents, list) and ("blocks" in value or any(map(_is_agent, agents)))
        return is_agent_file or _is_agent(value) or _are_messages(value.get("messages"))
    return _are_messages(value)


def _is_agent(value: object) -> bool:
    return isinstance(value, Mapping) and ("agent_type" in value or "core_memory" in value)


def _are_messages(value: object) -> bool:
    return any(text(fields(item).get("message_type")).endswith("_message") for item in items(value)[:20])


def read(agents: Iterable[tuple[LettaAgent, Iterable[object]]], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of each agent, in their order, and why each other one is left out."""
    for agent, listed in agents:
        for index, item in enumerate(listed):
            yield _message(agent, item, f"{agent.place}[{index}]", clock)
        clock.pause()


def _message(agent: LettaAgent, item: object, line: str, clock: Clock) -> MessageRecord | Rejected:
    try:
        if not isinstance(item, Mapping):
            raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
        role = _ROLES.get(text(item.get("message_type")) or text(item.get("role")), "")
        words, at = _spoken(agent, item, role)
        if not role or not words:
            return LeftOut(line, str(record.PROGRAM))
        sent_at = clock.read(item.get("date") or item.get("created_at") or at)
        return message(
            external_id=_id(agent, item, role, words, sent_at),
            role=role,
            author=agent.name if role == "assistant" else text(item.get("name")),
            sent_at=sent_at,
            text=words,
            session=f"letta:{agent.id}".rstrip(":"),
            metadata={**({"agent": agent.name} if agent.name else {}), **clock.mark()},
            line=line,
        )
    except BadRecord as error:
        return Rejected(line, str(error))


def _id(agent: LettaAgent, item: Fields, role: str, words: str, sent_at: datetime) -> str:
    """Returns the id of a message of the API; of an agent file, one of what was said and when."""
    if item.get("message_type") and isinstance(item.get("id"), str):
        return f"letta:{item['id']}:{role}"
    has_time = item.get("created_at")
    spoken = f"{role}\n{sent_at.isoformat() if has_time else ''}\n{words}"
    digest = hashlib.sha256(spoken.encode("utf-8", "replace")).hexdigest()[:16]
    agent.alike[digest] += 1
    again = f":{agent.alike[digest]}" if agent.alike[digest] > 1 else ""
    return f"letta:{agent.id}:{digest}{again}"


def _spoken(agent: LettaAgent, item: Fields, role: str) -> tuple[str, object]:
    """Returns what was said, empty if nothing was, and the time that stands in it, if any."""
    if role == "assistant":
        calls = [words for call in _calls(item) if (words := _words_of(call))]
        return "\n".join(calls) if agent.speaks_by_tool and "message_type" not in item else text_of(_texts(item)), None
    content = text_of(_texts(item))
    try:
        packed = json.loads(content) if content.startswith("{") else None
    except ValueError:
        packed = None
    if not isinstance(packed, Mapping) or "type" not in packed:
        return content, None
    return (text(packed.get("message")) if packed["type"] == "user_message" else ""), _packed_time(packed.get("time"))


def _texts(item: Fields) -> object:
    content = item.get("content", item.get("text"))
    if isinstance(content, list):
        return [
            part for part in content if fields(part).get("type", "text") in ("text", "image") or isinstance(part, str)
        ]
    return content


def _packed_time(value: object) -> str | None:
    try:
        return datetime.strptime(text(value), _PACKED_TIME).isoformat()
    except ValueError:
        return None


def _calls(item: Fields) -> Iterator[tuple[str, object]]:
    """Yields the name and the arguments of each call of a tool; they stand beside the content, or in it."""
    for call in map(fields, items(item.get("tool_calls"))):
        function = fields(call.get("function")) or call
        yield text(function.get("name")), function.get("arguments")
    for part in map(fields, items(item.get("content"))):
        if part.get("type") == "tool_call":
            yield text(part.get("name")), part.get("input")


def _words_of(call: tuple[str, object]) -> str:
    name, given = call
    if name != _SPEAKING:
        return ""
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        # A call that was cut off is no JSON, but has words.
        return text(given)
    return text(fields(arguments).get("message"))


def _agents(document: JsonDocument, outline: object) -> Iterator[tuple[LettaAgent, Iterable[object]]]:
    if not isinstance(outline, Mapping) or not ("agents" in outline or _is_agent(outline)):
        place = f"{prefix_of_items(outline)}" if isinstance(outline, list) else "messages.item"
        name = "" if isinstance(outline, list) else "messages"
        yield LettaAgent(name, "", "Letta", speaks_by_tool=False), document.items(place)
    elif "agents" in outline:
        for index, value in enumerate(document.items("agents.item")):
            yield _agent(fields(value), f"agents[{index}].messages")
    else:
        yield _agent(document.without("tools"), "messages")


def _agent(value: Fields, place: str) -> tuple[LettaAgent, list[object]]:
    listed = items(value.get("messages"))
    by_tool = any(name == _SPEAKING for item in listed for name, _given in _calls(fields(item)))
    name = text(value.get("name"))
    # An agent file numbers its agents, so only the name tells one from another.
    return LettaAgent(place, name, name or "Letta", by_tool), listed


def read_blocks(document: JsonDocument, outline: object, clock: Clock) -> Iterator[Distilled | Rejected]:
    """Yields a fact for each line of the blocks about the user; the other blocks are left out."""
    written = moment_or_none(fields(outline).get("created_at"))
    for part in ("blocks", "core_memory"):
        if part not in fields(outline):
            continue
        for index, block in enumerate(map(fields, document.items(f"{part}.item"))):
            place = f"{part}[{index}]"
            if text(block.get("label")) != _ABOUT_THE_USER:
                yield LeftOut(place, _("this block of memory is about the agent"))
                continue
            for number, line in enumerate(text(block.get("value")).splitlines(), start=1):
                if content := line.strip(_MARKS):
                    at = moment_or_none(block.get("updated_at") or block.get("created_at")) or written
                    yield _fact(content, at, f"{place}, line {number}", clock)


def moment_or_none(value: object) -> datetime | None:
    try:
        return moment(value)
    except BadRecord:
        return None


def _fact(content: str, at: datetime | None, line: str, clock: Clock) -> Distilled | Rejected:
    try:
        created = clock.read(at.isoformat() if at else None)
    except BadRecord as error:
        return Rejected(line, str(error))
    values: dict[str, Any] = {
        "relation": "note",
        "category": "letta",
        "content": content,
        "type": "context",
        "importance": 50,
        "created_at": created,
    }
    return Distilled("fact", "", line, values)


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    has_blocks = not {"blocks", "core_memory"}.isdisjoint(fields(outline))
    return Reader(
        lambda clock: read(_agents(document, outline), clock),
        distilled=partial(read_blocks, document, outline) if has_blocks else None,
    )


FORMAT = Format("letta", "Letta", (DocumentLayout(recognises, open_document, ("*.af",)),))
