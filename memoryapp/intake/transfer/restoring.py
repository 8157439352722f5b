"""Restores an exported memory: every row under a new number, all in one transaction.

The chat user must have no messages; for any other one, the importer of JSON Lines imports only the messages. The last
line of the file contains the number of lines, so a truncated file is refused.

The file is hostile until proven otherwise: ``checking`` reads each line, a row refers only to rows of the same file,
and at the end the restored memory keeps every invariant. Whatever does not is refused with the number of its line."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import DataError, IntegrityError, connection, models, transaction
from django.utils.translation import gettext as _
from psycopg.errors import UniqueViolation

from memoryapp.engine.beside import table_beside
from memoryapp.importers import document
from memoryapp.importers.document import numbered
from memoryapp.importers.formats.memories.jsonl import conversation
from memoryapp.importers.formats.registry import members
from memoryapp.importers.record import Clock, MessageRecord, UnreadableFile
from memoryapp.importers.source import SourceFile, sources
from memoryapp.importers.values import BadRecord, clean, quote
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import SAID
from memoryapp.intake.transfer.checking import checked, value_of
from memoryapp.intake.transfer.exporting import (
    FORMAT,
    MARK,
    as_restored,
    columns,
    exported,
    label,
    references,
    renumbered,
)
from memoryapp.memory import content as chat_users
from memoryapp.memory.content import content
from memoryapp.memory.sessions import put_passages
from memoryapp.models import ChatUser, ImportBatch, Media, Message, Topic
from memoryapp.platform import database

# Reads the file of an export line by line, and names the line of every fault.

Line = tuple[int, dict[str, Any]]
# Called while a file is read; it raises an exception when nobody wants the file any longer.
Ask = Callable[[], None]


def ask_nobody() -> None:
    pass


def recognises(path: Path, ask: Ask = ask_nobody) -> bool:
    """Whether the file is an export of a whole memory. Raises UnreadableFile, and what ``ask`` raises meanwhile."""
    return any(MARK in value and "user" in value for _number, value in first(path, ask))


def outline(path: Path, ask: Ask = ask_nobody) -> Counter[str]:
    """How many rows of each kind the file has. Raises UnreadableFile, and what ``ask`` raises meanwhile."""
    counts: Counter[str] = Counter(value.get(MARK, label(Message)) for _number, value in lines(path, ask))
    for other in (FORMAT, "place", label(ChatUser)):
        del counts[other]
    return counts


def name_of(path: Path, header: dict[str, Any]) -> str:
    """Returns the name of the chat user in the file. Raises UnreadableFile."""
    try:
        name: str = value_of(ChatUser._meta.get_field("name"), header.get("user"))
    except BadRecord as error:
        raise bad(path, 1, error) from None
    return name


def first(path: Path, ask: Ask) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the first line with its number, if it is an object."""
    source = sources(path, members, ask)[0]
    for number, line in numbered(source):
        try:
            value = document.parse_line(line, "replace")
        except ValueError:
            return
        if isinstance(value, dict):
            yield number, value
        return


def lines(path: Path, ask: Ask = ask_nobody) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields every line before the last with its number. Raises UnreadableFile."""
    [source, *_rest] = sources(path, members, ask)
    ended = False
    for count, (number, line) in enumerate(numbered(source)):
        value = _parse(source, number, line)
        if value.get(MARK) == "end":
            ended = value.get("lines") == count
            break
        yield number, value
    if not ended:
        raise UnreadableFile(_("%(path)s was cut off before its end; export it again.") % {"path": path})


def _parse(source: SourceFile, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = clean(document.parse_line(line))
    except (ValueError, BadRecord) as error:
        raise bad(source.name, number, error) from None
    if not isinstance(value, dict):
        raise bad(source.name, number, _("not an object"))
    if not isinstance(value.get(MARK), str | int | None):
        raise bad(source.name, number, _("no such row is known"))
    return value


def bad(path: object, number: int, why: object) -> UnreadableFile:
    return UnreadableFile(
        _("Line %(number)s of %(path)s cannot be restored: %(why)s.")
        % {"number": number, "path": path, "why": str(why).removesuffix(".")}
    )


_AT_ONCE = 1_000
# Anything a hostile line can make of reading it.
_FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
_SQL = table_beside(__file__)
PLACE: str = _SQL["place"]


class NotEmpty(Exception):
    """The chat user already has messages; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Restored:
    """How many rows of each kind were restored; ``missing_files`` counts media whose bytes this chat user does not
    have here. An export contains no bytes, and those of other chat users are theirs alone."""

    user: str
    counts: dict[str, int]
    missing_files: int


