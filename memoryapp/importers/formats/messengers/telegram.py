"""Telegram Desktop's ``result.json``: one chat, or a whole account with all of its chats.

Ids are unique within a chat, so the id of a message is ``telegram:<chat>:<id>``, and each chat is a session of its own.
The user is found as follows. The export of an account names its owner. In a private chat, the peer is the speaker with
the id of the chat, and the other speaker is the user. A group does not say it, so its user is the author with the name
of the chat user, or the one whom a person names.

The metadata of a message contain ``channel`` and ``channel_id`` of the chat, ``chat_type``, ``message_id`` within it,
``from_id``, ``links``, ``hashtags``, ``media_types``, ``lang`` of its text, ``edited`` in UTC, and every other field
under its name in the export (views, reactions, sizes). The author, the time, the message that it replies to and the
origin of a forwarded message are columns of its row."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import groupby, islice
from pathlib import PurePosixPath
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.engine.prompts.prompt import language_of
from memoryapp.importers import record
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import NOBODY, DocumentLayout, Format, Hints, ListedChat, Reader
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, UnknownSpeaker, message
from memoryapp.importers.values import BadRecord, moment, quote

# The chats of a Telegram export: their names, their speakers, and the places of their messages.
#
# The document is scanned once before its messages are read, because a message alone does not show whose chat it
# belongs to or who else speaks there.

# The parts of a document that contain chats, with the place of one chat; the document itself may be a single chat.
PARTS = {"": "", "chats": "chats.list.item", "left_chats": "left_chats.list.item"}
GROUPS = {"private_group", "private_supergroup", "public_supergroup"}
SHARED = {*GROUPS, "private_channel", "public_channel"}

_BEGINS = {"start_map", "start_array", "string", "number", "boolean", "null"}


@dataclass(slots=True)
class TelegramChat:
    """A chat's place in the file, and what distinguishes the user from the other speakers.

    ``part`` contains ``count`` messages of the chat, after those of earlier chats. ``owner_id`` is the account's
    ``user123``, if the export names it; ``peer_id`` is the id of the other speaker in a private chat, if messages have
    it; ``owner`` is the name of the chat user; ``me`` is the speaker whom a person named, by name or id. ``speakers``
    counts messages by id (or name) and name; ``last`` is the time of the latest one. A chat that is not ``wanted`` was
    not chosen."""

    part: str
    place: str
    id: str = ""
    name: str = ""
    type: str = ""
    owner_id: str = ""
    peer_id: str = ""
    owner: str = ""
    me: str = ""
    count: int = 0
    is_read: bool = False
    is_wanted: bool = True
    last: str = ""
    speakers: Counter[tuple[str, str]] = field(default_factory=Counter)


def messages_of(part: str) -> str:
    """Returns the place, in ijson's notation, of the messages of the chats of a part."""
    return f"{PARTS[part]}.messages.item".lstrip(".")


