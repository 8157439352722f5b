"""The chats of a Telegram export: their names, their speakers, and the places of their messages.

The document is scanned once before its messages are read, because a message alone does not show whose chat it belongs
to or who else speaks there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import NOBODY, Hints, ListedChat
from memoryapp.importers.record import UnknownSpeaker

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
    not chosen.
    """

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
        step = found.steps.get(prefix)
        if step:
            step(event, value)
    chats = found.all_chats()
    for chat in chats:
        chat.owner_id, chat.owner, chat.me = found.owner_id, hints.owner.casefold(), hints.me.casefold()
        chat.is_wanted = hints.wants_chat(chat.id, chat.name)
        ids = {id for id, _name in chat.speakers}
        chat.peer_id = chat.peer_id if chat.peer_id in ids else ""
    _check_speakers([chat for chat in chats if chat.is_wanted])
    return chats


def listed(chats: Sequence[TelegramChat]) -> list[ListedChat]:
    """Returns what a person chooses from; an archive may have several documents with one chat each."""
    return [ListedChat(chat.id, chat.name, chat.type, chat.count, chat.last) for chat in chats]


class _Scan:
    """Collects chats from the events of a document; ``steps`` maps each relevant place to a function."""

    def __init__(self) -> None:
        self.owner_id = ""
        self.is_chat = False
        self.chats: dict[str, list[TelegramChat]] = {part: [] for part in PARTS}
        self.steps: dict[str, Callable[[str, Any], None]] = {"personal_information.user_id": self._account}
        self._message: dict[str, str] = {}
        for part, place in PARTS.items():
            self._follow(part, f"{place}.".lstrip("."))
            if place:
                self.steps[place] = partial(self._begin, part)

    def _follow(self, part: str, base: str) -> None:
        steps = {
            "name": self._name,
            "type": self._type,
            "id": self._id,
            "messages": self._list,
            "messages.item": self._item,
            "messages.item.from": self._from,
            "messages.item.from_id": self._from_id,
            "messages.item.date": self._date,
        }
        self.steps |= {f"{base}{place}": partial(step, part) for place, step in steps.items()}

    def all_chats(self) -> list[TelegramChat]:
        return [chat for part in PARTS for chat in self.chats[part] if part or self.is_chat]

    def _account(self, event: str, value: Any) -> None:
        self.owner_id = sender(value)

    def _begin(self, part: str, event: str, value: Any) -> None:
        if event in _BEGINS:
            self.chats[part].append(TelegramChat(part, f"{part}.list[{len(self.chats[part])}]"))

    def _chat(self, part: str) -> TelegramChat:
        """Returns the current chat. A document that is one chat has no event at its beginning, so it is made here."""
        if not self.chats[part]:
            self.chats[part].append(TelegramChat(part, ""))
        return self.chats[part][-1]

    def _name(self, part: str, event: str, value: Any) -> None:
        if event == "string":
            chat = self._chat(part)
            chat.name, chat.id = value, chat.id or value

    def _type(self, part: str, event: str, value: Any) -> None:
        self._chat(part).type = value if event == "string" else ""

    def _id(self, part: str, event: str, value: Any) -> None:
        chat = self._chat(part)
        chat.id, chat.peer_id = str(value), sender(value)

    def _list(self, part: str, event: str, value: Any) -> None:
        self.is_chat = self.is_chat or not part
        if event == "start_array":
            self._chat(part).is_read = True

    def _item(self, part: str, event: str, value: Any) -> None:
        chat = self._chat(part)
        chat.count += event in _BEGINS
        if event == "end_map" and self._message:
            name = self._message.get("from", "")
            chat.speakers[self._message.get("from_id") or name, name] += 1
        if event != "map_key":
            self._message = {}

    def _from(self, part: str, event: str, value: Any) -> None:
        if event == "string":
            self._message["from"] = value

    def _date(self, part: str, event: str, value: Any) -> None:
        if event == "string":
            chat = self._chat(part)
            chat.last = max(chat.last, value[:19])

    def _from_id(self, part: str, event: str, value: Any) -> None:
        self._message["from_id"] = sender(value)


def _check_speakers(chats: Sequence[TelegramChat]) -> None:
    """Raises UnknownSpeaker when a group does not say which member is the user, or ``me`` speaks in no chat."""
    claimed = [chat for chat in chats if chat.me and chat.me != NOBODY]
    if claimed and not any(_speaks(chat, chat.me) for chat in claimed):
        raise _unknown(_("Nobody in this file is “%(name)s”."), claimed, claimed[0].me)
    silent = [chat for chat in chats if _is_group(chat) and not chat.me and not _speaks(chat, chat.owner)]
    if silent:
        raise _unknown(_("The group “%(name)s” does not say which of its members the user is."), silent, silent[0].name)


def _is_group(chat: TelegramChat) -> bool:
    return chat.type in GROUPS and not chat.owner_id and bool(chat.speakers)


def _speaks(chat: TelegramChat, name: str) -> bool:
    return bool(name) and any(name in (id.casefold(), shown.casefold()) for id, shown in chat.speakers)


def _unknown(sentence: str, chats: Sequence[TelegramChat], name: str) -> UnknownSpeaker:
    counted = sum((chat.speakers for chat in chats), Counter[tuple[str, str]]())
    return UnknownSpeaker(sentence % {"name": name}, [shown or id for (id, shown), _count in counted.most_common()])
