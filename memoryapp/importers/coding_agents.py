"""The session logs of Claude Code and Codex: JSON Lines with one event each; few of them are messages.

The person's words and the assistant's answers are imported. Reasoning, tool calls and their results, text that the
program inserts, and side chains, in which the assistant speaks with agents of its own, are left out. A log only grows,
so a later import of the same log adds its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import jsonl
from memoryapp.importers.format import Format, Hints, LinesLayout, Reader
from memoryapp.importers.record import BadRecord, Clock, MessageRecord, Rejected, message
from memoryapp.importers.source import SourceFile

_CLAUDE_TYPES = {"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "attachment"}
_CODEX_TYPES = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
# Beginnings of texts that the programs write in the user's name.
_OF_THE_PROGRAM = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions"),
    *("<command-name>", "<command-message>", "<command-args>", "<local-command-stdout>", "<local-command-stderr>"),
    *("<bash-input>", "<bash-stdout>", "<bash-stderr>", "<system-reminder>", "<turn_aborted>", "Caveat: "),
    *("[Request interrupted by user", "<task-notification>", "<permissions instructions>", "<collaboration_mode>"),
)
_TEXTS = {"text", "input_text", "output_text"}
_IMAGES = {"image", "input_image", "local_image"}

Fields = Mapping[str, Any]


def is_claude_code(value: object) -> bool:
    """Whether a parsed line belongs to a log of Claude Code."""
    if not isinstance(value, Mapping) or _kind(value) not in _CLAUDE_TYPES:
        return False
    return "leafUuid" in value or "messageId" in value or ("sessionId" in value and "timestamp" in value)


def is_codex(value: object) -> bool:
    """Whether a parsed line belongs to a log of Codex; old logs begin with a line without a type."""
    if not isinstance(value, Mapping):
        return False
    if _kind(value) in _CODEX_TYPES and isinstance(value.get("payload"), Mapping):
        return True
    return "record_type" in value or ("instructions" in value and "timestamp" in value and "id" in value)


def _kind(value: Fields) -> str:
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def read_claude_code(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of a log of Claude Code."""
    for number, value in _values(source):
        if isinstance(value, Rejected):
            yield value
        elif value.get("type") in ("user", "assistant") and not _is_aside(value):
            yield from _message_of(number, clock, value.get("timestamp"), lambda value=value: _claude_fields(value))


def _is_aside(value: Fields) -> bool:
    return any(value.get(mark) for mark in ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage"))


def _claude_fields(value: Fields) -> dict[str, Any]:
    inner = value.get("message")
    content = inner.get("content") if isinstance(inner, Mapping) else None
    role = str(value["type"])
    session = str(value.get("sessionId") or "")
    if not value.get("uuid"):
        raise BadRecord(_("it has no id"))
    return {
        "external_id": f"claude-code:{value['uuid']}",
        "role": role,
        "author": "Claude" if role == "assistant" else "",
        "text": _words(content),
        "session": f"claude-code:{session}",
        "metadata": {name: value[name] for name in ("cwd", "gitBranch") if value.get(name)},
    }


def read_codex(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of a log of Codex."""
    session, place, count = "", "", 0
    for number, value in _values(source):
        if isinstance(value, Rejected):
            yield value
            continue
        payload = _payload(value)
        if not session and (value.get("type") == "session_meta" or "instructions" in value):
            session, place = str(payload.get("id") or ""), str(payload.get("cwd") or "")
            began = payload.get("timestamp") or value.get("timestamp")
            clock.begin(partial(_moment, began))
        if payload.get("type") == "message" and payload.get("role") in ("user", "assistant"):
            count += 1
            fields = (payload, session, place, count)
            yield from _message_of(number, clock, value.get("timestamp"), lambda fields=fields: _codex_fields(*fields))


def _payload(value: Fields) -> Fields:
    """Returns the payload of a line; in old logs, the line itself."""
    inner = value.get("payload")
    if value.get("type") in ("session_meta", "response_item") and isinstance(inner, Mapping):
        return inner
    return {} if _kind(value) in _CODEX_TYPES else value


def _moment(value: object) -> Any:
    try:
        return Clock().read(value) if value else None
    except BadRecord:
        return None


def _codex_fields(payload: Fields, session: str, place: str, count: int) -> dict[str, Any]:
    role = str(payload["role"])
    if not session:
        raise BadRecord(_("the log does not begin with its session"))
    return {
        "external_id": f"codex:{session}:{count}",
        "role": role,
        "author": "Codex" if role == "assistant" else "",
        "text": _words(payload.get("content")),
        "session": f"codex:{session}",
        "metadata": {"cwd": place} if place else {},
    }


def _words(content: object) -> str:
    """Returns the texts of a message and a mark for each picture, without tools and reasoning."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return ""
    return "\n".join(part for block in blocks if isinstance(block, Mapping) and (part := _block(block))).strip()


def _block(block: Fields) -> str:
    kind, text = _kind(block), block.get("text")
    if kind in _IMAGES:
        return "[image]"
    if kind not in _TEXTS or not isinstance(text, str) or text.lstrip().startswith(_OF_THE_PROGRAM):
        return ""
    return text


def _message_of(number: int, clock: Clock, time: object, fields: Any) -> Iterator[MessageRecord | Rejected]:
    try:
        known = fields()
        if known["text"]:
            sent_at = clock.read(time)
            metadata = {**known["metadata"], **clock.mark()}
            yield message(user="", sent_at=sent_at, line=number, **{**known, "metadata": metadata})
    except BadRecord as error:
        yield Rejected(number, str(error))


def _values(source: SourceFile) -> Iterator[tuple[int, Fields | Rejected]]:
    """Yields each line's number and its object, or a rejection."""
    for number, value in jsonl.values(source):
        is_known = isinstance(value, Mapping | Rejected)
        yield number, value if is_known else Rejected(number, _("it is no JSON object"))


def open_claude_code(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read_claude_code, source))


def open_codex(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read_codex, source))


CLAUDE_CODE = Format("claude-code", "Claude Code", (LinesLayout(is_claude_code, open_claude_code),))
CODEX = Format("codex", "Codex", (LinesLayout(is_codex, open_codex),))