def sender(value: object) -> str:
    """Returns the id of a sender, as ``user123``; exports before 2021 contain only the number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"user{value}"
    return value if isinstance(value, str) else ""


def scan(document: JsonDocument, hints: Hints) -> list[TelegramChat]:
    """Returns the chats of the document, part by part. Raises UnknownSpeaker when a person must say who the user is."""
    found = _Scan()
    for prefix, event, value in document.places():
        if place := _PLACES.get(prefix):
            found.see(*place, event, value)
    chats = [chat for part in PARTS for chat in found.chats[part] if part or found.is_chat]
    for chat in chats:
        chat.owner_id, chat.owner, chat.me = found.owner_id, hints.owner.casefold(), hints.me.casefold()
        chat.is_wanted = hints.wants_chat(chat.id, chat.name)
        ids = {id for id, _name in chat.speakers}
        chat.peer_id = chat.peer_id if chat.peer_id in ids else ""
    _check_speakers([chat for chat in chats if chat.is_wanted])
    return chats


# The part of a document and the field of its chats that stand at a place, in ijson's notation.
_FIELDS = ("name", "type", "id", "messages", "messages.item")
_OF_MESSAGES = ("messages.item.from", "messages.item.from_id", "messages.item.date")
_PLACES = {
    "personal_information.user_id": ("", "owner"),
    **{place: (part, "") for part, place in PARTS.items() if place},
    **{f"{at}.{field}".lstrip("."): (part, field) for part, at in PARTS.items() for field in (*_FIELDS, *_OF_MESSAGES)},
}


class _Scan:
    """Collects the chats of each part from the events of a document."""

    def __init__(self) -> None:
        self.owner_id = ""
        self.is_chat = False
        self.chats: dict[str, list[TelegramChat]] = {part: [] for part in PARTS}
        self._message: dict[str, str] = {}

    def see(self, part: str, field: str, event: str, value: Any) -> None:
        """Takes an event at a ``field`` of the current chat of a part; at no field another chat begins."""
        text = value if event == "string" else ""
        match field:
            case "owner":
                self.owner_id = sender(value)
            case "":
                if event in _BEGINS:
                    self.chats[part].append(TelegramChat(part, f"{part}.list[{len(self.chats[part])}]"))
            case "messages.item.from":
                self._message |= {"from": text} if text else {}
            case "messages.item.from_id":
                self._message["from_id"] = sender(value)
            case _:
                self._see(self._chat(part), field, event, value, text)

    def _see(self, chat: TelegramChat, field: str, event: str, value: Any, text: str) -> None:
        match field:
            case "name" if event == "string":
                chat.name, chat.id = text, chat.id or text
            case "type":
                chat.type = text
            case "id":
                chat.id, chat.peer_id = str(value), sender(value)
            case "messages":
                self.is_chat = self.is_chat or not chat.part
                chat.is_read = chat.is_read or event == "start_array"
            case "messages.item":
                self._end_message(chat, event)
            case "messages.item.date":
                chat.last = max(chat.last, text[:19])

    def _end_message(self, chat: TelegramChat, event: str) -> None:
        chat.count += event in _BEGINS
        if event == "end_map" and self._message:
            name = self._message.get("from", "")
            chat.speakers[self._message.get("from_id") or name, name] += 1
        if event != "map_key":
            self._message = {}

    def _chat(self, part: str) -> TelegramChat:
        """Returns the current chat. A document that is one chat has no event at its beginning, so it is made here."""
        if not self.chats[part]:
            self.chats[part].append(TelegramChat(part, ""))
        return self.chats[part][-1]


def _check_speakers(chats: Sequence[TelegramChat]) -> None:
    """Raises UnknownSpeaker when a group does not say which member is the user, or ``me`` speaks in no chat."""
    claimed = [chat for chat in chats if chat.me and chat.me != NOBODY]
    if claimed and not any(_speaks(chat, chat.me) for chat in claimed):
        raise _unknown(_("Nobody in this file is “%(name)s”."), claimed, claimed[0].me)
    groups = [chat for chat in chats if chat.type in GROUPS and not chat.owner_id and chat.speakers]
    silent = [chat for chat in groups if not chat.me and not _speaks(chat, chat.owner)]
    if silent:
        raise _unknown(_("The group “%(name)s” does not say which of its members the user is."), silent, silent[0].name)


def _speaks(chat: TelegramChat, name: str) -> bool:
    return bool(name) and any(name in (id.casefold(), shown.casefold()) for id, shown in chat.speakers)


def _unknown(sentence: str, chats: Sequence[TelegramChat], name: str) -> UnknownSpeaker:
    counted = sum((chat.speakers for chat in chats), Counter[tuple[str, str]]())
    return UnknownSpeaker(sentence % {"name": name}, [shown or id for (id, shown), _count in counted.most_common()])


# The text of a Telegram message: its words, a mark for media, a sentence for an event of the chat.
#
# Marks contain neither a path nor whether the file was exported, so a second export of the same chat has the same
# texts.

Fields = Mapping[str, Any]

DELETED = "Deleted account"


def words(message: Fields) -> str:
    """Returns the text of a message, after a mark in brackets for its media."""
    text = written(message)
    listed = "\n".join(line for field in _LISTS if field in message for line in _lines(message[field]))
    found = "\n".join(filter(None, (" ".join(filter(None, (_mark(message), text))), listed)))
    return found or "\n".join(line for field, value in message.items() if field not in _PLAIN for line in _lines(value))


# Contents of newer kinds of messages, which are trees of blocks and items with texts.
_LISTS = ("rich_message", "todo_list", "checklist")
# Fields of every message, whose texts are not what somebody wrote.
_PLAIN = {"text", "text_entities", "reactions", "inline_bot_buttons", "forwarded_from", "from", "author", "actor"}
_TEXTS = ("title", "question", "heading", "caption", "description", "text", "solution", "body", "content", "code")
_DONE = ("checked", "completed", "is_completed", "done")
_MOST_LEVELS = 20


def _lines(value: object, level: int = 0) -> Iterator[str]:
    """Yields the texts in a tree of blocks, one a line; items that can be done begin with their mark."""
    if level > _MOST_LEVELS:
        return
    if isinstance(value, list):
        for item in value:
            yield from [item] if isinstance(item, str) else _lines(item, level + 1)
    if not isinstance(value, Mapping):
        return
    mark = next(("[x] " if value[name] else "[ ] " for name in _DONE if name in value), "")
    for name in _TEXTS:
        if text := plain(value.get(name)).strip():
            yield mark + text
    for name, inner in value.items():
        is_text = name in _TEXTS and plain(inner).strip()
        if isinstance(inner, list | Mapping) and not is_text:
            yield from _lines(inner, level + 1)


def written(message: Fields) -> str:
    """Returns what somebody wrote; some programs have an ellipsis in place of the list of entities."""
    entities = message.get("text_entities")
    return plain(entities if isinstance(entities, list) else "") or plain(message.get("text"))


def plain(text: object) -> str:
    """Returns the plain text of a string, of a ``{"type", "text"}`` part, or of a list of both."""
    if isinstance(text, str):
        return text
    if isinstance(text, Mapping):
        return text["text"] if isinstance(text.get("text"), str) else ""
    if not isinstance(text, list):
        return ""
    parts = (part.get("text", "") if isinstance(part, Mapping) else part for part in text)
    return "".join(part for part in parts if isinstance(part, str))


def links(message: Fields) -> list[str]:
    """Returns the addresses in the text, and the hidden addresses of links; each once."""
    found = (part.get("href") if part.get("href") else _of(part, "link") for part in _entities(message))
    return list(dict.fromkeys(each for each in found if isinstance(each, str) and each))


def hashtags(message: Fields) -> list[str]:
    """Returns the hashtags with their ``#``; each once."""
    found = (_of(part, "hashtag") for part in _entities(message))
    return list(dict.fromkeys(each for each in found if each))


