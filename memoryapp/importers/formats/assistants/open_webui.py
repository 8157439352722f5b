"""The chats that Open WebUI exports: each is a tree of messages, and the path to ``currentId`` was shown.

What the assistant thought and the calls of its tools stand in the text between tags, or in ``output`` beside it, and
are left out. Chats of before the tree have only a list of messages. An administrator's export has the chats of several
people, whom it names by number only."""

from collections.abc import Iterable, Iterator
from functools import partial

from django.utils.translation import gettext as _

from memoryapp.importers import record as reasons
from memoryapp.importers.document import JsonDocument, prefix_of_items
from memoryapp.importers.format import DocumentLayout, Format, Hints, Reader
from memoryapp.importers.formats.assistants.openai_messages import text_of
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.values import BadRecord, Fields, fields, items, quote, text

_DETAILS = ('<details type="reasoning"', '<details type="tool_calls"', '<details type="code_interpreter"')
_END_OF_DETAILS = "</details>"


def recognises(value: object) -> bool:
    chats = value if isinstance(value, list) else [value]
    return any(_is_chat(chat) for chat in chats[:20])


def _is_chat(value: object) -> bool:
    inner = fields(fields(value).get("chat"))
    return "history" in inner or ("messages" in inner and "models" in inner)


def read(chats: Iterable[object], has_users: bool, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the shown messages of each chat, oldest first; with ``has_users``, each names its user."""
    for index, chat in enumerate(chats):
        place, inner = f"[{index}]", fields(fields(chat).get("chat"))
        key = text(fields(chat).get("id")) or text(inner.get("id"))
        known = fields(fields(inner.get("history")).get("messages"))
        if not key or not (known or items(inner.get("messages"))):
            yield Rejected(place, _("the conversation has no messages") if key else _("the conversation has no id"))
            continue
        user = text(fields(chat).get("user_id")) if has_users else ""
        clock.begin([fields(chat).get("created_at")])
        if known:
            yield from _tree(known, fields(inner["history"]).get("currentId"), key, (user, inner, place), clock)
        else:
            for number, item in enumerate(items(inner.get("messages"))):
                yield _message(item, key, str(number), (user, inner, f"{place}.chat.messages[{number}]"), clock)
        clock.pause()


Place = tuple[str, Fields, str]


def _tree(known: Fields, current: object, key: str, where: Place, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    user, inner, place = where
    path = _path(known, current)
    for id in path:
        yield _message(known[id], key, id, (user, inner, f"{place}.chat.history.messages[{id}]"), clock)
    shown = set(path)
    for id in known:
        if id not in shown:
            yield LeftOut(f"{place}.chat.history.messages[{id}]", str(reasons.BRANCH), user)


def _path(known: Fields, current: object) -> list[str]:
    """Returns the ids from the root to the current message; if that is unknown, to the last one of the tree."""
    id: object = current if isinstance(current, str) and current in known else _last(known)
    path: dict[str, None] = {}
    while isinstance(id, str) and id in known and id not in path:
        path[id] = None
        id = fields(known[id]).get("parentId")
    return list(reversed(path))


def _last(known: Fields) -> str:
    times = {id: fields(item).get("timestamp") for id, item in known.items()}
    return max(known, key=lambda id: time if isinstance(time := times[id], int | float) else 0)


def _message(item: object, key: str, id: str, where: Place, clock: Clock) -> MessageRecord | Rejected:
    user, inner, line = where
    try:
        record = _record(item, key, id, where, clock)
    except BadRecord as error:
        return Rejected(line, str(error), user)
    if record.text:
        return record
    has_any = fields(item).get("content") or fields(item).get("output")
    return LeftOut(line, str(reasons.HIDDEN if has_any else reasons.EMPTY), user)


def _record(item: object, key: str, id: str, where: Place, clock: Clock) -> MessageRecord:
    user, inner, line = where
    if not isinstance(item, dict):
        raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
    role = text(item.get("role"))
    sent_at = clock.read(item.get("timestamp"))
    model = text(item.get("modelName")) or text(item.get("model"))
    return message(
        user=user,
        external_id=f"open-webui:{key}:{id}",
        role=role,
        author=model if role == "assistant" else "",
        sent_at=sent_at,
        text="\n".join((*_files(item), words(item))).strip(),
        session=f"open-webui:{key}",
        metadata={"conversation": text(inner.get("title")), **clock.mark()},
        line=line,
    )


def words(item: Fields) -> str:
    """Returns what was shown of a message, without what was folded away."""
    parts = [
        "".join(text(fields(part).get("text")) for part in items(each.get("content")))
        for each in map(fields, items(item.get("output")))
        if each.get("type") == "message"
    ]
    return "\n".join(part for part in parts if part.strip()).strip() or _unfolded(text_of(item.get("content")))


def _unfolded(content: str) -> str:
    """Returns the text without the blocks of reasoning and tools; the rest of a block that does not end is one."""
    for mark in _DETAILS:
        while (start := content.find(mark)) >= 0:
            end = content.find(_END_OF_DETAILS, start)
            content = content[:start] + (content[end + len(_END_OF_DETAILS) :] if end >= 0 else "")
    return content.strip()


def _files(item: Fields) -> list[str]:
    return [
        "[image]" if each.get("type") == "image" else f"[file: {_name(each)}]"
        for each in map(fields, items(item.get("files")))
    ]


def _name(file: Fields) -> str:
    inner = fields(file.get("file"))
    return text(file.get("name")) or text(inner.get("filename")) or text(file.get("url")) or text(file.get("type"))


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    place = prefix_of_items(outline)
    users = set(filter(None, map(text, document.items(f"{place}.user_id".lstrip(".")))))
    users = users if len(users) > 1 else set()
    values = partial(document.items, place)
    return Reader(lambda clock: read(values(), bool(users), clock), users=(lambda _clock: users) if users else None)


FORMAT = Format(
    "open-webui",
    "Open WebUI",
    (DocumentLayout(recognises, open_document, ("chat-export-*.json", "*chats-export-*.json")),),
)
