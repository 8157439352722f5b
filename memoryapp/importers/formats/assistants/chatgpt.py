"""ChatGPT's ``conversations.json``: each conversation is a tree of versions, and one path of it was shown.

An edited question or a regenerated answer is another branch. The path from ``current_node`` up to the root is the
conversation as the person last saw it. Other branches are left out, and so are nodes that were never shown: hidden
ones, reasoning, tool calls and their results. A document of the canvas is shown, though a tool is called with it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import record as reasons
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import DocumentLayout, Format, Hints, Reader
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.values import BadRecord, fields, items, moment, quote

_HIDDEN_KINDS = {
    *("model_editable_context", "reasoning_recap", "sonic_webpage", "tether_browsing_display", "tether_quote"),
    *("thoughts", "user_editable_context"),
}
_ROLES = {"user": "user", "assistant": "assistant", "tool": "assistant", "system": "system"}
_PARTS = {
    "image_asset_pointer": "[image]",
    "audio_asset_pointer": "[audio]",
    "video_container_asset_pointer": "[video]",
    "real_time_user_audio_video_asset_pointer": "[audio]",
}
# Citations are enclosed in characters of Unicode's private use area; the page of ChatGPT replaces them.
_CITATION = re.compile("\ue200[^\ue200\ue201]*+\ue201")

# Calls of the tool that writes the documents of the canvas: create_textdoc, update_textdoc, comment_textdoc.
_CANVAS = "canmore."

Node = Mapping[str, Any]


def recognises(value: object) -> bool:
    return any(isinstance(item, Mapping) and "mapping" in item for item in _conversations(value))


def _conversations(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        inner = value.get("conversations")
        return inner if isinstance(inner, list) else [value]
    return value if isinstance(value, list) else []


def prefix(value: object) -> str:
    """Returns the place, in ijson's notation, of the conversations of a document with this outline."""
    if isinstance(value, list):
        return "item"
    return "conversations.item" if isinstance(value, Mapping) and "conversations" in value else ""


