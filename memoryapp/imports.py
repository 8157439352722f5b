"""A chat file into the memory of one chat user, or of the several it names.

Whose messages they are: those of the chat user the importer says when the file names nobody or one
person, and the file's own when it names several. A dry run reads and compares everything and writes
nothing, so its numbers are those the import will have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from memoryapp import erasure, work
from memoryapp.importers import ChatFile, MessageRecord, Rejected
from memoryapp.ingestion import BATCH, Added, add_messages, content_hash, sort_out, taken
from memoryapp.models import ChatUser, ImportBatch, Work

MOST_REJECTED_KEPT = 1000
# How many rejected and changed messages a report names; the rest are counted.
MOST_NAMED = 10_000


@dataclass(slots=True)
class Named:
    """Messages with which something was not right: the first ones, and how many there are."""

    items: list[Rejected] = field(default_factory=list)
    count: int = 0

    def add(self, found: Sequence[Rejected]) -> None:
        self.count += len(found)
        self.items += found[: MOST_NAMED - len(self.items)]


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file brought. ``users`` are the chat users with at least one message in it; ``changed`` are messages
    that were edited since they were imported, of which the memory keeps the text it has; ``note`` is a sentence
    when the importer's choice of a chat user was not followed, else empty."""

    users: tuple[str, ...]
    added: int
    skipped: int
    rejected: Named
    changed: Named
    note: str = ""


class _Seen:
    """The ids of a file with what they said; on the disk, for a file may hold millions."""

    def __init__(self) -> None:
        self._rows = sqlite3.connect("")
        self._rows.execute("CREATE TABLE seen (owner TEXT, id TEXT, said TEXT, PRIMARY KEY (owner, id))")

    def first(self, owner: str, record: MessageRecord) -> str:
        """The hash of what the id said when it came first in the file: this record's, if it comes now; else empty."""
        said = content_hash(record)
        row = (owner, record.external_id)
        if self._rows.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", (*row, said)).rowcount:
            return ""
        found: str = self._rows.execute("SELECT said FROM seen WHERE owner = ? AND id = ?", row).fetchone()[0]
        return found

    def close(self) -> None:
        self._rows.close()


@dataclass
class _Intake:
    """One chat user's part of a file, stored a batch at a time. ``batch`` and ``steps`` are None in a dry run."""

    chat: ChatFile
    owner: ChatUser | None
    batch: ImportBatch | None
    steps: work.Steps | None
    waiting: list[MessageRecord] = field(default_factory=list)
    changed: Named = field(default_factory=Named)
    added: int = 0
    skipped: int = 0

    def take(self, record: MessageRecord) -> None:
        self.waiting.append(record)
        if len(self.waiting) >= BATCH:
            self.store()

    def store(self) -> None:
        stored = self._stored(self.waiting)
        self.waiting = []
        self.added += stored.added
        self.skipped += stored.skipped
        self.changed.add(stored.rejected)
        if self.batch:
            self.batch.added, self.batch.skipped = self.added, self.skipped
            self.batch.save(update_fields=["added", "skipped"])
        if self.steps:
            self.steps.reached(self.added + self.skipped, self.chat.meter.share)

    def _stored(self, records: Sequence[MessageRecord]) -> Added:
        if self.owner is None:
            return Added(len(records), 0)
        if self.batch is None:
            new, known, refused = sort_out(self.owner, records)
            return Added(len(new), known, tuple(refused))
        return add_messages(self.owner, records, batch=self.batch)

    def finish(self, rejected: Sequence[Rejected]) -> None:
        self.store()
        if self.batch:
            kept = [*rejected, *self.changed.items][:MOST_REJECTED_KEPT]
            self.batch.rejected = [{"line": item.line, "reason": item.reason} for item in kept]
            self.batch.save(update_fields=["rejected"])


class _Import:
    """One file on its way into the memory."""

    def __init__(self, chat: ChatFile, seen: _Seen, rows: ExitStack, *, dry_run: bool, report: work.Report) -> None:
        self.chat, self.seen, self.rows, self.dry_run, self.report = chat, seen, rows, dry_run, report
        self.intakes: dict[str, _Intake] = {}
        self.rejected = Named()

    def take(self, item: MessageRecord | Rejected, name: str) -> None:
        if isinstance(item, Rejected):
            self.rejected.add([Rejected(item.line, item.reason, name)])
        elif not name:
            reason = _("it names no user: say whose memory this is with --user")
            self.rejected.add([Rejected(item.line, reason)])
        else:
            self._sort_in(item, name)

    def _sort_in(self, record: MessageRecord, name: str) -> None:
        if name not in self.intakes:
            self.intakes[name] = self._opened(name)
        first = self.seen.first(name, record)
        if not first:
            self.intakes[name].take(record)
        elif first == content_hash(record):
            self.intakes[name].skipped += 1
        else:
            self.rejected.add([Rejected(record.line, taken(record).reason, name)])

    def _opened(self, name: str) -> _Intake:
        if self.dry_run:
            return _Intake(self.chat, ChatUser.objects.filter(name=name).first(), None, None)
        owner = erasure.found_or_made(name)
        source = self.chat.path.name[:300]
        row = work.going_on(owner, Work.Kind.IMPORT, "import_chat", source, self.report)
        batch = ImportBatch.objects.create(owner=owner, source=source, format=self.chat.format)
        return _Intake(self.chat, owner, batch, self.rows.enter_context(row))

    def finish(self, note: str) -> Imported:
        changed = Named()
        for name, intake in self.intakes.items():
            intake.finish([item for item in self.rejected.items if item.user in ("", name)])
            changed.add(intake.changed.items)
            changed.count += intake.changed.count - len(intake.changed.items)
        return Imported(
            users=tuple(self.intakes),
            added=sum(intake.added for intake in self.intakes.values()),
            skipped=sum(intake.skipped for intake in self.intakes.values()),
            rejected=self.rejected,
            changed=changed,
            note=note,
        )


def import_chat(
    chat: ChatFile, user: str = "", *, dry_run: bool = False, report: work.Report = lambda shown: None
) -> Imported:
    """Stores the messages of ``chat`` that are not there yet; any part of it may be repeated.

    A message whose id is there with another text or time is reported as changed and left as it is: passages, topics
    and past runs were made from what is stored. How far it is stands in a row of work for each chat user, and goes
    to ``report``.
    """
    addressee, note = _addressee(chat, user)
    with closing(_Seen()) as seen, ExitStack() as rows:
        going_on = _Import(chat, seen, rows, dry_run=dry_run, report=report)
        for item in chat.records():
            going_on.take(item, addressee(item.user))
        return going_on.finish(note)


def _addressee(chat: ChatFile, user: str) -> tuple[Callable[[str], str], str]:
    """From the user a record names to the chat user who gets it, and a sentence if ``user`` is not they."""
    if not user or not _names_several(chat):
        return (lambda named: user or named), ""
    note = _("%(path)s names several users; each keeps their own messages, and %(user)s is not used.")
    return (lambda named: named), note % {"path": chat.path.name, "user": user}


def _names_several(chat: ChatFile) -> bool:
    """Whether the file names more than one user; only JSON Lines name any."""
    first = ""
    for item in chat.records() if chat.format == "jsonl" else ():
        if isinstance(item, MessageRecord) and item.user:
            first = first or item.user
            if item.user != first:
                return True
    return False
