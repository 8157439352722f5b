"""JSON Lines in the program's own format: one conversation a line.

``{"user": "anna", "messages": [{"id", "session"?, "role", "author", "ts", "text", "reply_to"?, "forwarded_from"?,
"attachments"?}]}``; a line may also be a single message with its ``user``. Unknown fields are kept: those of a message
in its metadata, those of a conversation in the metadata of its first message."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document as lines
from memoryapp.importers.document import JsonDocument, prefix_of_items
from memoryapp.importers.format import DocumentLayout, Format, Hints, LinesLayout, Reader
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, fields, items, quote, words

_FIELDS = {"id", "session", "role", "author", "ts", "text", "reply_to", "forwarded_from"}
# The field ``user``; its name may also be written with escapes.
_NAMES = re.compile(rb'"user"\s*:')
# The fields by which a message of this format is known, and those of a conversation.
_NAMING = {"id", "role", "text", "ts"}
_AROUND = {"user", "participants"}
_SAYING = {"text", "ts", "attachments"}
_LOOKED_AT = 20
# The field of lines in an export of a whole memory that are not messages.
EXPORT_MARK = "mnemoscope"


def recognises(value: object) -> bool:
    """Whether a parsed line is a conversation or a message of this format. Other programs have lists of messages, too;
    two fields that ours have must be among the first ones."""
    if not isinstance(value, dict):
        return False
    messages = value.get("messages")
    if not isinstance(messages, list):
        return is_row(value) or ({"id", "role"} <= value.keys() and not value.keys().isdisjoint(_SAYING))
    is_ours = any(isinstance(item, dict) and len(item.keys() & _NAMING) >= 2 for item in messages[:_LOOKED_AT])
    return is_ours or not value.keys().isdisjoint(_AROUND)


def is_row(value: object) -> bool:
    """Whether the value is a line of an exported memory that is not a message."""
    return isinstance(value, dict) and EXPORT_MARK in value


def users(source: SourceFile) -> set[str]:
    """Returns the users that the lines name, also in lines that will be rejected. Lines without one are not parsed."""
    found = set()
    for number, line in lines.numbered(source):
        value = lines.value(number, line) if _NAMES.search(line) or b"\\u00" in line else None
        if isinstance(value, dict):
            found.add(str(value.get("user") or "").strip())
    return found


def read(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    for number, value in lines.values(source):
        if isinstance(value, Rejected):
            yield value
        elif is_row(value):
            yield LeftOut(number, _("it is no message but a row of the exported memory"))
        else:
            yield from conversation(value, number, clock)


def read_document(document: JsonDocument, prefix: str, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of conversations that are the items at ``prefix`` (in ijson's notation) of one document."""
    for index, value in enumerate(document.items(prefix)):
        yield from conversation(value, f"[{index}]", clock)


def read_conversation(document: JsonDocument, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of a document that is one conversation; one message is in memory at a time."""
    try:
        user, _messages, rest = _fields_of({**document.without("messages"), "messages": []})
    except BadRecord as error:
        yield Rejected("[0]", str(error))
        return
    for number, item in enumerate(document.items("messages.item"), start=1):
        extra = {"conversation": rest} if rest and number == 1 else {}
        yield _message(item, user, f"[0], message {number}", extra, clock)


def conversation(value: object, place: int | str, clock: Clock | None = None) -> Iterable[MessageRecord | Rejected]:
    """Returns the messages of one conversation; ``place`` is its line number, or its path in a document."""
    clock = clock or Clock()
    if is_row(value):
        return ()
    try:
        user, messages, rest = _fields_of(value)
    except BadRecord as error:
        return (Rejected(place, str(error)),)
    if messages is None:
        return (_message(rest, user, place, {}, clock),)
    return _messages(messages, user, place, rest, clock)


def _messages(
    messages: Sequence[Any], user: str, place: int | str, rest: dict[str, Any], clock: Clock
) -> Iterator[MessageRecord | Rejected]:
    where = f"line {place}" if isinstance(place, int) else place
    clock.begin(item.get("ts") if isinstance(item, dict) else None for item in messages)
    for number, item in enumerate(messages, start=1):
        extra = {"conversation": rest} if rest and number == 1 else {}
        yield _message(item, user, f"{where}, message {number}", extra, clock)
    clock.pause()


def _fields_of(value: object) -> tuple[str, list[Any] | None, dict[str, Any]]:
    """Returns the user, the messages (None if the line is a message itself) and the other fields of a line."""
    if not isinstance(value, dict):
        raise BadRecord(_("a conversation must be a JSON object, not %(value)s") % {"value": quote(value)})
    rest = dict(value)
    user = words(rest.pop("user", ""), "user").strip()
    if "messages" not in rest and recognises(value):
        return user, None, rest
    messages = rest.pop("messages", None)
    if not isinstance(messages, list):
        raise BadRecord(_("it has no list of messages"))
    return user, messages, rest


def _message(item: object, user: str, line: int | str, extra: dict[str, Any], clock: Clock) -> MessageRecord | Rejected:
    try:
        return _checked(item, user, line, extra, clock)
    except BadRecord as error:
        return Rejected(line, str(error), user)


def _checked(item: object, user: str, line: int | str, extra: dict[str, Any], clock: Clock) -> MessageRecord:
    if not isinstance(item, dict):
        raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": quote(item)})
    text = item.get("text")
    if text is None or text == "":
        attached = map(fields, items(item.get("attachments")))
        files = "\n".join(f"[file: {each.get('name') or each.get('mime') or _('a file')}]" for each in attached)
        if text is None and not files:
            raise BadRecord(_("it has no text"))
        text = files
    sent_at = clock.read(item.get("ts"))
    return message(
        user=user,
        external_id=item.get("id"),
        role=item.get("role"),
        author=item.get("author"),
        sent_at=sent_at,
        text=text,
        session=item.get("session"),
        reply_to=item.get("reply_to"),
        forwarded_from=item.get("forwarded_from"),
        metadata={key: value for key, value in item.items() if key not in _FIELDS} | extra | clock.mark(),
        line=line,
        project=item.get("project") if isinstance(item.get("project"), str) else "",
    )


def open_lines(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read, source), users=lambda _clock: users(source))


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    """Returns the reader of a document that is one conversation, one message, or a list of such."""
    if isinstance(outline, dict) and "messages" in outline:
        records = partial(read_conversation, document)
    else:
        records = partial(read_document, document, prefix_of_items(outline))
    return Reader(records, lambda clock: {item.user for item in records(clock) if isinstance(item, MessageRecord)})


def _is_document(outline: object) -> bool:
    return any(recognises(item) for item in (outline if isinstance(outline, list) else [outline]))


FORMAT = Format(
    "jsonl",
    "JSON Lines",
    (LinesLayout(recognises, open_lines, takes_any=True), DocumentLayout(_is_document, open_document)),
)
