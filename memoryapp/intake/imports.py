"""Imports a chat file into the memory of one chat user, or of all chat users that it names. The messages go to the chat
user whom a person chooses if the file names at most one user; if it names several, each of them gets their own
messages. A dry run reads and compares everything and writes nothing, so its numbers are those of the import."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from queue import Empty, Queue
from typing import Any, TypeVar
from uuid import UUID, uuid5

from django.db import transaction
from django.utils.translation import get_language, gettext_lazy, override
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation.rewording import REPLACES, hand_over
from memoryapp.engine.memory import MessageContent
from memoryapp.importers import ChatFile, LeftOut, Rejected
from memoryapp.importers import record as reasons
from memoryapp.importers.record import MessageRecord
from memoryapp.importers.source import ASK_SECONDS, Patience
from memoryapp.intake import messages
from memoryapp.memory import content
from memoryapp.memory import content as chat_users
from memoryapp.memory.content import content as reading_content
from memoryapp.memory.sessions import put_passages
from memoryapp.models import ChatUser, ImportBatch, Message, PassageMessage, TopicMessage
from memoryapp.models.work import WorkKind
from memoryapp.platform import database, work

# Reads items in a thread of its own, ahead of their consumer.
#
# Reading a file takes about as long as storing it, and while the database stores, this process would only wait.

# Items in a chunk, and how many chunks may wait. While the database stores a batch of messages
# (``ingestion.messages.BATCH``), the next one is read.
AT_ONCE = 500
MOST_WAITING = 12
# Seconds after which a computing thread lets another one continue that has received its answer from the database. With
# Python's default of 5 ms, a batch waits some dozen times that long for the reader. The value stays set in the process:
# no import knows whether others still run, and other work of a worker waits for the database, too.
TURN = 0.0005

Item = TypeVar("Item")
Chunk = list[Item] | BaseException | None


@contextmanager
def read_ahead(
    items: Iterable[Item], size: Callable[[Item], int], most: int, patience: Patience
) -> Iterator[Iterator[Item]]:
    """Yields an iterator over the items, which a thread reads until the block ends.

    A chunk ends when its items have ``most`` of ``size`` together. An error of the thread is raised in place of the
    item. While the consumer waits for an item, it asks whether the file is still wanted; the end of the block stops the
    thread through its ``patience``."""
    sys.setswitchinterval(TURN)
    chunks: Queue[Chunk[Item]] = Queue(MOST_WAITING)
    stopped = threading.Event()
    given = (items, size, most, chunks, stopped, get_language())
    thread = threading.Thread(target=_read, args=given, name="reading ahead", daemon=True)
    thread.start()
    try:
        yield _items_of(chunks, patience)
    finally:
        stopped.set()
        patience.stop()
        while thread.is_alive():
            _empty(chunks)
            thread.join(0.01)


def _read(
    items: Iterable[Item],
    size: Callable[[Item], int],
    most: int,
    chunks: Queue[Chunk[Item]],
    stopped: threading.Event,
    language: str | None,
) -> None:
    try:
        with override(language):
            for chunk in _cut(items, size, most):
                chunks.put(chunk)
                if stopped.is_set():
                    return
        chunks.put(None)
    except BaseException as error:  # noqa: BLE001 it is raised where the item would have come
        chunks.put(error)
    finally:
        if isinstance(items, Generator):
            items.close()


def _cut(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if len(chunk) >= AT_ONCE or total >= most:
            yield chunk
            chunk, total = [], 0
    yield chunk


def _items_of(chunks: Queue[Chunk[Item]], patience: Patience) -> Iterator[Item]:
    while (chunk := _next(chunks, patience)) is not None:
        if isinstance(chunk, BaseException):
            raise chunk
        yield from chunk


def _next(chunks: Queue[Chunk[Item]], patience: Patience) -> Chunk[Item]:
    while True:
        with suppress(Empty):
            return chunks.get(timeout=ASK_SECONDS)
        patience.still_wanted()


def _empty(chunks: Queue[Chunk[Item]]) -> None:
    """Removes all chunks, so that a reader that waits for a free place continues."""
    try:
        while True:
            chunks.get_nowait()
    except Empty:
        return


# Stores changed texts of messages from a file, and replaces the old texts by them in one edit.
#
# The new texts are messages of a batch of their own, which is withdrawn until the edit. So an import that is killed
# and repeated takes each text once. Their passages, and those of their neighbours, are made again.


def keep(owner: ChatUser, batch: ImportBatch, records: Sequence[MessageRecord]) -> None:
    """Stores new texts of messages as withdrawn messages, unless they are known. Raises BeingErased."""
    with transaction.atomic():
        database.acquire_until_commit("messages", owner.pk)
        chat_users.check_kept(owner)
        ids = [messages.wording_id(record) for record in records]
        known = set(Message.objects.of(owner).filter(external_id__in=ids).values_list("external_id", flat=True))
        # Of messages whose text was replaced before, by the original id.
        originals = [record.external_id for record in records]
        rows = Message.objects.of(owner).filter(is_withdrawn=False, metadata__wording_of__in=originals)
        current = dict(rows.values_list("metadata__wording_of", "external_id"))
        new = {
            messages.wording_id(record): replace(
                record,
                external_id=messages.wording_id(record),
                metadata={
                    **record.metadata,
                    "wording_of": record.external_id,
                    REPLACES: current.get(record.external_id, record.external_id),
                },
            )
            for record in records
            if messages.wording_id(record) not in known
        }
        messages.store(owner, new.values(), batch, is_withdrawn=True)


@transaction.atomic
def take_wordings(owner: ChatUser, batch: ImportBatch, *, actor: str) -> int:
    """Replaces the old texts by those of the batch. Returns how many messages have a new text."""
    edit = curation.reword(owner, batch, actor=actor)
    if edit is None:
        return 0
    taken = Message.objects.of(owner).filter(batch=batch, is_withdrawn=False)
    replaced = dict(taken.values_list(f"metadata__{REPLACES}", "pk"))
    olds = dict(Message.objects.of(owner).filter(external_id__in=replaced).values_list("pk", "external_id"))
    pairs = {number: replaced[name] for number, name in olds.items()}
    beside = set(
        PassageMessage.objects.filter(passage__passagemessage__message__in=olds).values_list("message", flat=True)
    )
    put_passages(owner, _parts([topic.pk for topic in curation.put_in(edit)], beside | set(pairs.values())))
    hand_over(pairs.items())
    return len(replaced)


def _parts(topics: Sequence[int], chosen: set[int]) -> Iterator[list[MessageContent]]:
    """Yields runs of consecutive chosen messages of each topic."""
    for topic in topics:
        listed = TopicMessage.objects.filter(topic=topic).values("message")
        rows = Message.objects.filter(pk__in=listed).in_order()
        for is_chosen, part in groupby(rows, lambda row: row.pk in chosen):
            if is_chosen:
                yield list(map(reading_content, part))


IMPORT = WorkKind("import", gettext_lazy("Import"))

MOST_REJECTED_KEPT = 1000
# How many rejected and changed messages a report names; the rest are only counted.
MOST_NAMED = 10_000
# A batch of so many characters is stored before it has its number of messages.
MOST_CHARS = 4_000_000
# The same for each chunk of records that is read ahead.
MOST_CHARS_AHEAD = 1_000_000

# Maps the user that a record names to the name of the chat user who gets it: empty if there is none, None for a record
# that is left out.
Addressee = Callable[[str], str | None]


class Paused(Exception):
    """A person paused the import. Stored messages stay, and the next import continues."""


@dataclass(slots=True)
class NamedMessages:
    """Messages for a report: the first ``MOST_NAMED``, and how many there are."""

    items: list[Rejected] = field(default_factory=list)
    count: int = 0

    def add(self, found: Sequence[Rejected]) -> None:
        self.count += len(found)
        self.items += found[: MOST_NAMED - len(self.items)]

    def join(self, other: NamedMessages) -> None:
        self.add(other.items)
        self.count += other.count - len(other.items)


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import. ``users`` are the chat users with at least one message in the file.

    ``changed`` are messages that were edited since they were imported; the memory keeps their old texts, except for
    ``taken`` of them. ``left_out`` counts, by reason, what does not belong to the conversation as it was shown; with
    it, the numbers add up to what the file holds. ``note`` is a sentence if the choice of a chat user was not followed,
    else empty."""

    users: tuple[str, ...]
    added: int
    skipped: int
    rejected: NamedMessages
    changed: NamedMessages
    note: str = ""
    taken: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many messages the file holds: each is counted once, whatever became of it."""
        known = self.added + self.skipped + self.changed.count
        return known + self.rejected.count + sum(self.left_out.values())


@dataclass(frozen=True, slots=True)
class Course:
    """How a file is imported, and what is called on the way.

    ``source`` is what people call the file. ``key`` identifies its batches, so an interrupted import continues in them.
    ``report`` is called with each step of the work; ``stored`` after each batch with the number of messages so far (it
    may raise Paused); ``observe`` with every record and the name of the chat user who gets it; ``opened`` with each
    chat user before anything is stored for them; ``coming`` in a dry run with the messages that are new, some thousands
    of one chat user at a time. Changed texts replace the old ones in the name of ``taker``, or are only reported if
    that is empty."""

    dry_run: bool = False
    worker: str = "import_chat"
    source: str = ""
    key: UUID | None = None
    report: work.Report = lambda shown: None
    stored: Callable[[int], None] = lambda count: None
    observe: Callable[[MessageRecord | Rejected, str], None] = lambda item, name: None
    taker: str = ""
    opened: Callable[[ChatUser], None] = lambda owner: None
    coming: Callable[[Sequence[MessageRecord]], None] = lambda records: None


class _SeenIds:
    """The ids of a file's messages with their content hashes, for a rehearsal, which stores nothing to compare with.
    They are stored on disk, because a file may contain millions of messages."""

    def __init__(self) -> None:
        self._rows = sqlite3.connect("")
        self._rows.execute("CREATE TABLE seen (owner TEXT, id TEXT, hash TEXT, PRIMARY KEY (owner, id))")

    def first(self, owner: str, record: MessageRecord) -> str:
        """Returns the hash of the first record in the file with this id; empty if it is this record."""
        row = (owner, record.external_id)
        if self._rows.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", (*row, record.content_hash)).rowcount:
            return ""
        found: str = self._rows.execute("SELECT hash FROM seen WHERE owner = ? AND id = ?", row).fetchone()[0]
        return found

    def close(self) -> None:
        self._rows.close()


@dataclass
class _Intake:
    """One chat user's part of a file, stored a batch at a time. ``batch`` and ``steps`` are None in a dry run. With
    ``is_resumed``, the batch was begun earlier; messages that it brought then count as added. ``wordings`` is the batch
    of changed texts, once there are any."""

    chat: ChatFile
    course: Course
    owner: ChatUser | None
    batch: ImportBatch | None
    steps: work.Steps | None
    is_resumed: bool = False
    waiting: list[MessageRecord] = field(default_factory=list)
    chars: int = 0
    changed: NamedMessages = field(default_factory=NamedMessages)
    conflicts: NamedMessages = field(default_factory=NamedMessages)
    added: int = 0
    skipped: int = 0
    wordings: ImportBatch | None = None
    taken: int = 0

    def take(self, record: MessageRecord) -> bool:
        """Adds a record. Returns whether a full batch was stored."""
        self.waiting.append(record)
        self.chars += len(record.text)
        is_full = len(self.waiting) >= messages.BATCH or self.chars >= MOST_CHARS
        if is_full:
            is_first = not self.added + self.skipped
            self.store()
            if is_first and self.batch:
                messages.take_statistics()
        return is_full

    def store(self) -> None:
        stored = self._stored(self.waiting)
        self.waiting, self.chars = [], 0
        own = stored.own if self.is_resumed else 0
        self.added += stored.added + own
        self.skipped += stored.skipped - own
        self.changed.add([item for item in stored.rejected if item.known_id])
        self.conflicts.add([item for item in stored.rejected if not item.known_id])
        if self.batch:
            self.batch.added, self.batch.skipped = self.added, self.skipped
            self.batch.save(update_fields=["added", "skipped"])
        if self.owner and self.batch and self.course.taker and stored.changed:
            self.wordings = self.wordings or self._of_wordings(self.owner)
            keep(self.owner, self.wordings, stored.changed)
        if self.steps:
            self.steps.reached(self.added + self.skipped, self.chat.meter.share)

    def _of_wordings(self, owner: ChatUser) -> ImportBatch:
        source = _("%(source)s: changed texts") % {"source": self.course.source or self.chat.path.name}
        fields = {"source": source[:300], "format": self.chat.format}
        key = uuid5(self.course.key, "wordings") if self.course.key else None
        if key is None:
            return ImportBatch.objects.create(owner=owner, **fields)
        return ImportBatch.objects.get_or_create(owner=owner, file=key, defaults=fields)[0]

    def _stored(self, records: Sequence[MessageRecord]) -> messages.Added:
        if self.owner is None:
            self.course.coming(records)
            return messages.Added(len(records), 0)
        if self.batch is None:
            found = messages.sort_out(self.owner, records)
            self.course.coming(found.new)
            return messages.Added(len(found.new), found.known, tuple(found.refused))
        return messages.add_messages(self.owner, records, batch=self.batch)

    def finish(self, rejected: Sequence[Rejected], left_out: Sequence[Mapping[str, Any]]) -> None:
        self.store()
        if not self.batch:
            return
        if self.is_resumed:
            # A message that occurs twice in the file was counted twice, because its batch had brought it before.
            total, self.added = self.added + self.skipped, Message.objects.filter(batch=self.batch).count()
            self.batch.added, self.batch.skipped = self.added, total - self.added
            self.skipped = self.batch.skipped
        if self.owner and self.wordings:
            self.taken = take_wordings(self.owner, self.wordings, actor=self.course.taker)
        stored = [*rejected, *self.conflicts.items, *self.changed.items][:MOST_REJECTED_KEPT]
        self.batch.rejected = [{"line": item.line, "reason": item.reason} for item in stored]
        self.batch.left_out = list(left_out)
        self.batch.save(update_fields=["added", "skipped", "rejected", "left_out"])


class _Import:
    """The import of one file."""

    def __init__(self, chat: ChatFile, seen: _SeenIds | None, rows: ExitStack, course: Course) -> None:
        self.chat, self.seen, self.rows, self.course = chat, seen, rows, course
        self.intakes: dict[str, _Intake] = {}
        self.rejected = NamedMessages()
        self.left_out: Counter[str] = Counter()

    def take(self, item: MessageRecord | Rejected, name: str) -> None:
        self.course.observe(item, name)
        if isinstance(item, LeftOut):
            self.left_out[item.reason] += 1
        elif isinstance(item, Rejected):
            self.rejected.add([Rejected(item.line, item.reason, name)])
        elif not name:
            reason = _("it names no user: say whose memory this is with --user")
            self.rejected.add([Rejected(item.line, reason)])
        else:
            self._sort_in(item, name)

    def _sort_in(self, record: MessageRecord, name: str) -> None:
        intake = self.intakes.get(name)
        if intake is None:
            intake = self.intakes[name] = self._open_intake(name)
        first = self.seen.first(name, record) if self.seen else ""
        if not first:
            if intake.take(record):
                self.course.stored(self.added + self.skipped)
        elif first == record.content_hash:
            intake.skipped += 1
        else:
            intake.conflicts.add([messages.id_conflict(record, is_own=True)])

    def _open_intake(self, name: str) -> _Intake:
        if self.course.dry_run:
            return _Intake(self.chat, self.course, ChatUser.objects.filter(name=name).first(), None, None)
        owner = content.found_or_made(name)
        self.course.opened(owner)
        source = (self.course.source or self.chat.path.name)[:300]
        row = work.tracked(owner, IMPORT, self.course.worker, source, self.course.report)
        batch, is_made = self._batch(owner, source)
        return _Intake(self.chat, self.course, owner, batch, self.rows.enter_context(row), is_resumed=not is_made)

    def _batch(self, owner: ChatUser, source: str) -> tuple[ImportBatch, bool]:
        """Returns the batch, and whether it is new."""
        if self.course.key is None:
            return ImportBatch.objects.create(owner=owner, source=source, format=self.chat.format), True
        return batch_of(owner, self.course.key, source, self.chat.format)

    @property
    def added(self) -> int:
        return sum(intake.added for intake in self.intakes.values())

    @property
    def skipped(self) -> int:
        return sum(intake.skipped for intake in self.intakes.values())

    def finish(self, note: str) -> Imported:
        changed, rejected = NamedMessages(), self.rejected
        left_out = [{"reason": reason, "count": count} for reason, count in self.left_out.most_common()]
        for name, intake in self.intakes.items():
            intake.finish([item for item in self.rejected.items if item.user in ("", name)], left_out)
            changed.join(intake.changed)
        for intake in self.intakes.values():
            rejected.join(intake.conflicts)
        taken = sum(intake.taken for intake in self.intakes.values())
        return Imported(
            tuple(self.intakes), self.added, self.skipped, rejected, changed, note, taken, dict(self.left_out)
        )


def batch_of(owner: ChatUser, key: UUID, source: str, format: str) -> tuple[ImportBatch, bool]:
    """Returns the chat user's batch of the file with this ``key``, and whether it is new."""
    fields = {"source": source[:300], "format": format}
    found: tuple[ImportBatch, bool] = ImportBatch.objects.get_or_create(owner=owner, file=key, defaults=fields)
    return found