def media_types(message: Fields) -> list[str]:
    """Returns the kinds of media in a message, such as photo, voice message, file or poll; each once."""
    marks = (describe(message) for field, describe in _MEDIA.items() if field in message)
    return list(dict.fromkeys(mark.partition(":")[0] for mark in marks))


def _entities(message: Fields) -> list[Fields]:
    """Returns the entities of the text; older exports have them in the text itself."""
    for name in ("text_entities", "text"):
        parts = message.get(name)
        if isinstance(parts, list):
            return [part for part in parts if isinstance(part, Mapping)]
    return []


def _of(entity: Fields, kind: str) -> str:
    return plain(entity.get("text")) if entity.get("type") == kind else ""


def name(value: object) -> str:
    """Returns a person's name; null means a deleted account."""
    if value is None:
        return DELETED
    return value if isinstance(value, str) else ""


def _mark(message: Fields) -> str:
    for part, describe in _MEDIA.items():
        if part in message:
            return f"[{describe(message)}]"
    return ""


_KINDS_OF_MEDIA = {
    "sticker": "sticker",
    "video_message": "video message",
    "voice_message": "voice message",
    "animation": "animation",
    "video_file": "video",
    "audio_file": "audio",
}


def _file(message: Fields) -> str:
    kind = _KINDS_OF_MEDIA.get(str(message.get("media_type")), "file")
    return _labelled(kind, _detail(message, kind))


def _detail(message: Fields, kind: str) -> str:
    if kind == "sticker":
        return plain(message.get("sticker_emoji"))
    if kind == "audio":
        return " – ".join(filter(None, (plain(message.get("performer")), plain(message.get("title")))))
    if kind == "file":
        path = plain(message.get("file"))
        return plain(message.get("file_name")) or ("" if path.startswith("(") else PurePosixPath(path).name)
    return ""


def _location(message: Fields) -> str:
    place = _joined(message, "place_name", "address", between=", ")
    return _labelled(
        "location", place or _joined(message["location_information"], "latitude", "longitude", between=", ")
    )


def _poll(message: Fields) -> str:
    poll = message["poll"] if isinstance(message["poll"], Mapping) else {}
    listed = poll.get("answers")
    answers = [plain(answer.get("text")) for answer in listed or () if isinstance(answer, Mapping)]
    return _labelled("poll", " / ".join(filter(None, (plain(poll.get("question")), *answers))))


def _invoice(message: Fields) -> str:
    # The exporter writes only this object as a text with JSON.
    invoice = message["invoice_information"]
    if isinstance(invoice, str):
        try:
            invoice = json.loads(invoice)
        except ValueError:
            invoice = {}
    return _labelled(
        "invoice", _joined(_in_its_unit(invoice) if isinstance(invoice, Mapping) else {}, "title", "amount", "currency")
    )


