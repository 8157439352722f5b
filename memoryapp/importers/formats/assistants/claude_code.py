"""The session logs of Claude Code: JSON Lines with one event each; few of them are messages.

The person's words and the assistant's answers are imported. Some of them stand elsewhere than in messages: what was
typed while the assistant worked, the reason for which a tool was refused, the assistant's questions with the answers
that were chosen, plans, and what was written behind a command. Every other line is left out with its reason: reasoning,
tool calls and their results, text that the program inserts, and side chains, in which the assistant speaks with agents
of its own. A log only grows, so a later import of the same log adds its end; what a person went back from stays in it,
and is left out here."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import record
from memoryapp.importers.format import Format, Hints, LinesLayout, Reader
from memoryapp.importers.formats.assistants.agent_logs import block_words, kind_of, message_of, values_of, words_of
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, Fields, fields, items, text

_TYPES = ("user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "attachment")
# Notes about a session, which need not say when they were made.
_NOTES = (
    *("last-prompt", "ai-title", "custom-title", "agent-name", "permission-mode", "mode", "tag", "pr-link"),
    "progress",
)
# Behind these words the result of a refused tool has the person's own.
_REFUSED = ("To tell you how to proceed, the user said:", "the user said:")
_ANSWERED = ("User has answered your questions:", "Your questions have been answered:")
_ANSWER = re.compile(r'="([^"\n]{1,2000})"')
# More prompts than anybody has waiting at once: a hostile log takes no longer than its length.
_LONGEST_QUEUE = 100
# Commands of the program itself, whose arguments are its settings.
_SETTINGS = {
    *("/model", "/effort", "/config", "/theme", "/resume", "/rename", "/color", "/fast", "/mcp", "/agents", "/login"),
    *("/add-dir", "/permissions", "/output-style", "/plugin", "/hooks", "/statusline"),
}


def is_claude_code(value: object) -> bool:
    """Whether a parsed line belongs to a log of Claude Code."""
    if not isinstance(value, Mapping) or kind_of(value) not in _TYPES:
        return isinstance(value, Mapping) and kind_of(value) in _NOTES and "sessionId" in value
    return "leafUuid" in value or "messageId" in value or ("sessionId" in value and "timestamp" in value)


def read(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of a log of Claude Code, and for each other line why it is left out."""
    abandoned, unsaid = _survey(source)
    for number, line in values_of(source):
        if isinstance(line, Rejected):
            yield line
            continue
        value = _queued(line) or (_typed(line, line.get("content")) if number in unsaid else None) or line
        if value.get("type") not in ("user", "assistant"):
            yield LeftOut(number, str(record.EVENT))
        elif value.get("isSidechain"):
            yield LeftOut(number, str(record.SIDE_CHAIN))
        elif _is_aside(value) or not _said(value):
            yield LeftOut(number, str(record.PROGRAM))
        elif isinstance(own := value.get("uuid"), str) and own in abandoned:
            yield LeftOut(number, str(record.REWOUND))
        else:
            yield message_of(number, clock, value.get("timestamp"), partial(_fields, value))


def _queued(value: Fields) -> Fields | None:
    """What a person typed while the assistant was at work, as a line of theirs; it stands in an attachment alone, which
    may have no id."""
    inner = value.get("attachment")
    if kind_of(value) != "attachment" or not isinstance(inner, Mapping) or inner.get("type") != "queued_command":
        return None
    if inner.get("commandMode") not in (None, "prompt"):
        return None
    return _typed(value, inner.get("prompt"))


def _typed(value: Fields, words: object) -> Fields:
    named = "\n".join(map(str, (value.get("sessionId"), value.get("timestamp"), words)))
    key = value.get("uuid") or f"queued:{sha256(named.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return {**value, "uuid": key, "type": "user", "message": {"role": "user", "content": words}}


def _said(value: Fields) -> str:
    """Returns what a line of a person or the assistant says, wherever its words stand."""
    content = fields(value.get("message")).get("content")
    if not isinstance(content, list):
        return words_of(content) or _command(text(content))
    parts = (_block(value, fields(block)) for block in content)
    return "\n".join(part for part in parts if part).strip()


def _block(value: Fields, block: Fields) -> str:
    kind = kind_of(block)
    if kind == "tool_use":
        return _shown(block.get("name"), fields(block.get("input")))
    if kind == "tool_result":
        return _answers(value, words_of(block.get("content")))
    return block_words(block) or _command(text(block.get("text")))


def _shown(tool: object, given: Fields) -> str:
    """Returns the assistant's plan, or its questions with their choices; empty for other tools."""
    if tool == "ExitPlanMode":
        return text(given.get("plan"))
    if tool != "AskUserQuestion":
        return ""
    found = []
    for question in map(fields, items(given.get("questions"))):
        choices = (text(fields(each).get("label")) for each in items(question.get("options")))
        found += [text(question.get("question")), *(f"- {choice}" for choice in choices if choice)]
    return "\n".join(part for part in found if part)


