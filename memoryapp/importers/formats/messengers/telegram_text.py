"""The text of a Telegram message: its words, a mark for media, a sentence for an event of the chat.

Marks contain neither a path nor whether the file was exported, so a second export of the same chat has the same texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

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
    for field, describe in _MEDIA.items():
        if field in message:
            return f"[{describe(message)}]"
    return ""


_KINDS = {
    "sticker": "sticker",
    "video_message": "video message",
    "voice_message": "voice message",
    "animation": "animation",
    "video_file": "video",
    "audio_file": "audio",
}


def _file(message: Fields) -> str:
    kind = _KINDS.get(str(message.get("media_type")), "file")
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


def _contact(message: Fields) -> str:
    return _labelled("contact", _joined(message["contact_information"], "first_name", "last_name", "phone_number"))


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


def _in_its_unit(fields: Fields) -> Fields:
    """Returns the fields of a payment with its amount in the unit of its currency; Telegram counts the smallest one."""
    amount, currency = fields.get("amount"), fields.get("currency")
    if not (re.fullmatch(r"-?\d{1,18}", str(amount)) and isinstance(currency, str) and currency):
        return fields
    return {**fields, "amount": f"{Decimal(str(amount)).scaleb(-_DIGITS.get(currency.upper(), 2)):f}"}


_MEDIA: dict[str, Callable[[Fields], str]] = {
    "photo": lambda message: "photo",
    "media_type": _file,
    "file": _file,
    "contact_information": _contact,
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