def restore(
    path: Path, user: str = "", stored: Callable[[int], None] = lambda count: None, ask: Ask = ask_nobody
) -> Restored:
    """Restores the memory of the file for ``user``, or for the chat user that the file names. ``stored`` is called with
    the number of rows so far, ``ask`` while the file is read; if one raises, nothing is stored. Raises NotEmpty,
    UnreadableFile with the line that cannot be read, and BeingErased."""
    header = next((value for _number, value in first(path, ask)), {})
    if header.get(MARK) != FORMAT:
        raise UnreadableFile(_("%(path)s was exported by another version.") % {"path": path})
    name = user or name_of(path, header)
    with transaction.atomic():
        owner = chat_users.found_or_made(name)
        database.acquire_until_commit("topics", owner.pk)
        database.acquire_until_commit("messages", owner.pk)
        chat_users.check_kept(owner)
        if Message.objects.of(owner).exists():
            raise NotEmpty(_("%(user)s has messages already; only an empty memory can be restored.") % {"user": name})
        coming = _RestoredMemory(owner, path, stored)
        coming.take(lines(path, ask))
        coming.finish()
        coming.check()
    return Restored(name, dict(coming.counts), coming.missing_files)


@dataclass
class _RestoredMemory:
    """A memory while it is restored. ``numbers`` maps each row's number in the file to the new one, by model.
    ``awaited`` are the rows that others refer to and that the file has not shown yet, with the line that does so."""

    owner: ChatUser
    path: Path
    stored: Callable[[int], None] = lambda count: None
    counts: Counter[str] = field(default_factory=Counter)
    missing_files: int = 0
    numbers: dict[type[models.Model], dict[int, int]] = field(default_factory=dict)
    shown: dict[type[models.Model], set[int]] = field(default_factory=dict)
    awaited: dict[tuple[type[models.Model], int], int] = field(default_factory=dict)
    places: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)

    def take(self, lines: Iterator[Line]) -> None:
        """Stores all lines, up to a thousand consecutive lines of one kind at a time. Raises UnreadableFile."""
        waiting: list[Line] = []
        for number, value in lines:
            if waiting and (waiting[0][1].get(MARK) != value.get(MARK) or len(waiting) == _AT_ONCE):
                self._store(waiting)
                waiting = []
            waiting.append((number, value))
        self._store(waiting)

    def finish(self) -> None:
        """Puts messages into their places, and makes passages of all messages that were ever in a topic."""
        placed = [(line, self._placed(line, place)) for line, place in self.places]
        for (model, _number), line in self.awaited.items():
            lacking = _("it refers to a %(kind)s that the file does not have") % {"kind": label(model)}
            raise bad(self.path, line, lacking)
        for start in range(0, len(placed), _AT_ONCE):
            self._write(self._put, placed[start : start + _AT_ONCE])
        for topic in Topic.objects.of(self.owner).order_by("-is_live", "-pk").iterator(_AT_ONCE):
            listed = Message.objects.filter(topicmessage__topic=topic, passagemessage__isnull=True)
            put_passages(self.owner, [[content(row) for row in listed.in_order()]] if listed.exists() else [])

    def _placed(self, line: int, place: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the message's values for ``PLACE``; topics come after the places, and get their numbers in order."""
        message, topic, batch, is_withdrawn = place
        with self._at(line):
            return message, self._referred(Topic, topic, line), self._referred(ImportBatch, batch, line), is_withdrawn

    def check(self) -> None:
        """Raises UnreadableFile with the line of a row that breaks an invariant, or that the database refuses."""
        restorable: list[type[models.Model]] = [*exported(), Message]
        labels = {model.__name__: model for model in restorable}
        for violation in violations(self.owner):
            name, _colon, pk = violation.subject.partition(":")
            if name in labels:
                raise bad(
                    self.path, self._line_of(labels[name], int(pk)), f"{label(labels[name])}: {violation.sentence}"
                )
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        except IntegrityError as error:
            raise bad(self.path, 1, _reason(error)) from None

    def _line_of(self, model: type[models.Model], pk: int) -> int:
        """Returns the line that brought the row; the first line if none did."""
        kind = "place" if model is Message else label(model)
        number = next((old for old, new in self.numbers.get(model, {}).items() if new == pk), None)
        return next((at for at, value in lines(self.path) if value.get(MARK) == kind and value.get("n") == number), 1)

    def _store(self, waiting: list[Line]) -> None:
        kind = waiting[0][1].get(MARK) if waiting else FORMAT
        if kind is None:
            self._messages(waiting)
        elif kind == "place":
            self._places(waiting)
        elif kind == label(ChatUser):
            self._settings(waiting)
        elif kind != FORMAT:
            self._rows(waiting)

    @contextmanager
    def _at(self, line: int) -> Iterator[None]:
        """Whatever fails in the block is a fault of this line. Raises UnreadableFile."""
        try:
            yield
        except BadRecord as error:
            raise bad(self.path, line, error) from None
        except KeyError as error:
            raise bad(self.path, line, _("%(field)s is missing") % {"field": error.args[0]}) from None
        except _FAULTS as error:
            raise bad(self.path, line, quote(error)) from None

    def _messages(self, waiting: list[Line]) -> None:
        clock = Clock(any_dates=True)
        rows: list[tuple[int, models.Model]] = []
        for number, value in waiting:
            with self._at(number):
                beside = value.pop("metadata", {})
                [record] = conversation(value, number, clock)
                if not isinstance(record, MessageRecord):
                    raise BadRecord(record.reason)
                row = Message(owner=self.owner, **{name: getattr(record, name) for name in (*SAID, "project")})
                row.metadata = {**record.metadata, **beside}
                rows.append((number, row))
        self._insert(Message, rows)

    def _places(self, waiting: list[Line]) -> None:
        names = [value.get("message") for _number, value in waiting]
        named = Message.objects.of(self.owner).filter(external_id__in=[name for name in names if isinstance(name, str)])
        found = {(name, project): pk for name, project, pk in named.values_list("external_id", "project", "pk")}
        for number, value in waiting:
            with self._at(number):
                pk = found[value["message"], value.get("project", "")]
                self._number(Message, value["n"], pk)
                is_withdrawn = value_of(Message._meta.get_field("is_withdrawn"), value.get("is_withdrawn", False))
                if is_withdrawn or value.keys() & {"topic", "batch"}:
                    at = (pk, value.get("topic"), value.get("batch"), is_withdrawn)
                    self.places.append((number, at))

    def _settings(self, waiting: list[Line]) -> None:
        for number, line in waiting:
            with self._at(number):
                values = checked(ChatUser, line)
                for name, value in values.items():
                    setattr(self.owner, name, value)
            self.owner.save()

    def _rows(self, waiting: list[Line]) -> None:
        model = next((each for each in exported() if label(each) == waiting[0][1].get(MARK)), None)
        if model is None:
            raise bad(self.path, waiting[0][0], _("no such row is known"))
        if model is Media:
            return self._media(waiting)
        # Numbers come first, because rows may refer to others of their kind.
        for (number, line), new in zip(waiting, _free_numbers(model, len(waiting)), strict=True):
            with self._at(number):
                self._number(model, line["n"], new)
        rows = []
        for number, line in waiting:
            with self._at(number):
                rows.append((number, self._row(model, line, number)))
        self._insert(model, rows)

    def _media(self, waiting: list[Line]) -> None:
        """An export contains no bytes: a file is here only if this chat user has it already, and then it stays."""
        for number, line in waiting:
            with self._at(number):
                sha256 = checked(Media, line)["sha256"]
            self.missing_files += not Media.objects.filter(owner=self.owner, sha256=sha256).exists()

    def _row(self, model: type[models.Model], line: dict[str, Any], number: int) -> models.Model:
        pk = self.numbers[model][line["n"]]
        values = renumbered(model, checked(model, line), self._renumber)
        for column, other in references(model):
            if values.get(column.attname) is not None:
                values[column.attname] = self._referred(other, values[column.attname], number)
                if other is model and values[column.attname] >= pk:
                    raise BadRecord(_("%(field)s refers to a later row") % {"field": column.attname})
        for column in columns(model):
            if column.attname in values:
                values[column.attname] = as_restored(column, values[column.attname])
        return model(pk=pk, owner=self.owner, **values)

    def _number(self, model: type[models.Model], number: Any, new: int) -> None:
        """Gives the row with this number in the file its new number. Raises BadRecord."""
        if not isinstance(number, int) or isinstance(number, bool):
            raise BadRecord(_("%(field)s cannot be %(value)s") % {"field": "n", "value": quote(number)})
        shown = self.shown.setdefault(model, set())
        if number in shown:
            raise BadRecord(_("the number %(number)s occurs twice") % {"number": quote(number)})
        shown.add(number)
        # Others may have referred to it already, by the number that it got then.
        known = self.numbers.setdefault(model, {}).setdefault(number, new)
        if known != new and model is Message:
            raise BadRecord(_("%(field)s refers to a later row") % {"field": "n"})
        self.awaited.pop((model, number), None)

    def _referred(self, model: type[models.Model], number: Any, line: int) -> int | None:
        """Returns the new number of a row that the file must have."""
        if number is None:
            return None
        if not isinstance(number, int) or isinstance(number, bool):
            raise BadRecord(_("%(field)s cannot be %(value)s") % {"field": label(model), "value": quote(number)})
        if number not in self.shown.get(model, ()):
            self.awaited.setdefault((model, number), line)
        return self._renumber(model, number)

    def _renumber(self, model: type[models.Model], number: int | None) -> int | None:
        """Returns the new number of a row; a free number if the file does not contain the row."""
        if number is None:
            return None
        # A row that only the history mentions is restored under this number when its deletion is undone.
        known = self.numbers.setdefault(model, {})
        if number not in known:
            [known[number]] = _free_numbers(model, 1)
        return known[number]

    def _insert(self, model: type[models.Model], rows: list[tuple[int, Any]]) -> None:
        """Inserts the rows unchanged, with the times that they have."""
        written = [column for column in model._meta.concrete_fields if not isinstance(column, models.GeneratedField)]
        if model is Message:
            written.remove(model._meta.pk)
        manager: Any = model._base_manager.all()
        self._write(lambda part: manager._insert(part, written, using=manager.db, raw=True), rows)
        self.counts[label(model)] += len(rows)
        self.stored(sum(self.counts.values()))

    def _put(self, places: list[tuple[Any, ...]]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(PLACE, [list(column) for column in zip(*places, strict=True)])

    def _write(self, write: Callable[[list[Any]], object], items: list[tuple[int, Any]]) -> None:
        """Writes the items, each with its line. Raises UnreadableFile with the line that the database refuses."""
        if not items:
            return
        try:
            with transaction.atomic():
                write([item for _line, item in items])
        except (IntegrityError, DataError) as error:
            if len(items) == 1:
                raise bad(self.path, items[0][0], _reason(error)) from None
            middle = len(items) // 2
            self._write(write, items[:middle])
            self._write(write, items[middle:])


def _reason(error: Exception) -> str:
    """Why the database refused a row, without the values of other rows."""
    diagnosis = getattr(error.__cause__, "diag", None)
    if isinstance(error.__cause__, UniqueViolation):
        return _("there is such a row already")
    return _("the database refuses it (%(why)s)") % {"why": getattr(diagnosis, "message_primary", None) or "?"}


def _free_numbers(model: type[models.Model], count: int) -> list[int]:
    """Returns unused numbers for rows of the model."""
    with connection.cursor() as cursor:
        query = "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)"
        cursor.execute(query, [model._meta.db_table, count])
        return [number for (number,) in cursor.fetchall()]