def read(conversations: Iterable[object], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the shown messages of each conversation, oldest first."""
    for index, conversation in enumerate(conversations):
        place = f"[{index}]"
        try:
            key, path = _path(conversation)
        except BadRecord as error:
            yield Rejected(place, str(error))
            continue
        yield from _messages(fields(conversation), key, path, place, clock)
        yield from _other_branches(fields(conversation), {node for node, _content in path}, place)
        clock.pause()


def _path(conversation: object) -> tuple[str, list[tuple[str, Node]]]:
    """Returns the conversation's id and its shown nodes, from the root down. Raises BadRecord."""
    if not isinstance(conversation, Mapping):
        raise BadRecord(_("a conversation must be a JSON object, not %(value)s") % {"value": quote(conversation)})
    key = conversation.get("conversation_id") or conversation.get("id")
    if not isinstance(key, str):
        raise BadRecord(_("the conversation has no id"))
    mapping = conversation.get("mapping")
    if not isinstance(mapping, Mapping) or not mapping:
        raise BadRecord(_("the conversation has no messages (its mapping is missing or empty)"))
    path: dict[str, Node] = {}
    node = _last(conversation, mapping)
    while isinstance(node, str) and node not in path and isinstance(mapping.get(node), Mapping):
        path[node] = mapping[node]
        node = path[node].get("parent")
    return key, list(reversed(path.items()))


def _other_branches(conversation: Node, path: set[str], place: str) -> Iterator[LeftOut]:
    """Yields the messages that stand on other branches."""
    for node, content in fields(conversation.get("mapping")).items():
        raw = fields(content).get("message")
        if node not in path and isinstance(raw, Mapping):
            yield LeftOut(f"{place}.mapping[{node}]", str(reasons.HIDDEN if _is_hidden(raw) else reasons.BRANCH))


def _last(conversation: Node, mapping: Node) -> object:
    """Returns the id of the last shown node; if the export does not say it, the only leaf. Raises BadRecord."""
    current = conversation.get("current_node")
    if isinstance(current, str) and current in mapping:
        return current
    ends = [key for key, node in mapping.items() if isinstance(node, Mapping) and not node.get("children")]
    if current is None and len(ends) == 1:
        return ends[0]
    raise BadRecord(_("current_node %(node)s is not in the mapping") % {"node": quote(current)})


def _messages(
    conversation: Node, key: str, path: list[tuple[str, Node]], place: str, clock: Clock
) -> Iterator[MessageRecord | Rejected]:
    broken = path[0][1].get("parent")
    if broken is not None:
        reason = _("its parent %(node)s is missing: the messages before it are lost") % {"node": quote(broken)}
        yield Rejected(f"{place}.mapping[{path[0][0]}]", reason)
    before = conversation.get("create_time")
    for node, content in path:
        raw = content.get("message")
        if not isinstance(raw, Mapping):
            continue
        if _is_hidden(raw):
            yield LeftOut(f"{place}.mapping[{node}]", str(reasons.HIDDEN))
            continue
        try:
            sent_at = _time(conversation, raw, before, clock)
            mark = {"time_source": "neighbour", **clock.mark()} if raw.get("create_time") is None else {}
            record = _record(conversation, key, node, raw, (sent_at, mark), f"{place}.mapping[{node}]")
        except BadRecord as error:
            yield Rejected(f"{place}.mapping[{node}]", str(error))
            continue
        if not record.text:
            yield LeftOut(record.line, str(reasons.EMPTY))
        else:
            yield record
            if before is not None or raw.get("create_time") is not None:
                before = record.sent_at.timestamp()


def _time(conversation: Node, raw: Node, before: object, clock: Clock) -> datetime:
    """Returns the time of a node, at least ``before``; if both are missing, when the conversation was updated."""
    known = [moment(time) for time in (raw.get("create_time"), before) if time is not None]
    latest = max(known, default=None)
    return clock.read(conversation.get("update_time") if latest is None else latest.isoformat())


def _record(
    conversation: Node, key: str, node: str, raw: Node, when: tuple[datetime, Mapping[str, str]], line: str
) -> MessageRecord:
    """Returns the record; ``when`` is the time, and metadata about it."""
    sent_at, mark = when
    role = _role(raw)
    metadata = fields(raw.get("metadata"))
    return message(
        user="",
        external_id=f"chatgpt:{key}:{node}",
        role=_ROLES.get(role, role),
        author="" if role == "user" else "ChatGPT",
        sent_at=sent_at,
        text=_text(raw, metadata),
        session=key,
        metadata={
            "conversation": conversation.get("title") or "",
            **{name: metadata[name] for name in ("model_slug", "attachments") if metadata.get(name)},
            **mark,
        },
        line=line,
    )


def _role(raw: Node) -> str:
    return str(fields(raw.get("author")).get("role") or "")


def _is_hidden(raw: Node) -> bool:
    """Whether the node was not shown to the person as part of the conversation."""
    metadata = fields(raw.get("metadata"))
    if metadata.get("is_visually_hidden_from_conversation") or metadata.get("is_user_system_message"):
        return True
    if _is_canvas(raw):
        return False
    if _kind(raw) in _HIDDEN_KINDS or raw.get("recipient") not in (None, "", "all"):
        return True
    if metadata.get("is_async_task_result_message"):
        return False
    # The output of tools is for the model; only their pictures, and reports of research, are for the person.
    return _role(raw) == "tool" and _kind(raw) != "multimodal_text"


def _is_canvas(raw: Node) -> bool:
    return str(raw.get("recipient") or "").startswith(_CANVAS) and _role(raw) == "assistant"


def _kind(raw: Node) -> str:
    return str(fields(raw.get("content")).get("content_type") or "")


def _text(raw: Node, metadata: Node) -> str:
    """Returns the text of a node, with a mark for each file and picture. Raises BadRecord if it cannot be read."""
    content = fields(raw.get("content"))
    parts = content.get("parts")
    if isinstance(parts, list):
        found = [_part(part) for part in parts]
    elif isinstance(content.get("text"), str):
        found = [content["text"]]
    elif isinstance(content.get("result"), str):
        found = [content["result"]]
    else:
        raise BadRecord(_("there is nothing to read in content of the type %(kind)s") % {"kind": quote(_kind(raw))})
    if _is_canvas(raw):
        found = [_document("".join(found))]
    text = _CITATION.sub("", "\n".join([*_files(metadata), *filter(None, found)])).strip()
    return text or "\n".join(_files(metadata, with_pictures=True))


def _document(call: str) -> str:
    """Returns the name and text of a document; of its later versions, only the changed text; of comments, their words.
    A call that was cut off is no JSON, but has words."""
    try:
        written = fields(json.loads(call))
    except ValueError:
        return call
    name, content = written.get("name"), written.get("content")
    changes = [each for part in ("updates", "comments") for each in items(written.get(part))]
    words = [fields(each).get("replacement") or fields(each).get("comment") for each in changes]
    head = f"[{name}]" if isinstance(name, str) and name else ""
    return "\n".join(part for part in (head, content, *words) if isinstance(part, str) and part) or call


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    kind = str(fields(part).get("content_type") or "")
    text = fields(part).get("text")
    return text if isinstance(text, str) else _PARTS.get(kind, f"[{kind}]" if kind else "")


def _files(metadata: Node, *, with_pictures: bool = False) -> list[str]:
    # Pictures are parts of the content, too.
    return [
        f"[file: {item.get('name') or item.get('id')}]"
        for item in items(metadata.get("attachments"))
        if isinstance(item, Mapping) and (with_pictures or not str(item.get("mime_type", "")).startswith("image/"))
    ]


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    conversations = partial(document.items, prefix(outline))
    return Reader(lambda clock: read(conversations(), clock))


FORMAT = Format("chatgpt", "ChatGPT", (DocumentLayout(recognises, open_document, ("conversations*.json",)),))
