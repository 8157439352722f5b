"""Claude's ``conversations.json``: conversations with all of their messages, perhaps in several versions.

``content`` is preferred to ``text``, which contains only the text. What was shown is imported: words, voice notes,
documents that the assistant wrote, names of files. Reasoning, tool calls and their results are left out. If a message
was edited, the export has every version, and the path to the last message was shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import record as reasons
from memoryapp.importers.document import JsonDocument, prefix_of_items
from memoryapp.importers.format import DocumentLayout, Format, Hints, Reader
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.values import BadRecord, fields, items, quote, text

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}
_NOBODY = "00000000-0000-4000-8000-000000000000"
# ``text`` contains this in place of a block that is not text.
_UNSUPPORTED = "This block is not supported on your current device yet."

# Tools whose input is a document that was shown: artifacts, and files that Claude writes in its container.
_WRITING = ("artifacts", "create_file", "str_replace", "str_replace_based_edit_tool")

# Blocks that were not part of what is said; any other one whose words nobody knows how to read is named.
_SILENT = {
    *("thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use", "web_search_tool_result"),
    *("token_budget", "flag"),
}
_SPOKEN = {"text", "voice_note", "image", "document"}
# Where other blocks have their words.
_WORDS = ("title", "text", "content", "body")

# Tools whose input is what the person saw: drafts of a message, and questions with choices.
_SHOWING = ("message_compose", "ask_user_input")

Fields = Mapping[str, Any]


def recognises(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, Mapping) and isinstance(item.get("chat_messages"), list) for item in items)


def read(conversations: Iterable[object], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the shown messages of each conversation, in order."""
    for index, conversation in enumerate(conversations):
        place = f"[{index}]"
        if not isinstance(conversation, Mapping):
            reason = _("a conversation must be a JSON object, not %(value)s") % {"value": quote(conversation)}
            yield Rejected(place, reason)
            continue
        yield from _conversation(conversation, place, clock)
        clock.pause()


