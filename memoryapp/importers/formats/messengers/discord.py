"""A channel of Discord as DiscordChatExporter writes it to JSON; a server or an account is a folder of such files.

The file does not say who exported it, so the user is the speaker with the name of the chat user; in a direct chat whose
name is one of two speakers, the other one; or the speaker whom a person names. Notices of Discord, such as "joined the
server", are messages of the role system. Polls are not in an export, so their messages are empty and left out."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import record as reasons
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import DocumentLayout, Format, Hints, ListedChat, Reader, found_speaker
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.values import BadRecord, Fields, fields, items, quote, text

# Notices of Discord, by the names and numbers of their kinds.
_NOTICES = {
    *("RecipientAdd", "RecipientRemove", "Call", "ChannelNameChange", "ChannelIconChange", "ChannelPinnedMessage"),
    *("GuildMemberJoin", "ThreadCreated"),
    *(str(number) for number in range(1, 19)),
}
_DIRECT = "Direct"


@dataclass(frozen=True, slots=True)
class DiscordChannel:
    """A channel; ``me`` is the id of the user, empty for none. One that is not ``wanted`` was not chosen."""

    id: str
    name: str
    guild: str
    type: str
    me: str = ""
    wanted: bool = True


def recognises(value: object) -> bool:
    return isinstance(value, dict) and {"guild", "channel", "messages"} <= value.keys()


def read(document: JsonDocument, channel: DiscordChannel, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of the channel, in the order of the file."""
    for index, item in enumerate(document.items("messages.item")):
        line = f"messages[{index}]"
        if not channel.wanted:
            yield LeftOut(line, str(reasons.OTHER_CHAT))
            continue
        try:
            if not isinstance(item, dict):
                raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
            record = _record(channel, item, line, clock)
        except BadRecord as error:
            yield Rejected(line, str(error))
            continue
        yield record if record.text else LeftOut(line, str(reasons.EMPTY))


def _record(channel: DiscordChannel, item: Fields, line: str, clock: Clock) -> MessageRecord:
    number = item.get("id")
    if not number:
        raise BadRecord(_("it has no id"))
    forwarded = fields(item.get("forwardedMessage"))
    is_notice = str(item.get("type") or "") in _NOTICES
    sent_at = clock.read(item.get("timestamp"))
    return message(
        external_id=f"discord:{channel.id}:{number}",
        role="system" if is_notice else _role(channel, item),
        author=name_of(item),
        sent_at=sent_at,
        text="\n".join(filter(None, (_text(item), _text(forwarded)))),
        session=f"discord:{channel.id}",
        reply_to=_reply(channel, fields(item.get("reference"))),
        forwarded_from=_("another channel") if forwarded else "",
        metadata={**_metadata(channel, item), **clock.mark()},
        line=line,
    )


def _role(channel: DiscordChannel, item: Fields) -> str:
    author = fields(item.get("author"))
    if channel.me and str(author.get("id") or "") == channel.me:
        return "user"
    return "assistant" if author.get("isBot") and channel.type.startswith(_DIRECT) else "peer"


def name_of(item: Fields) -> str:
    author = fields(item.get("author"))
    return text(author.get("nickname")) or text(author.get("name"))


def _reply(channel: DiscordChannel, reference: Fields) -> str:
    number = reference.get("messageId")
    is_reply = number and str(reference.get("type") or "Default") != "Forward"
    return f"discord:{reference.get('channelId') or channel.id}:{number}" if is_reply else ""


def _text(item: Fields) -> str:
    """Returns the words of a message, a mark for each file and sticker, and the texts of its embeds."""
    files = [
        f"[file: {fields(each).get('fileName') or fields(each).get('id')}]" for each in items(item.get("attachments"))
    ]
    stickers = [f"[sticker: {fields(each).get('name')}]" for each in items(item.get("stickers"))]
    embeds = [_embed(fields(each)) for each in items(item.get("embeds"))]
    return "\n".join(filter(None, (*files, *stickers, text(item.get("content")).strip(), *embeds))).strip()


def _embed(embed: Fields) -> str:
    """Returns the title, description and fields of an embed; a preview of a link repeats what the link is about."""
    named = [
        f"{text(fields(each).get('name'))}: {text(fields(each).get('value'))}" for each in items(embed.get("fields"))
    ]
    return "\n".join(filter(None, (text(embed.get("title")), text(embed.get("description")), *named)))


def _metadata(channel: DiscordChannel, item: Fields) -> dict[str, Any]:
    files = [
        {"name": text(fields(each).get("fileName")), "path": text(fields(each).get("url"))}
        for each in items(item.get("attachments"))
    ]
    found = {
        "channel": channel.name,
        "guild": channel.guild,
        "edited": item.get("timestampEdited"),
        "pinned": item.get("isPinned"),
        "attachments": files,
    }
    return {key: value for key, value in found.items() if value}


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    """Returns the reader of a channel. Raises UnknownSpeaker."""
    channel = fields(fields(outline).get("channel"))
    guild = text(fields(fields(outline).get("guild")).get("name"))
    kind, name = text(channel.get("type")), text(channel.get("name"))
    speakers: Counter[tuple[str, ...]] = Counter()
    count, last = 0, ""
    for item in document.items("messages.item"):
        count += 1
        if isinstance(item, dict) and str(item.get("type") or "") not in _NOTICES:
            author = fields(item.get("author"))
            speakers[name_of(item), text(author.get("name")), str(author.get("id") or "")] += 1
            last = max(last, text(item.get("timestamp")))
    key = str(channel.get("id") or name)
    wanted = hints.wants_chat(key, name)
    me = found_speaker(speakers, hints, name if kind.startswith(_DIRECT) else "") if wanted else ()
    found = DiscordChannel(key, name, guild, kind, me[-1] if me else "", wanted)
    listed = ListedChat(key, name, guild or kind, count, last)
    document.source.meter.passes = 2
    return Reader(partial(read, document, found), chats=(listed,))


FORMAT = Format(
    "discord",
    "Discord",
    (DocumentLayout(recognises, open_document, ("*[[][0-9]*[]].json", "*[[]part [0-9]*[]].json")),),
    asks_who=True,
)