def _answers(value: Fields, result: str) -> str:
    """Returns what a person answered to a question or to a tool that asked for leave; empty for other results."""
    if reason := next((after for mark in _REFUSED if (after := result.partition(mark)[2])), ""):
        return reason.strip() if result.startswith("The user doesn't want") else ""
    if not result.startswith(_ANSWERED):
        return ""
    chosen = fields(fields(value.get("toolUseResult")).get("answers")).values()
    return "\n".join(answer for answer in chosen if isinstance(answer, str)) or "\n".join(_ANSWER.findall(result))


def _command(content: str) -> str:
    """Returns a command with what a person wrote behind it; empty for one without, and for settings."""
    name, written = _between(content, "command-name"), _between(content, "command-args")
    return f"{name} {written}" if name and written and name not in _SETTINGS else ""


def _between(content: str, tag: str) -> str:
    inner, end, _rest = content.partition(f"<{tag}>")[2].partition(f"</{tag}>")
    return inner.strip() if end else ""


@dataclass(slots=True)
class _Queue:
    """Prompts that ``wait``, by the numbers of their lines, and the lines of all that was ``said`` in the log."""

    wait: dict[int | str, str] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def see(self, number: int | str, value: Fields) -> None:
        if kind_of(value) == "queue-operation":
            self._operate(number, value, words_of(value.get("content")))
        elif kind_of(value) in ("user", "attachment") and (words := _said(_queued(value) or value)):
            self.said.update(_lines(words))

    def _operate(self, number: int | str, value: Fields, words: str) -> None:
        operation = value.get("operation")
        if operation == "enqueue" and words and (" " in words or not words.startswith("/")):
            self.wait[number] = words
        elif operation == "popAll" or (
            operation == "remove" and value.get("reason") not in (None, "absorbed_mid_turn")
        ):
            # It went back into the line of the person who typed it.
            for place in tuple(islice(reversed(self.wait), _LONGEST_QUEUE)):
                if not words or self.wait[place] in words:
                    del self.wait[place]

    def unsaid(self) -> set[int | str]:
        """Returns the numbers of prompts that stand nowhere else: some versions write no line when they are read."""
        return {number for number, words in self.wait.items() if not self.said.issuperset(_lines(words))}


def _lines(words: str) -> Iterator[str]:
    return (line for each in words.splitlines() if (line := each.strip()))


def _survey(source: SourceFile) -> tuple[set[Any], set[int | str]]:
    """Returns the ids of the lines behind a prompt that was taken back, and the numbers of prompts in the queue alone.
    After a rewind, the next prompt follows the same message as the one that was taken back, perhaps behind a command or
    a hook; other forks of the tree, as those of tools that run at the same time, belong to the conversation."""
    queue = _Queue()
    parents: dict[str, str] = {}
    # Lines that are no part of the conversation, with the last one before them that is.
    between: dict[str, str] = {}
    prompts: dict[str, list[str]] = {}
    leaf = last = ""
    for number, value in values_of(source):
        if isinstance(value, Rejected):
            continue
        queue.see(number, value)
        leaf = str(value.get("leafUuid") or "") if value.get("type") == "last-prompt" else leaf
        key, parent = value.get("uuid"), value.get("parentUuid") or value.get("logicalParentUuid") or ""
        if not isinstance(key, str) or not isinstance(parent, str) or value.get("isSidechain"):
            continue
        parents[key], last = parent, key
        words = words_of(fields(value.get("message")).get("content"))
        if value.get("type") == "user" and not _is_aside(value) and words:
            prompts.setdefault(between.get(parent, parent), []).append(key)
        elif not _is_turn(value):
            between[key] = between.get(parent, parent)
    path = _path_to(leaf if leaf in parents else last, parents)
    if leaf not in parents:
        # A log that does not name its end may have several beginnings.
        prompts.pop("", None)
    taken_back = {key for keys in prompts.values() if path & set(keys) for key in keys if key not in path}
    return _behind(taken_back, parents), queue.unsaid()


def _is_turn(value: Fields) -> bool:
    """Whether a line is a part of the conversation, not a note of the program or of a command."""
    if value.get("type") == "assistant":
        return True
    blocks = items(fields(value.get("message")).get("content"))
    return value.get("type") == "user" and any(fields(block).get("type") == "tool_result" for block in blocks)


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


def _fields(value: Fields) -> dict[str, Any]:
    role = str(value["type"])
    session = str(value.get("sessionId") or "")
    if not value.get("uuid"):
        raise BadRecord(_("it has no id"))
    return {
        "external_id": f"claude-code:{value['uuid']}",
        "role": role,
        "author": "Claude" if role == "assistant" else "",
        "text": _said(value),
        "session": f"claude-code:{session}",
        "metadata": {name: value[name] for name in ("cwd", "gitBranch") if value.get(name)},
    }


def open_lines(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read, source))


FORMAT = Format("claude-code", "Claude Code", (LinesLayout(is_claude_code, open_lines),))
