"""A chat file into the memory of one chat user, or of the several it names.

Whose messages they are: those of the chat user the importer says when the file names nobody or one
person, and the file's own when it names several. A dry run reads and compares everything and writes
nothing, so its numbers are those the import will have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from memoryapp import erasure
from memoryapp.importers import ChatFile, MessageRecord, Rejected
from memoryapp.ingestion import BATCH, Added, add_messages, sort_out, taken
from memoryapp.models import ChatUser, ImportBatch

MOST_REJECTED_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file brought. ``users`` are the chat users with at least one message in it; ``note`` is a
    sentence when the importer's choice of a chat user was not followed, else empty."""

    users: tuple[str, ...]
    added: int
    skipped: int
    rejected: tuple[Rejected, ...]
    note: str = ""


@dataclass
class _Intake:
    """One chat user's part of a file, stored a batch at a time. ``batch`` is None in a dry run."""

    owner: ChatUser | None
    batch: ImportBatch | None
    waiting: list[MessageRecord] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    added: int = 0
    skipped: int = 0

    def take(self, record: MessageRecord) -> None:
        content = hash((record.sent_at, record.text))
        if record.external_id not in self.seen:
            self.seen[record.external_id] = content
            self.waiting.append(record)
        elif self.seen[record.external_id] == content:
            self.skipped += 1
        else:
            self.rejected.append(taken(record))
        if len(self.waiting) >= BATCH:
            self.store()

    def store(self) -> None:
        stored = self._stored(self.waiting)
        self.waiting = []
        self.added += stored.added
        self.skipped += stored.skipped
        self.rejected += stored.rejected
        if self.batch:
            self.batch.added, self.batch.skipped = self.added, self.skipped
            self.batch.save(update_fields=["added", "skipped"])

    def _stored(self, records: Sequence[MessageRecord]) -> Added:
        if self.owner is None:
            return Added(len(records), 0)
        if self.batch is None:
            new, known, refused = sort_out(self.owner, records)
            return Added(len(new), known, tuple(refused))
        return add_messages(self.owner, records, batch=self.batch)

    def finish(self, unread: Sequence[Rejected]) -> None:
        self.store()
        if self.batch:
            kept = [*unread, *self.rejected][:MOST_REJECTED_KEPT]
            self.batch.rejected = [{"line": item.line, "reason": item.reason} for item in kept]
            self.batch.save(update_fields=["rejected"])


def import_chat(chat: ChatFile, user: str = "", *, dry_run: bool = False) -> Imported:
    """Stores the messages of ``chat`` that are not there yet; any part of it may be repeated."""
    addressee, note = _addressee(chat, user)
    intakes: dict[str, _Intake] = {}
    unread: list[Rejected] = []
    for item in chat.records():
        name = addressee(item.user)
        if isinstance(item, Rejected):
            unread.append(Rejected(item.line, item.reason, name))
        elif not name:
            unread.append(Rejected(item.line, _("it names no user: say whose memory this is with --user")))
        else:
            if name not in intakes:
                intakes[name] = _open(chat, name, dry_run)
            intakes[name].take(item)
    for name, intake in intakes.items():
        intake.finish([item for item in unread if item.user in ("", name)])
    return Imported(
        users=tuple(intakes),
        added=sum(intake.added for intake in intakes.values()),
        skipped=sum(intake.skipped for intake in intakes.values()),
        rejected=(*unread, *(item for intake in intakes.values() for item in intake.rejected)),
        note=note,
    )


def _addressee(chat: ChatFile, user: str) -> tuple[Callable[[str], str], str]:
    """From the user a record names to the chat user who gets it, and a sentence if ``user`` is not they."""
    if not user or not _names_several(chat):
        return (lambda named: user or named), ""
    note = _("%(path)s names several users; each keeps their own messages, and %(user)s is not used.")
    return (lambda named: named), note % {"path": chat.path.name, "user": user}


def _names_several(chat: ChatFile) -> bool:
    first = ""
    for item in chat.records():
        if isinstance(item, MessageRecord) and item.user:
            first = first or item.user
            if item.user != first:
                return True
    return False


def _open(chat: ChatFile, name: str, dry_run: bool) -> _Intake:
    if dry_run:
        return _Intake(ChatUser.objects.filter(name=name).first(), None)
    owner = erasure.found_or_made(name)
    return _Intake(owner, ImportBatch.objects.create(owner=owner, source=chat.path.name[:300], format=chat.format))
