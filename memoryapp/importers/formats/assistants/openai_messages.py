"""Lists of messages as they are sent to OpenAI's API: ``{"messages": [{"role", "content"}, …]}``, or the list alone.

As JSON Lines, a line is a conversation, a list of messages, or one message of the only conversation of the file. The
data sets of ShareGPT are read too: their ``conversations`` have ``from`` and ``value`` in place of role and content.
So are messages of LangChain, in each of the three forms in which it writes them.

They have no ids and mostly no times. The id of a conversation is a hash of its messages up to the first one of the
user, with a number if earlier conversations of the file begin alike. So the ids stay the same when the file or a
conversation grows. Tool calls and their results are left out."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document as lines
from memoryapp.importers import record as reasons
from memoryapp.importers.document import JsonDocument, prefix_of_items
from memoryapp.importers.format import DocumentLayout, Format, Hints, LinesLayout, Reader
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, quote

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
# A tuple, because a caller may send anything as a role, and not everything can be looked up in a set.
TOOLS = ("tool", "function")
_TIMES = ("timestamp", "created_at", "createdAt", "create_time", "created", "ts", "time")
_PARTS = {
    **{"image_url": "[image]", "input_image": "[image]", "input_audio": "[audio]"},
    **{"file": "[file]", "input_file": "[file]"},
}
_TEXTS = ("text", "input_text", "output_text")
# A message of such a list has a role and one of these; messages of our own format have an id and a text.
_CONTENTS = ("content", "tool_calls", "function_call", "refusal")

# Who speaks in the data sets of ShareGPT.
_SPEAKERS = {
    **{"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"},
    **{"model": "assistant", "observation": "tool", "function_call": "tool", "tool_response": "tool"},
}
_OF_LANGCHAIN = {
    **{"human": "user", "ai": "assistant", "system": "system", "chat": "user", "developer": "system"},
    **{"tool": "tool", "function": "tool"},
}
_LISTS = ("messages", "conversations", "conversation")

Fields = Mapping[str, Any]


def is_message(item: object) -> bool:
    item = _turn(item)
    return (
        isinstance(item, Mapping)
        and isinstance(item.get("role"), str)
        and any(field in item for field in _CONTENTS)
        and not {"id", "text"} <= item.keys()
    )


def recognises(value: object) -> bool:
    """Whether a document or a line is a conversation, or a list of conversations or messages."""
    if isinstance(value, Mapping):
        return any(is_message(item) for item in _turns(value, most=20))
    return isinstance(value, list) and any(is_message(item) or recognises(item) for item in value[:20])


def recognises_line(value: object) -> bool:
    return is_message(value) or recognises(value)


def _turn(item: object) -> object:
    """A message as OpenAI has them; any other value as it is."""
    item = _of_langchain(item)
    if not isinstance(item, Mapping) or "role" in item or not {"from", "value"} <= item.keys():
        return item
    speaker = str(item["from"])
    return {**item, "role": _SPEAKERS.get(speaker.lower(), speaker.lower()), "content": item.get("value")}


def _of_langchain(item: object) -> object:
    """A message as OpenAI has them: from ``messages_to_dict``, from ``dumpd``, or as the model of itself."""
    if not isinstance(item, Mapping) or "role" in item:
        return item
    kind, inner, path = item.get("type"), item.get("data"), item.get("id")
    if "lc" in item and isinstance(path, list) and path:
        kind, inner = str(path[-1]).lower().removesuffix("chunk").removesuffix("message"), item.get("kwargs")
    inner = inner if isinstance(inner, Mapping) else item
    role = _OF_LANGCHAIN.get(str(kind).lower().removesuffix("messagechunk"))
    if role is None or "content" not in inner or not isinstance(kind, str):
        return item
    return {**inner, "role": inner.get("role") or role}


def _turns(fields: Fields, most: int | None = None) -> list[Any]:
    """The messages of a conversation; none where it has no list of them."""
    found = next((value for name in _LISTS if isinstance(value := fields.get(name), list)), [])
    return [_turn(item) for item in found[:most]]


def read(conversations: Iterable[tuple[str, object]], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of conversations; each comes with its place in the file."""
    alike: Counter[str] = Counter()
    for place, value in conversations:
        fields = value if isinstance(value, Mapping) else {"messages": value}
        items = _turns(fields)
        if not any(isinstance(fields.get(name), list) for name in _LISTS):
            yield Rejected(place, _("it has no list of messages"))
            continue
        yield from _conversation(fields, items, place, alike, clock)
        clock.pause()


