"""Telegram Desktop's ``result.json``: one chat, or a whole account with all of its chats.

Ids are unique within a chat, so the id of a message is ``telegram:<chat>:<id>``, and each chat is a session of its own.
The user is found as follows. The export of an account names its owner. In a private chat, the peer is the speaker with
the id of the chat, and the other speaker is the user. A group does not say it, so its user is the author with the name
of the chat user, or the one whom a person names.

The metadata of a message contain ``channel`` and ``channel_id`` of the chat, ``chat_type``, ``message_id`` within it,
``from_id``, ``links``, ``hashtags``, ``media_types``, ``lang`` of its text, ``edited`` in UTC, and every other field
under its name in the export (views, reactions, sizes). The author, the time, the message that it replies to and the
origin of a forwarded message are columns of its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.engine.prompts.language import language_of
from memoryapp.importers import reasons
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import DocumentLayout, Format, Hints, Reader
from memoryapp.importers.formats.messengers.telegram_chats import (
    SHARED,
    TelegramChat,
    listed,
    messages_of,
    scan,
    sender,
)
from memoryapp.importers.formats.messengers.telegram_text import (
    Fields,
    hashtags,
    links,
    media_types,
    name,
    plain,
    service_text,
    words,
    written,
)
from memoryapp.importers.record import BadRecord, Clock, LeftOut, MessageRecord, Rejected, message, moment, quote

_KINDS = ("message", "service", "unsupported")
_READ_FIELDS = {
    "id",
    "type",
    "date",
    "date_unixtime",
    "from",
    "from_id",
    "author",
    "actor",
    "actor_id",
    "text",
    "text_entities",
    "edited",
    "edited_unixtime",
}


def recognises(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    if any(isinstance(value.get(part), Mapping) and "list" in value[part] for part in ("chats", "left_chats")):
        return True
    messages = value.get("messages")
    if not isinstance(messages, list) or "user" in value or "participants" in value:
        return False
    return not messages and "type" in value or any(_is_message(item) for item in messages[:100])


def _is_message(item: object) -> bool:
    return isinstance(item, Mapping) and (item.get("type") in _KINDS or "date_unixtime" in item) and "role" not in item


def read(document: JsonDocument, chats: Sequence[TelegramChat], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of the chats that ``scan`` found in the document, in their order."""
    for part, of_part in groupby(chats, key=lambda chat: chat.part):
        items = document.items(messages_of(part))
        for chat in of_part:
            if not chat.is_read and chat.is_wanted:
                yield Rejected(chat.place or "$", _("the chat has no list of messages"))
            for index, item in enumerate(islice(items, chat.count)):
                if not chat.is_wanted:
                    yield LeftOut(f"{chat.place}.messages[{index}]", str(reasons.OTHER_CHAT))
                elif chat.is_read:
                    yield _message(chat, item, index, clock)


def _message(chat: TelegramChat, item: object, index: int, clock: Clock) -> MessageRecord | Rejected:
    line = f"{chat.place}.messages[{index}]".lstrip(".")
    try:
        if not isinstance(item, Mapping):
            raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
        if "id" in item:
            line = f"{line} (id {quote(item['id'])})"
        return _record(chat, item, line, clock)
    except BadRecord as error:
        return Rejected(line, str(error))


def _record(chat: TelegramChat, item: Fields, line: str, clock: Clock) -> MessageRecord:
    number, kind = item.get("id"), item.get("type", "message")
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadRecord(_("it has no id"))
    if kind == "unsupported":
        raise BadRecord(_("Telegram could not export it (type “unsupported”)"))
    if kind not in _KINDS:
        raise BadRecord(_("a message of the unknown type %(kind)s") % {"kind": quote(kind)})
    service = kind == "service"
    sent_at = clock.read(_time(item))
    text = service_text(item) if service else words(item)
    if not text.strip():
        rest = ", ".join(sorted(str(key) for key in item.keys() - _READ_FIELDS)[:6])
        raise BadRecord(_("it has no text that can be read (%(fields)s)") % {"fields": rest or _("it is empty")})
    return message(
        user="",
        external_id=f"telegram:{chat.id}:{number}",
        role="system" if service else _role(chat, item),
        author=_author(item, "actor" if service else "from"),
        sent_at=sent_at,
        text=text,
        session=f"telegram:{chat.id}",
        reply_to=_reply(chat, item),
        forwarded_from=name(item["forwarded_from"]) if "forwarded_from" in item else "",
        metadata={**_metadata(chat, item), **clock.mark()},
        line=line,
    )


def _role(chat: TelegramChat, item: Fields) -> str:
    if _is_own(chat, sender(item.get("from_id")), item.get("from")):
        return "user"
    return "assistant" if chat.type == "bot_chat" else "peer"


def _is_own(chat: TelegramChat, sender: str, author: object) -> bool:
    if chat.me:
        return chat.me in (sender.casefold(), author.casefold() if isinstance(author, str) else "")
    if chat.owner_id and sender:
        return sender == chat.owner_id
    if chat.type == "saved_messages":
        return True
    if chat.type in SHARED:
        return bool(chat.owner) and isinstance(author, str) and author.casefold() == chat.owner
    return sender != chat.peer_id if chat.peer_id else (author or "") != chat.name


def _author(item: Fields, field: str) -> str:
    signature = item.get("author")
    if isinstance(signature, str) and signature:
        return signature
    return name(item[field]) if field in item else ""


def _time(item: Fields) -> Any:
    """Returns the time in seconds; only without it ``date``, a local time of the exporting machine without a zone."""
    seconds = item.get("date_unixtime")
    if isinstance(seconds, str) and seconds.lstrip("-").isdecimal():
        seconds = int(seconds[:20])
    return seconds if isinstance(seconds, int | float) else item.get("date")


def _reply(chat: TelegramChat, item: Fields) -> str:
    number, peer = item.get("reply_to_message_id"), item.get("reply_to_peer_id")
    if not isinstance(number, int):
        return ""
    elsewhere = "".join(filter(str.isdecimal, peer)) if isinstance(peer, str) else ""
    return f"telegram:{elsewhere or chat.id}:{number}"


def _metadata(chat: TelegramChat, item: Fields) -> dict[str, Any]:
    text = written(item)
    own = {
        "channel": chat.name,
        "channel_id": chat.id,
        "chat_type": chat.type,
        "message_id": item["id"],
        "from_id": item.get("from_id"),
        "links": links(item),
        "hashtags": hashtags(item),
        "media_types": media_types(item),
        "lang": language_of(text) if any(map(str.isalpha, text)) else "",
        "edited": _edit_time(item),
    }
    rest = {key: value for key, value in item.items() if key not in _READ_FIELDS and key != "forwarded_from"}
    return {**rest, **{key: value for key, value in own.items() if value}}


def _edit_time(item: Fields) -> str:
    """Returns the time of the latest edit; the text of the export if that is not a time."""
    value = item.get("edited_unixtime") or item.get("edited")
    try:
        return moment(value).isoformat()
    except BadRecord:
        return plain(value)


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    """Returns the reader of the chats in a document. Raises UnknownSpeaker."""
    chats = scan(document, hints)
    document.source.meter.passes = max(1, len({chat.part for chat in chats}))
    return Reader(partial(read, document, chats), chats=listed(chats))


FORMAT = Format("telegram", "Telegram", (DocumentLayout(recognises, open_document, ("result.json",)),), asks_who=True)
