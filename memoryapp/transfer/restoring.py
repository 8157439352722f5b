"""Restores an exported memory: every row under a new number, all in one transaction.

The chat user must have no messages; for any other one, the importer of JSON Lines imports only the messages. The last
line of the file contains the number of lines, so a truncated file is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.db import connection, models, transaction
from django.utils.translation import gettext as _

from memoryapp import chat_users
from memoryapp.importers import document
from memoryapp.importers.jsonl import conversation
from memoryapp.importers.jsonl import lines as lines_of
from memoryapp.importers.record import BadRecord, Clock, MessageRecord, UnreadableFile, clean, moment
from memoryapp.importers.registry import members
from memoryapp.importers.source import SourceFile, sources
from memoryapp.ingestion.topics import put_passages
from memoryapp.models import ChatUser, Media, Message, Topic
from memoryapp.operations import advisory_locks
from memoryapp.reading import content
from memoryapp.transfer.rows import FORMAT, MARK, chunks, columns, exported, is_kept, label, references, renumbered

_AT_ONCE = 1_000

PLACE = """
UPDATE memoryapp_message SET topic_id = at.topic, batch_id = at.batch, is_withdrawn = at.is_withdrawn
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[]) AS at (id, topic, batch, is_withdrawn)
WHERE memoryapp_message.id = at.id
"""


class NotEmpty(Exception):
    """The chat user already has messages; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Restored:
    """How many rows of each kind were restored; ``missing_files`` counts media whose bytes are not stored here."""

    user: str
    counts: dict[str, int]
    missing_files: int


def recognises(path: Path) -> bool:
    """Whether the file is an export of a whole memory. Raises UnreadableFile."""
    return any(MARK in value and "user" in value for _number, value in _first(path))


def outline(path: Path) -> Counter[str]:
    """How many rows of each kind the file has. Raises UnreadableFile."""
    counts: Counter[str] = Counter(value.get(MARK, label(Message)) for _number, value in _lines(path))
    for other in (FORMAT, "place", label(ChatUser)):
        del counts[other]
    return counts


def restore(path: Path, user: str = "", stored: Callable[[int], None] = lambda count: None) -> Restored:
    """Restores the memory of the file for ``user``, or for the chat user that the file names.

    ``stored`` is called with the number of rows so far; if it raises, nothing is stored. Raises NotEmpty,
    UnreadableFile with the line that cannot be read, and BeingErased.
    """
    header = next((value for _number, value in _first(path)), {})
    if header.get(MARK) != FORMAT:
        raise UnreadableFile(_("%(path)s was exported by another version.") % {"path": path})
    name = user or str(header["user"])
    with transaction.atomic():
        owner = chat_users.found_or_made(name)
        advisory_locks.acquire_until_commit("topics", owner.pk)
        advisory_locks.acquire_until_commit("messages", owner.pk)
        chat_users.check_kept(owner)
        if Message.objects.of(owner).exists():
            raise NotEmpty(_("%(user)s has messages already; only an empty memory can be restored.") % {"user": name})
        coming = _RestoredMemory(owner, stored)
        coming.take(_lines(path))
        coming.finish()
    return Restored(name, dict(coming.counts), coming.missing_files)