# Currencies whose smallest unit is no hundredth, by ISO 4217 and Telegram's currencies.json; XTR are its stars.
_DIGITS = {
    **dict.fromkeys(("XTR", "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW"), 0),
    **dict.fromkeys(("PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}


_WHOLE = re.compile(r"-?\d{1,18}")


def _in_its_unit(fields: Fields) -> Fields:
    """Returns the fields of a payment with its amount in the unit of its currency; Telegram counts the smallest one."""
    amount, currency = fields.get("amount"), fields.get("currency")
    if not (_WHOLE.fullmatch(str(amount)) and isinstance(currency, str) and currency):
        return fields
    return {**fields, "amount": f"{Decimal(str(amount)).scaleb(-_DIGITS.get(currency.upper(), 2)):f}"}


_MEDIA: dict[str, Callable[[Fields], str]] = {
    "photo": lambda message: "photo",
    "media_type": _file,
    "file": _file,
    "contact_information": lambda message: _labelled(
        "contact", _joined(message["contact_information"], "first_name", "last_name", "phone_number")
    ),
    "location_information": _location,
    "poll": _poll,
    "game_title": lambda message: _labelled("game", plain(message["game_title"])),
    "invoice_information": _invoice,
}


def _labelled(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def _joined(fields: object, *names: str, between: str = " ") -> str:
    if not isinstance(fields, Mapping):
        return ""
    return between.join(str(fields[name]) for name in names if fields.get(name) not in (None, ""))


_ACTION_TEXTS = ("title", "new_title", "gift_text")
_OF_ACTION = _PLAIN.union(_ACTION_TEXTS)
_SERVICE_TEXTS = {
    "create_group": "created the group “{title}” with {members}",
    "create_channel": "created the channel “{title}”",
    "edit_group_title": "renamed the group to “{title}”",
    "edit_group_photo": "changed the group's photo",
    "delete_group_photo": "removed the group's photo",
    "invite_members": "invited {members}",
    "remove_members": "removed {members}",
    "join_group_by_link": "joined the group by a link",
    "join_group_by_request": "joined the group on request",
    "migrate_to_supergroup": "made the group a supergroup",
    "migrate_from_group": "made the group “{title}” a supergroup",
    "pin_message": "pinned a message",
    "clear_history": "cleared the history",
    "take_screenshot": "took a screenshot",
    "joined_telegram": "joined Telegram",
    "topic_created": "created the topic “{title}”",
    "send_payment": "paid {payment}",
    "set_messages_ttl": "set messages to vanish after {period} s",
}


def service_text(message: Fields) -> str:
    """Returns a service message as a sentence: who did what."""
    action = message.get("action")
    information = plain(message.get("information_text"))
    if not isinstance(action, str):
        return information or "(service message)"
    actor = name(message["actor"]) if "actor" in message else ""
    return " ".join(filter(None, (actor, _action_text(action, message), information)))


def _action_text(action: str, message: Fields) -> str:
    if action == "phone_call":
        return _call(message)
    form = _SERVICE_TEXTS.get(action)
    if form is None:
        named = (plain(message.get(name)) for name in _ACTION_TEXTS)
        others = (line for field, value in message.items() if field not in _OF_ACTION for line in _lines(value))
        return _labelled(action.replace("_", " "), " ".join(filter(None, (*named, *others))))
    return form.format(
        title=plain(message.get("title")),
        members=_members(message),
        period=message.get("period", "?"),
        payment=_joined(_in_its_unit(message), "amount", "currency"),
    ).strip()


def _members(message: Fields) -> str:
    members = message.get("members")
    return ", ".join(name(member) for member in members) if isinstance(members, list) else "nobody"


def _call(message: Fields) -> str:
    seconds, end = message.get("duration_seconds"), plain(message.get("discard_reason"))
    detail = ", ".join(filter(None, (f"{seconds} s" if seconds else "", end)))
    return f"called ({detail})" if detail else "called"


_KINDS = ("message", "service", "unsupported")
_READ_FIELDS = {
    *("id", "type", "date", "date_unixtime", "from", "from_id", "author", "actor", "actor_id", "text"),
    *("text_entities", "edited", "edited_unixtime"),
}


def recognises(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    if any(isinstance(value.get(part), Mapping) and "list" in value[part] for part in ("chats", "left_chats")):
        return True
    messages = value.get("messages")
    if not isinstance(messages, list) or "user" in value or "participants" in value:
        return False
    return (
        not messages
        and "type" in value
        or any(
            isinstance(item, Mapping) and (item.get("type") in _KINDS or "date_unixtime" in item) and "role" not in item
            for item in messages[:100]
        )
    )


def read(document: JsonDocument, chats: Sequence[TelegramChat], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of the chats that ``scan`` found in the document, in their order."""
    for part, of_part in groupby(chats, key=lambda chat: chat.part):
        items = document.items(messages_of(part))
        for chat in of_part:
            if not chat.is_read and chat.is_wanted:
                yield Rejected(chat.place or "$", _("the chat has no list of messages"))
            for index, item in enumerate(islice(items, chat.count)):
                if not chat.is_wanted:
                    yield LeftOut(f"{chat.place}.messages[{index}]", str(record.OTHER_CHAT))
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
    listed = [ListedChat(chat.id, chat.name, chat.type, chat.count, chat.last) for chat in chats]
    return Reader(partial(read, document, chats), chats=listed)


FORMAT = Format("telegram", "Telegram", (DocumentLayout(recognises, open_document, ("result.json",)),), asks_who=True)