def read_lines(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of a file with one conversation a line; other lines are rejected with their number."""
    bad: list[Rejected] = []
    for item in read(_lines(source, bad), clock):
        yield from bad
        bad.clear()
        yield item
    yield from bad


def _lines(source: SourceFile, bad: list[Rejected]) -> Iterator[tuple[str, object]]:
    loose: list[object] = []
    for number, value in lines.values(source):
        if isinstance(value, Rejected):
            bad.append(value)
        elif is_message(value) or (loose and not recognises(value)):
            loose.append(value)
        else:
            yield f"line {number}", value
    if loose:
        yield "$", loose


def grouped(document: Iterable[object]) -> Iterator[tuple[str, object]]:
    """Yields the conversations of a list with their places: each item is one, or all items are messages of one."""
    loose: list[object] = []
    for index, item in enumerate(document):
        if is_message(item) or loose:
            loose.append(item)
        else:
            yield f"[{index}]", item
    if loose:
        yield "$", loose


def _conversation(
    fields: Fields, items: Sequence[object], place: str, alike: Counter[str], clock: Clock
) -> Iterator[MessageRecord | Rejected]:
    key = _key(fields, items)
    alike[key] += 1
    key = key if alike[key] == 1 else f"{key}.{alike[key]}"
    rest = {name: value for name, value in fields.items() if name not in _LISTS}
    for index, item in enumerate(items):
        line = f"{place}.messages[{index}]"
        try:
            record = _record(item, f"openai:{key}", index, line, clock)
        except BadRecord as error:
            yield Rejected(line, str(error))
            continue
        if record:
            yield _with(record, rest)
            rest = {}
        else:
            yield LeftOut(line, str(reasons.PROGRAM))


def _with(record: MessageRecord, rest: Fields) -> MessageRecord:
    """Returns the first message of a conversation with the other fields of the conversation in its metadata."""
    if not rest:
        return record
    given = {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.init}
    try:
        return message(**{**given, "metadata": {**record.metadata, "conversation": rest}})
    except BadRecord:
        return record


def _key(fields: Fields, items: Sequence[object]) -> str:
    own = fields.get("id") or fields.get("conversation_id")
    if isinstance(own, str | int) and not isinstance(own, bool):
        return str(own)[:100]
    first: list[object] = []
    for item in items:
        first.append([item.get("role"), item.get("content")] if isinstance(item, Mapping) else item)
        if isinstance(item, Mapping) and item.get("role") == "user":
            break
    return hashlib.sha256(json.dumps(first, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _record(item: object, key: str, index: int, line: str, clock: Clock) -> MessageRecord | None:
    """Returns the message; None if it belongs to a tool or has no text. Raises BadRecord."""
    if not isinstance(item, Mapping):
        raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
    role = str(item.get("role") or "")
    text = said(item)
    if role in TOOLS or (not text and role in ROLES):
        return None
    sent_at = clock.read(next((item[name] for name in _TIMES if item.get(name) is not None), None))
    author = item.get("name")
    return message(
        user="",
        external_id=f"{key}:{index}",
        role=ROLES.get(role, role),
        author=author if isinstance(author, str) else "",
        sent_at=sent_at,
        text=text,
        session=key,
        metadata={**({"model": item["model"]} if item.get("model") else {}), **clock.mark()},
        line=line,
    )


def said(fields: Fields) -> str:
    """Returns the words of a message: its content, or that an assistant refused, which has a field of its own."""
    return text_of(fields.get("content")) or text_of(fields.get("refusal"))


def text_of(content: object) -> str:
    """Returns the words of a message's content, a text or a list of parts; empty if it has none."""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        return ""
    return "\n".join(filter(None, map(_part, content))).strip()


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    kind, text = str(part.get("type") or ""), part.get("text")
    if isinstance(text, Mapping):
        # Messages of the Assistants API have their words one level below.
        text = text.get("value")
    if kind in _TEXTS and isinstance(text, str):
        return text
    if kind == "refusal":
        return str(part.get("refusal") or "")
    return _PARTS.get(kind, "")


def open_lines(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read_lines, source))


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    values = partial(document.items, prefix_of_items(outline))
    return Reader(lambda clock: read(grouped(values()), clock))


FORMAT = Format(
    "openai", "OpenAI", (LinesLayout(recognises_line, open_lines), DocumentLayout(recognises, open_document))
)