def _first(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the first line with its number, if it is an object."""
    source = sources(path, members)[0]
    for number, line in lines_of(source):
        try:
            value = document.parse(line.decode("utf-8", "replace"))
        except ValueError:
            return
        if isinstance(value, dict):
            yield number, value
        return


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields every line before the last with its number. Raises UnreadableFile."""
    [source, *_rest] = sources(path, members)
    ended = False
    for count, (number, line) in enumerate(lines_of(source)):
        value = _parse(source, number, line)
        if value.get(MARK) == "end":
            ended = value.get("lines") == count
            break
        yield number, value
    if not ended:
        raise UnreadableFile(_("%(path)s was cut off before its end; export it again.") % {"path": path})


def _parse(source: SourceFile, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = clean(document.parse(line.decode()))
    except (ValueError, BadRecord) as error:
        raise _bad(source.name, number, error) from None
    if not isinstance(value, dict):
        raise _bad(source.name, number, _("not an object"))
    return value


def _bad(path: object, number: int, why: object) -> UnreadableFile:
    return UnreadableFile(
        _("Line %(number)s of %(path)s cannot be restored: %(why)s.") % {"number": number, "path": path, "why": why}
    )


@dataclass
class _RestoredMemory:
    """A memory while it is restored. ``numbers`` maps each row's number in the file to the new one, by model."""

    owner: ChatUser
    stored: Callable[[int], None] = lambda count: None
    counts: Counter[str] = field(default_factory=Counter)
    missing_files: int = 0
    numbers: dict[type[models.Model], dict[int, int]] = field(default_factory=dict)
    places: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def take(self, lines: Iterator[tuple[int, dict[str, Any]]]) -> None:
        """Stores all lines, up to a thousand consecutive lines of one kind at a time. Raises UnreadableFile."""
        waiting: list[tuple[int, dict[str, Any]]] = []
        for number, value in lines:
            if waiting and (waiting[0][1].get(MARK) != value.get(MARK) or len(waiting) == _AT_ONCE):
                self._store(waiting)
                waiting = []
            waiting.append((number, value))
        self._store(waiting)

    def finish(self) -> None:
        """Puts messages into their places, and makes passages of all messages that were ever in a topic."""
        topics, batches = self.numbers.get(Topic, {}), self._of("importbatch")
        for part in chunks(self.places, _AT_ONCE):
            rows = [
                (number, topics.get(at.get("topic", 0)), batches.get(at.get("batch", 0)), bool(at.get("is_withdrawn")))
                for number, at in part
            ]
            with connection.cursor() as cursor:
                cursor.execute(PLACE, [list(column) for column in zip(*rows, strict=True)])
        for topic in Topic.objects.of(self.owner).order_by("-is_live", "-pk").iterator(_AT_ONCE):
            self._passages(topic)

    def _passages(self, topic: Topic) -> None:
        listed = Message.objects.filter(topicmessage__topic=topic, passagemessage__isnull=True)
        put_passages(self.owner, [[content(row) for row in listed.in_order()]] if listed.exists() else [])

    def _store(self, waiting: list[tuple[int, dict[str, Any]]]) -> None:
        if not waiting:
            return
        kind, first = waiting[0][1].get(MARK), waiting[0][0]
        try:
            if kind is None:
                self._messages(waiting)
            elif kind == "place":
                self._places(waiting)
            elif kind == label(ChatUser):
                self._settings(waiting[0][1])
            elif kind != FORMAT:
                self._rows(str(kind), [value for _number, value in waiting])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _bad(self.owner.name, first, f"{kind}: {error!r}") from None

    def _messages(self, waiting: list[tuple[int, dict[str, Any]]]) -> None:
        clock = Clock(any_dates=True)
        rows = []
        for number, value in waiting:
            beside = value.pop("metadata", {})
            [record] = conversation(value, number, clock)
            if not isinstance(record, MessageRecord):
                raise _bad(self.owner.name, number, record.reason)
            row = _message(self.owner, record)
            row.metadata = {**row.metadata, **beside}
            rows.append(row)
        self._insert(Message, rows)

    def _places(self, waiting: list[tuple[int, dict[str, Any]]]) -> None:
        names = [value["message"] for _number, value in waiting]
        found = dict(Message.objects.of(self.owner).filter(external_id__in=names).values_list("external_id", "pk"))
        for _number, value in waiting:
            self.numbers.setdefault(Message, {})[value["n"]] = found[value["message"]]
            if value.keys() & {"topic", "batch", "is_withdrawn"}:
                self.places.append((found[value["message"]], value))

    def _settings(self, values: dict[str, Any]) -> None:
        for column in columns(ChatUser):
            if column.attname in values:
                setattr(self.owner, column.attname, _read(column, values[column.attname]))
        self.owner.save()

    def _rows(self, kind: str, lines: list[dict[str, Any]]) -> None:
        model = next((each for each in exported() if label(each) == kind), None)
        if model is None:
            raise ValueError(_("no such row is known"))
        here = [line for line in lines if model is not Media or self._has_bytes(line)]
        known = self.numbers.setdefault(model, {})
        # Numbers come first, because rows may refer to others of their kind.
        known.update(zip((int(line["n"]) for line in here), _free_numbers(model, len(here)), strict=True))
        self._insert(model, [self._row(model, line) for line in here])

    def _row(self, model: type[models.Model], line: dict[str, Any]) -> models.Model:
        values = renumbered(model, line, self._renumber)
        for column, other in references(model):
            if is_kept(other) and column.attname in values:
                values[column.attname] = self._renumber(other, values[column.attname])
        known = {column.attname: column for column in columns(model) if column.attname in values}
        pk = self.numbers[model][int(line["n"])]
        return model(pk=pk, owner=self.owner, **{name: _read(column, values[name]) for name, column in known.items()})

    def _renumber(self, model: type[models.Model], number: Any) -> Any:
        """Returns the new number of a row; a free number if the file does not contain the row."""
        if number is None:
            return None
        # A row that only the history mentions is restored under this number when its deletion is undone.
        known = self.numbers.setdefault(model, {})
        return known[int(number)] if int(number) in known else known.setdefault(int(number), *_free_numbers(model, 1))

    def _has_bytes(self, line: dict[str, Any]) -> bool:
        try:
            if default_storage.size(Media(sha256=line["sha256"]).path) == line["size_bytes"]:
                return True
        except FileNotFoundError:
            pass
        self.missing_files += 1
        return False

    def _insert(self, model: type[models.Model], rows: list[Any]) -> None:
        """Inserts the rows unchanged, with the times that they have."""
        written = [column for column in model._meta.concrete_fields if not isinstance(column, models.GeneratedField)]
        if model is Message:
            written.remove(model._meta.pk)
        manager: Any = model._base_manager.all()
        manager._insert(rows, written, using=manager.db, raw=True)
        self.counts[label(model)] += len(rows)
        self.stored(sum(self.counts.values()))

    def _of(self, kind: str) -> dict[int, int]:
        return next((found for model, found in self.numbers.items() if label(model) == kind), {})


def _message(owner: ChatUser, record: MessageRecord) -> Message:
    return Message(
        owner=owner,
        external_id=record.external_id,
        role=record.role,
        author=record.author,
        sent_at=record.sent_at,
        text=record.text,
        session=record.session,
        reply_to=record.reply_to,
        forwarded_from=record.forwarded_from,
        metadata=dict(record.metadata),
        content_hash=record.content_hash,
    )


def _free_numbers(model: type[models.Model], count: int) -> list[int]:
    """Returns unused numbers for rows of the model."""
    with connection.cursor() as cursor:
        query = "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)"
        cursor.execute(query, [model._meta.db_table, count])
        return [number for (number,) in cursor.fetchall()]


def _read(column: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(column, models.DateTimeField) and value is not None:
        return moment(value)
    return value if isinstance(column, models.JSONField) else column.to_python(value)
