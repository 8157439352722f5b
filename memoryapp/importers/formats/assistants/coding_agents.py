"""The session logs of Claude Code and Codex: JSON Lines with one event each; few of them are messages.

The person's words and the assistant's answers are imported. Every other line is left out with its reason: reasoning,
tool calls and their results, text that the program inserts, and side chains, in which the assistant speaks with agents
of its own. A log only grows, so a later import of the same log adds its end; what a person went back from stays in it,
and is left out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import lines, reasons
from memoryapp.importers.format import Format, Hints, LinesLayout, Reader
from memoryapp.importers.record import BadRecord, Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.source import SourceFile

_CLAUDE_TYPES = ("user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "attachment")
_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# Beginnings of texts that the programs write in the user's name.
_OF_THE_PROGRAM = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions"),
    *("<command-name>", "<command-message>", "<command-args>", "<local-command-stdout>", "<local-command-stderr>"),
    *("<bash-input>", "<bash-stdout>", "<bash-stderr>", "<system-reminder>", "<turn_aborted>", "Caveat: "),
    *("[Request interrupted by user", "<task-notification>", "<permissions instructions>", "<collaboration_mode>"),
    *(
        "<ide_opened_file>",
        "<ide_selection>",
        "<ide_diagnostics>",
        "<local-command-caveat>",
        "<user-prompt-submit-hook>",
    ),
)
_TEXTS = ("text", "input_text", "output_text")
_IMAGES = ("image", "input_image", "local_image")

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
    """Yields the messages of a log of Claude Code, and for each other line why it is left out."""
    abandoned = _abandoned_in_claude_code(source)
    for number, line in _values(source):
        if isinstance(line, Rejected):
            yield line
            continue
        value = _queued(line) or line
        if value.get("type") not in ("user", "assistant"):
            yield LeftOut(number, str(reasons.EVENT))
        elif value.get("isSidechain"):
            yield LeftOut(number, str(reasons.SIDE_CHAIN))
        elif not _is_spoken(value):
            yield LeftOut(number, str(reasons.PROGRAM))
        elif isinstance(own := value.get("uuid"), str) and own in abandoned:
            yield LeftOut(number, str(reasons.REWOUND))
        else:
            yield _message_of(number, clock, value.get("timestamp"), lambda value=value: _claude_fields(value))


def _queued(value: Fields) -> Fields | None:
    """What a person typed while the assistant was at work, as a line of theirs; it stands in an attachment alone, which
    may have no id."""
    inner = value.get("attachment")
    if _kind(value) != "attachment" or not isinstance(inner, Mapping) or inner.get("type") != "queued_command":
        return None
    if inner.get("commandMode") not in (None, "prompt"):
        return None
    words = inner.get("prompt")
    named = "\n".join(map(str, (value.get("sessionId"), value.get("timestamp"), words)))
    key = value.get("uuid") or f"queued:{sha256(named.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return {**value, "uuid": key, "type": "user", "message": {"role": "user", "content": words}}


def _is_spoken(value: Fields) -> bool:
    inner = value.get("message")
    is_turn = value.get("type") in ("user", "assistant") and not _is_aside(value)
    return is_turn and isinstance(inner, Mapping) and bool(_words(inner.get("content")))


def _abandoned_in_claude_code(source: SourceFile) -> set[Any]:
    """Returns the ids of the lines behind a prompt that was taken back.

    After a rewind, the next prompt has the same parent as the one that was taken back; other forks of the tree, as
    those of tools that run at the same time, belong to the conversation.
    """
    parents: dict[str, str] = {}
    prompts: dict[str, list[str]] = {}
    leaf = last = ""
    for _number, value in _values(source):
        if isinstance(value, Rejected):
            continue
        leaf = str(value.get("leafUuid") or "") if value.get("type") == "last-prompt" else leaf
        key, parent = value.get("uuid"), value.get("parentUuid") or value.get("logicalParentUuid") or ""
        if not isinstance(key, str) or not isinstance(parent, str) or value.get("isSidechain"):
            continue
        parents[key], last = parent, key
        if value.get("type") == "user" and _is_spoken(value):
            prompts.setdefault(parent, []).append(key)
    path = _path_to(leaf if leaf in parents else last, parents)
    if leaf not in parents:
        # A log that does not name its end may have several beginnings.
        prompts.pop("", None)
    taken_back = {key for keys in prompts.values() if path & set(keys) for key in keys if key not in path}
    return _behind(taken_back, parents)


def _path_to(key: str, parents: Mapping[str, str]) -> set[str]:
    path: set[str] = set()
    while key in parents and key not in path:
        path.add(key)
        key = parents[key]
    return path


def _behind(begins: set[str], parents: Mapping[str, str]) -> set[Any]:
    """Returns ``begins`` and everything that follows from them; a line may stand before its parent."""
    known = {key: key in begins for key in begins}
    for start in parents:
        passed: list[str] = []
        key = start
        while key in parents and key not in known:
            passed.append(key)
            known[key] = False
            key = parents[key]
        is_behind = known.get(key, False)
        known.update(dict.fromkeys(passed, is_behind))
    return {key for key, is_behind in known.items() if is_behind}


def _is_aside(value: Fields) -> bool:
    inner = value.get("message")
    # Claude Code writes some answers itself, such as "No response requested."
    if isinstance(inner, Mapping) and inner.get("model") == "<synthetic>":
        return True
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
    """Yields the messages of a log of Codex, and for each other line why it is left out."""
    session, place, count, events = "", "", 0, 0
    spoken, abandoned = _survey_of_codex(source)
    for number, value in _values(source):
        if isinstance(value, Rejected):
            yield value
            continue
        payload = _payload(value)
        if not session and (value.get("type") == "session_meta" or "instructions" in value):
            session, place = str(payload.get("id") or ""), str(payload.get("cwd") or "")
            began = payload.get("timestamp") or value.get("timestamp")
            clock.begin(partial(_moment, began))
        event = _event(value)
        if event and event not in spoken:
            events += 1
            payload, name = {"role": event[0], "content": event[1]}, f"event:{events}"
        elif payload.get("type") == "message" and payload.get("role") in ("user", "assistant"):
            count += 1
            name = str(count)
        else:
            yield LeftOut(number, str(reasons.TWICE if event else reasons.EVENT))
            continue
        if number in abandoned:
            yield LeftOut(number, str(reasons.REWOUND))
        elif not _words(payload.get("content")):
            yield LeftOut(number, str(reasons.PROGRAM))
        else:
            fields = (payload, session, place, name)
            yield _message_of(number, clock, value.get("timestamp"), lambda fields=fields: _codex_fields(*fields))


Words = tuple[str, str]


def _survey_of_codex(source: SourceFile) -> tuple[set[Words], set[int]]:
    """Returns the role and words of all items, and the numbers of the lines with messages that were rolled back.

    Most words stand twice in a log, as an item and as an event of the interface; some stand only in the event.
    """
    spoken: set[Words] = set()
    for _number, value in _values(source):
        if not isinstance(value, Rejected) and (words := _item(value)):
            spoken.add(words)
    turns: list[tuple[int, str]] = []
    abandoned: set[int] = set()
    for number, value in _values(source):
        if isinstance(value, Rejected):
            continue
        inner = value.get("payload")
        if isinstance(inner, Mapping) and _kind(value) == "event_msg" and _kind(inner) == "thread_rolled_back":
            left = inner.get("num_turns")
            abandoned |= _rolled_back(turns, left if isinstance(left, int) else 0)
            continue
        event = _event(value)
        words = _item(value) or (event if event not in spoken else None)
        if words:
            turns.append((number, words[0]))
    return spoken, abandoned


def _rolled_back(turns: list[tuple[int, str]], count: int) -> set[int]:
    """Takes the last ``count`` turns, each of which begins with the person's words, off the list.

    Returns the numbers of their lines.
    """
    taken: set[int] = set()
    while turns and count > 0:
        number, role = turns.pop()
        taken.add(number)
        count -= role == "user"
    return taken


def _item(value: Fields) -> Words | None:
    payload = _payload(value)
    if payload.get("type") != "message" or payload.get("role") not in ("user", "assistant"):
        return None
    words = _words(payload.get("content"))
    return (str(payload["role"]), words) if words else None


# Events in which somebody speaks; newer versions of Codex have items in them.
_SPEAKING = {
    **{"user_message": "user", "agent_message": "assistant"},
    **{"UserMessage": "user", "AgentMessage": "assistant"},
}


def _event(value: Fields) -> Words | None:
    """Returns the role and words of an event in which somebody speaks."""
    inner = value.get("payload")
    if _kind(value) != "event_msg" or not isinstance(inner, Mapping):
        return None
    item, content = inner.get("item"), inner.get("message")
    if _kind(inner) == "item_completed" and isinstance(item, Mapping):
        inner, content = item, item.get("content") or item.get("text")
    role = _SPEAKING.get(_kind(inner), "")
    words = _words(content)
    return (role, words) if role and words else None


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


def _codex_fields(payload: Fields, session: str, place: str, name: str) -> dict[str, Any]:
    role = str(payload["role"])
    if not session:
        raise BadRecord(_("the log does not begin with its session"))
    return {
        "external_id": f"codex:{session}:{name}",
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
    kind, text = _kind(block).lower(), block.get("text")
    if kind in _IMAGES:
        return "[image]"
    if kind not in _TEXTS or not isinstance(text, str) or text.lstrip().startswith(_OF_THE_PROGRAM):
        return ""
    return text


def _message_of(number: int, clock: Clock, time: object, fields: Any) -> MessageRecord | Rejected:
    try:
        known = fields()
        sent_at = clock.read(time)
        metadata = {**known["metadata"], **clock.mark()}
        return message(user="", sent_at=sent_at, line=number, **{**known, "metadata": metadata})
    except BadRecord as error:
        return Rejected(number, str(error))


def _values(source: SourceFile) -> Iterator[tuple[int, Fields | Rejected]]:
    """Yields each line's number and its object, or a rejection."""
    for number, value in lines.values(source):
        is_known = isinstance(value, Mapping | Rejected)
        yield number, value if is_known else Rejected(number, _("it is no JSON object"))


def open_claude_code(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read_claude_code, source))


def open_codex(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read_codex, source))


CLAUDE_CODE = Format("claude-code", "Claude Code", (LinesLayout(is_claude_code, open_claude_code),))
CODEX = Format("codex", "Codex", (LinesLayout(is_codex, open_codex),))