def _conversation(conversation: Fields, place: str, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    key, items = conversation.get("uuid"), conversation.get("chat_messages")
    if not isinstance(key, str) or not key:
        yield Rejected(place, _("the conversation has no id"))
        return
    if not isinstance(items, list):
        yield Rejected(place, _("the conversation has no messages"))
        return
    visible = _visible(conversation, items)
    for index, item in enumerate(items):
        line = f"{place}.chat_messages[{index}]"
        if id(item) not in visible:
            yield LeftOut(line, str(reasons.BRANCH))
            continue
        try:
            record = _record(conversation, key, item, line, clock)
        except BadRecord as error:
            yield Rejected(line, str(error))
            continue
        yield record if record.text else LeftOut(line, str(_why_silent(item)))


def _why_silent(item: Fields) -> Any:
    """Returns why a message without words is left out; the export itself replaces what it hides by a sentence."""
    has_silent = any(fields(block).get("type") in _SILENT for block in items(item.get("content")))
    return reasons.HIDDEN if has_silent or text(item.get("text")).strip() else reasons.EMPTY


def _visible(conversation: Fields, items: Sequence[object]) -> set[int]:
    """Returns the ``id()`` of the messages on the path that was shown last; of all if the export has no tree."""
    known = {key: item for item in items if (key := _uuid(item)) and isinstance(item, Mapping)}
    parents = [item.get("parent_message_uuid") for item in known.values()]
    if not any(parent in known for parent in parents if isinstance(parent, str)):
        return {id(item) for item in items}
    leaf = conversation.get("current_leaf_message_uuid")
    key = leaf if isinstance(leaf, str) and leaf in known else next(reversed(known))
    path = {id(item) for item in items if not _uuid(item)}
    while isinstance(key, str) and key in known and id(known[key]) not in path:
        path.add(id(known[key]))
        key = known[key].get("parent_message_uuid") or _NOBODY
    return path


def _uuid(item: object) -> str:
    key = item.get("uuid") if isinstance(item, Mapping) else None
    return key if isinstance(key, str) else ""


def _record(conversation: Fields, key: str, item: object, line: str, clock: Clock) -> MessageRecord:
    if not isinstance(item, Mapping):
        raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
    if not _uuid(item):
        raise BadRecord(_("it has no id"))
    sender = str(item.get("sender") or "")
    sent_at, said = clock.read(item.get("created_at")), _text(item)
    return message(
        user="",
        external_id=f"claude:{key}:{item['uuid']}",
        role=_ROLES.get(sender, sender),
        author="Claude" if sender == "assistant" else "",
        sent_at=sent_at,
        text=said,
        session=key,
        metadata={"conversation": conversation.get("name") or "", **_extracted_texts(item, said), **clock.mark()},
        line=line,
    )


def _text(item: Fields) -> str:
    """Returns what a message says. Raises BadRecord if there is nothing in it but what nobody knows how to read."""
    blocks = item.get("content")
    parts = [_block(block) for block in blocks] if isinstance(blocks, list) else [text(blocks)]
    if not any(parts) and isinstance(item.get("text"), str):
        parts = [item["text"].replace(_UNSUPPORTED, "").replace("```\n```", "")]
    said = [part.strip() for part in parts if part.strip()]
    lines = [*_files(item, is_alone=not said), *said]
    unknown = [kind for block in items(blocks) if (kind := text(fields(block).get("type"))) not in _SILENT | _SPOKEN]
    if unknown and not lines:
        kind = quote(unknown[0])
        raise BadRecord(_("there is nothing to read in content of the type %(kind)s") % {"kind": kind})
    return "\n".join(lines)


def _block(block: object) -> str:
    """Returns the text of a block that was shown; empty for reasoning, tools and their results."""
    if not isinstance(block, Mapping):
        return ""
    kind, text = block.get("type"), block.get("text")
    if kind == "image":
        return "[image]"
    if kind == "document":
        return f"[file: {block['title']}]" if block.get("title") else "[file]"
    if kind == "tool_use":
        name, given = str(block.get("name") or ""), block.get("input")
        return _artifact(given) if name in _WRITING else _shown(given) if name.startswith(_SHOWING) else ""
    if kind == "voice_note":
        return "\n".join(part for part in (block.get("title"), text) if isinstance(part, str))
    if kind in _SILENT:
        return ""
    names = ("text",) if kind == "text" else _WORDS
    return "\n".join(part for name in names if isinstance(part := block.get(name), str) and part)


def _shown(value: object) -> str:
    """Returns the words of a draft of a message, or of a question with choices."""
    given = fields(value)
    drafts = [fields(each) for each in items(given.get("variants"))]
    asked = [fields(each) for each in items(given.get("questions"))]
    parts = [part for draft in drafts for part in (draft.get("label"), draft.get("subject"), draft.get("body"))]
    for question in asked:
        parts += [
            question.get("question"),
            *(f"- {text(each)}" for each in items(question.get("options")) if text(each)),
        ]
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _artifact(value: object) -> str:
    """Returns a document that the assistant wrote; of its later versions, only the changed text."""
    given = fields(value)
    title = given.get("title") or text(given.get("path")).rpartition("/")[2]
    content = next(filter(None, (text(given.get(name)) for name in ("content", "file_text", "new_str"))), "")
    if not content:
        return ""
    head = f"[{title}]" if isinstance(title, str) and title else ""
    return f"{head}\n{content}" if head else content


def _all_files(item: Fields) -> list[Fields]:
    both = [*items(item.get("attachments")), *items(item.get("files"))]
    return [file for file in both if isinstance(file, Mapping)]


def _files(item: Fields, *, is_alone: bool) -> list[str]:
    """Returns a mark for each file; if the message ``is_alone`` with them, the text of those without a name, too. A
    long text that a person pastes becomes such a file. Beside other words it is kept in the metadata."""
    marks = [f"[file: {file['file_name']}]" for file in _all_files(item) if file.get("file_name")]
    for file in _all_files(item):
        if not file.get("file_name"):
            marks.append((is_alone and text(file.get("extracted_content")).strip()) or "[file]")
    return list(dict.fromkeys(marks))


def _extracted_texts(item: Fields, said: str) -> dict[str, Any]:
    """Returns metadata with the texts of attached files, except of one that is what was said. They are not part of the
    message, because nobody said them."""
    found = [
        {"name": str(file.get("file_name") or ""), "content": content}
        for file in _all_files(item)
        if isinstance(content := file.get("extracted_content"), str) and content.strip() != said
    ]
    return {"attachments": found} if found else {}


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    conversations = partial(document.items, prefix_of_items(outline))
    return Reader(lambda clock: read(conversations(), clock))


FORMAT = Format("claude", "Claude", (DocumentLayout(recognises, open_document, ("conversations*.json",)),))
