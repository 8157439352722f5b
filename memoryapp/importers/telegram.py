"""Telegram Desktop's ``result.json``: one chat, or a whole account with all of its chats.

Ids count within a chat, so a message is ``telegram:<chat>:<id>``, and each chat is a session of its own.
Whose memory it is: an account export names its owner; in a private chat the peer is the one whose id is
the chat's, and whoever else speaks is the user; a group tells nothing, so only an author with the
user's own name is the user, and everybody else a peer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers.record import BadRecord, MessageRecord, Rejected, message, moment, shown
from memoryapp.importers.telegram_text import Fields, happened, links, name, words

_SHARED = {"private_group", "private_supergroup", "public_supergroup", "private_channel", "public_channel"}
_KINDS = ("message", "service", "unsupported")
_TOLD = {
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
}


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat's place in the file and what tells the user from the others.

    ``owner_id`` is the account's ``user123`` where the export names it, ``peer_id`` the other one's in a
    private chat where messages bear it, ``owner`` the name under which the user imports.
    """

    place: str
    id: str
    name: str
    type: str
    owner_id: str
    peer_id: str
    owner: str


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


def read(value: Mapping[str, Any], owner: str = "") -> Iterator[MessageRecord | Rejected]:
    """The messages of every chat in the file, each chat in its order."""
    account = value.get("personal_information")
    owner_id = _sender(account.get("user_id")) if isinstance(account, Mapping) else ""
    for place, fields in _chats(value):
        if not isinstance(fields, Mapping) or not isinstance(fields.get("messages"), list):
            yield Rejected(place or "$", _("the chat has no list of messages"))
            continue
        chat = _chat(place, fields, owner_id, owner)
        for index, item in enumerate(fields["messages"]):
            yield _message(chat, item, index)


def _chats(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "messages" in value:
        yield "", value
    for part in ("chats", "left_chats"):
        listed = value.get(part)
        chats = listed.get("list") if isinstance(listed, Mapping) else None
        for index, chat in enumerate(chats if isinstance(chats, list) else ()):
            yield f"{part}.list[{index}]", chat


def _chat(place: str, fields: Fields, owner_id: str, owner: str) -> Chat:
    peer_id = _sender(fields.get("id"))
    senders = {_sender(item.get("from_id")) for item in fields["messages"] if isinstance(item, Mapping)}
    return Chat(
        place=f"{place}." if place else "",
        id=str(fields.get("id", fields.get("name") or "")),
        name=fields["name"] if isinstance(fields.get("name"), str) else "",
        type=str(fields.get("type")),
        owner_id=owner_id,
        peer_id=peer_id if peer_id in senders else "",
        owner=owner.casefold(),
    )


def _sender(value: object) -> str:
    """``user123``; exports before 2021 hold the bare number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"user{value}"
    return value if isinstance(value, str) else ""


def _message(chat: Chat, item: object, index: int) -> MessageRecord | Rejected:
    line = f"{chat.place}messages[{index}]"
    try:
        if not isinstance(item, Mapping):
            raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": shown(item)})
        if "id" in item:
            line = f"{line} (id {shown(item['id'])})"
        return _record(chat, item, line)
    except BadRecord as error:
        return Rejected(line, str(error))


def _record(chat: Chat, item: Fields, line: str) -> MessageRecord:
    number, kind = item.get("id"), item.get("type", "message")
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadRecord(_("it has no id"))
    if kind == "unsupported":
        raise BadRecord(_("Telegram could not export it (type “unsupported”)"))
    if kind not in _KINDS:
        raise BadRecord(_("a message of the unknown type %(kind)s") % {"kind": shown(kind)})
    service = kind == "service"
    return message(
        user="",
        external_id=f"telegram:{chat.id}:{number}",
        role="system" if service else _role(chat, item),
        author=_author(item, "actor" if service else "from"),
        sent_at=_time(item),
        text=happened(item) if service else words(item),
        session=f"telegram:{chat.id}",
        reply_to=_reply(chat, item),
        forwarded_from=name(item["forwarded_from"]) if "forwarded_from" in item else "",
        metadata=_metadata(chat, item),
        line=line,
    )


def _role(chat: Chat, item: Fields) -> str:
    if _is_own(chat, _sender(item.get("from_id")), item.get("from")):
        return "user"
    return "assistant" if chat.type == "bot_chat" else "peer"


def _is_own(chat: Chat, sender: str, author: object) -> bool:
    if chat.owner_id and sender:
        return sender == chat.owner_id
    if chat.type == "saved_messages":
        return True
    if chat.type in _SHARED:
        return bool(chat.owner) and isinstance(author, str) and author.casefold() == chat.owner
    return sender != chat.peer_id if chat.peer_id else (author or "") != chat.name


def _author(item: Fields, field: str) -> str:
    signature = item.get("author")
    if isinstance(signature, str) and signature:
        return signature
    return name(item[field]) if field in item else ""


def _time(item: Fields) -> Any:
    """``date`` is local time of the exporting machine, without a zone: only used where nothing else is."""
    seconds = item.get("date_unixtime")
    if isinstance(seconds, str) and seconds.lstrip("-").isdecimal():
        seconds = int(seconds[:20])
    return moment(seconds if isinstance(seconds, int | float) else item.get("date"))


def _reply(chat: Chat, item: Fields) -> str:
    number, peer = item.get("reply_to_message_id"), item.get("reply_to_peer_id")
    if not isinstance(number, int):
        return ""
    elsewhere = "".join(filter(str.isdecimal, peer)) if isinstance(peer, str) else ""
    return f"telegram:{elsewhere or chat.id}:{number}"


def _metadata(chat: Chat, item: Fields) -> dict[str, Any]:
    told = {"chat": chat.name, "chat_type": chat.type, "from_id": item.get("from_id"), "links": links(item)}
    kept = {key: value for key, value in item.items() if key not in _TOLD and key != "forwarded_from"}
    return {**kept, **{key: value for key, value in told.items() if value}}