def import_chat(chat: ChatFile, user: str = "", **course: Any) -> Imported:
    """Stores the messages of ``chat`` that the memory does not have; any part may be repeated. A known message with
    another text or time is reported as changed and not replaced, because passages, topics and past runs were made from
    the stored text. The progress is stored in a row of work for each chat user. ``course`` are fields of ``Course``."""
    addressee, note = addressee_of(chat, user)
    return import_for(chat, addressee, Course(**course), note)


def import_for(chat: ChatFile, addressee: Addressee, course: Course, note: str = "") -> Imported:
    """Does the same for the chat users whom ``addressee`` returns. Raises Paused; a second call continues."""
    paused: Paused | None = None
    with ExitStack() as rows:
        seen = rows.enter_context(closing(_SeenIds())) if course.dry_run else None
        items = rows.enter_context(read_ahead(chat.records(), _size, MOST_CHARS_AHEAD, chat.meter.patience))
        running = _Import(chat, seen, rows, course)
        try:
            for item in items:
                name = addressee(item.user)
                if name is None:
                    running.left_out[str(reasons.OTHER_USER)] += 1
                else:
                    running.take(item, name)
            return running.finish(note)
        except Paused as error:
            # This is no failure, so the rows of work must not end with an error.
            paused = error
    raise paused


def _size(item: MessageRecord | Rejected) -> int:
    """Returns the record's characters, and computes its hash in the thread that reads."""
    return len(item.text) + len(item.content_hash if isinstance(item, MessageRecord) else "")


def addressee_of(chat: ChatFile, user: str) -> tuple[Addressee, str]:
    """Returns who gets the messages of each user, and a sentence if that is not ``user``."""
    if not user or not names_several(chat):
        return (lambda named: user or named), ""
    note = _("%(path)s names several users; each keeps their own messages, and %(user)s is not used.")
    return (lambda named: named), note % {"path": chat.path.name, "user": user}


def names_several(chat: ChatFile) -> bool:
    """Whether the file names more than one user of whom anything can be imported; few formats name any."""
    if len(chat.users()) < 2:
        return False
    first = ""
    for read in (chat.records, chat.distilled):
        # What was distilled counts only in a file without messages.
        for item in () if first else read():
            if not isinstance(item, Rejected) and item.user:
                first = first or item.user
                if item.user != first:
                    return True
    return False
