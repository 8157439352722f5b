"""Works on an uploaded file: rehearses it, then imports it or restores a whole memory from it.

A worker locks the file on which it works, so the next sweep continues if the worker is killed: a rehearsal begins
again, an import continues in its batches. A restoration, and an import that brings topics, are one transaction each and
begin again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from memoryapp import chat_users, transfer
from memoryapp.import_files import attachments
from memoryapp.importers import ChatFile, Hints, MessageRecord, UnknownSpeaker, UnreadableFile, open_chat
from memoryapp.ingestion.imports import Addressee, Course, Paused, batch_of, import_for
from memoryapp.ingestion.rehearsal import MOST_SHOWN, Findings, rehearse, rejections
from memoryapp.models import ImportFile, Message
from memoryapp.operations import advisory_locks
from memoryapp.transfer import distilled

LOCK = "import file"
SLOT = "import slot"
# How many files are worked on at once. More would leave the worker no time for other work.
SLOTS = 2
# Seconds between updates of the progress in the row.
BEAT_SECONDS = 0.5
MOST_USERS = 1_000

State = ImportFile.State

logger = logging.getLogger(__name__)


def work_on(row: ImportFile) -> bool:
    """Does the work that the file waits for. Returns False when another worker has the file, or all slots are taken."""
    with _alone(SLOT, range(SLOTS)) as slot, _alone(LOCK, (row.pk,)) as alone:
        if not (slot and alone):
            return False
        row.refresh_from_db()
        if row.is_worked_on:
            with translation.override(row.language or settings.LANGUAGE_CODE):
                _work(row)
    return True


@contextmanager
def _alone(what: str, numbers: Any) -> Iterator[bool]:
    """Holds one of the locks during the block; yields whether one was free."""
    taken = next((number for number in numbers if advisory_locks.try_acquire(what, number)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None:
            advisory_locks.release(what, taken)


def _work(row: ImportFile) -> None:
    try:
        if row.state == State.IMPORTING and row.findings.get("restores"):
            return _restore(row)
        chat = _open(row)
        if row.state == State.REHEARSING:
            _rehearse(row, chat, _whole(row))
        else:
            _import(row, chat)
    except UnknownSpeaker as error:
        _end(row, State.ASKING, findings={"speakers": [{"author": name} for name in error.speakers]})
    except (UnreadableFile, transfer.NotEmpty, chat_users.BeingErased) as error:
        _fail(row, str(error).replace(f"{row.path}/", "").replace(str(row.path), row.source))
    except Paused:
        logger.info("The import of file %s was paused.", row.pk)


def _open(row: ImportFile) -> ChatFile:
    zone = ZoneInfo(row.timezone or "UTC")
    hints = Hints(row.owner.name, row.me, row.start, advises=False, name=row.source, zone=zone)
    return open_chat(row.path, "auto", hints)


def _whole(row: ImportFile) -> Counter[str]:
    """Returns how many rows of each kind the export of a whole memory has, if it can be restored here.

    Empty if the file is no such export, or if this memory has messages; the messages of the file are then imported.
    """
    if Message.objects.of(row.owner).exists() or not transfer.recognises(row.path):
        return Counter()
    return transfer.outline(row.path)


def _restore(row: ImportFile) -> None:
    """Restores the memory and ends the work in one transaction; progress is written outside of it."""
    watch = _Watch(row, lambda: 0.0)
    total = sum(row.findings["restores"].values())

    def stored(count: int) -> None:
        watch.share = lambda: count / max(1, total)
        _beside(watch, count)

    with transaction.atomic():
        restored = transfer.restore(row.path, row.owner.name, stored)
        numbers = {
            "added": restored.counts.get("message", 0),
            "restores": restored.counts,
            "missing_files": restored.missing_files,
        }
        if not _end(row, State.DONE, findings={**row.findings, **numbers}, done=total, share=1.0):
            raise Paused
    row.path.unlink(missing_ok=True)


def _beside(watch: _Watch, count: int) -> None:
    """Calls ``watch`` outside of the transaction in which this is called. Raises Paused."""
    with ThreadPoolExecutor(1) as beside:
        beside.submit(_on_own_connection, watch, count).result()


def _on_own_connection(watch: _Watch, count: int) -> None:
    try:
        watch(count)
    finally:
        connection.close()


def _rehearse(row: ImportFile, chat: ChatFile, whole: Counter[str]) -> None:
    if not whole and not row.addressee and len(chat.users()) > 1:
        several = _users(chat)
        if len(several) > 1:
            users = [{"name": name, "count": count} for name, count in several.items()]
            _end(row, State.ASKING, format=chat.format, findings={"users": users})
            return
    found = rehearse(row.owner, chat, addressee(row, whole), Course(stored=_Watch(row, lambda: chat.meter.share)))
    found.restores = dict(whole)
    if chat.is_distilled:
        brought = distilled.rehearse(chat, addressee(row))
        found.brings = dict(brought.new)
        found.rejected += brought.refused.count
        found.rejections = [*found.rejections, *rejections(brought.refused)][:MOST_SHOWN]
    if not found.messages and not found.timeless:
        return _fail(row, _nothing_sentence(row, found), findings=found.document(), format=chat.format)
    state = State.READY if found.messages else State.ASKING
    _end(row, state, format=chat.format, findings=found.document())


def _users(chat: ChatFile) -> dict[str, int]:
    """Returns the users that a file names, with the numbers of their messages; at most as many as a page can list."""
    counts: dict[str, int] = {}
    for item in chat.records():
        if isinstance(item, MessageRecord) and item.user and (item.user in counts or len(counts) < MOST_USERS):
            counts[item.user] = counts.get(item.user, 0) + 1
    return counts


def addressee(row: ImportFile, whole: Counter[str] | None = None) -> Addressee:
    """Returns who gets the messages: this memory (all messages, or those of one user), or each user that is named."""
    here, whose = row.owner.name, "" if whole else row.addressee
    if whose == ImportFile.EVERYBODY:
        return lambda named: named or here
    return lambda named: here if not whose or named in ("", whose) else None


def _nothing_sentence(row: ImportFile, found: Findings) -> str:
    sentence = _("No message could be read from %(path)s.") % {"path": row.source}
    first = found.rejections[:1]
    return f"{sentence} {first[0]['line']}: {first[0]['reason']}." if first else sentence


def _import(row: ImportFile, chat: ChatFile) -> None:
    watch = _Watch(row, lambda: chat.meter.share)
    taker = row.asked_by if row.takes_changes else ""
    with distilled.one_transaction(chat, addressee(row)) as opened:
        stored = partial(_beside, watch) if chat.is_distilled else watch
        course = Course(worker="worker", source=row.source, key=row.key, stored=stored, taker=taker, opened=opened)
        imported = import_for(chat, addressee(row), course)
        batch = partial(batch_of, key=row.key, source=row.source, format=chat.format)
        brought = distilled.store(chat, addressee(row), lambda owner: batch(owner)[0], actor=row.asked_by)
    artifacts = attachments.take(row.path, chat, addressee(row))
    numbers = {
        "added": imported.added,
        "skipped": imported.skipped,
        "brings": dict(brought.new),
        "rejected": imported.rejected.count + brought.refused.count,
        "changed": imported.changed.count,
        "taken": imported.taken,
        "artifacts": artifacts,
    }
    done = imported.added + imported.skipped
    _end(row, State.DONE, findings={**row.findings, **numbers}, done=done, share=1.0)
    row.path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Watch:
    """Writes the progress into the row. Raises Paused when the row is gone or its state has changed."""

    row: ImportFile
    share: Callable[[], float]
    _written: float = 0.0

    def __call__(self, count: int) -> None:
        rows = ImportFile.objects.filter(pk=self.row.pk, state=self.row.state)
        if time.monotonic() - self._written >= BEAT_SECONDS:
            self._written = time.monotonic()
            is_wanted = bool(rows.update(done=count, share=self.share(), at=timezone.now()))
        else:
            is_wanted = rows.exists()
        if not is_wanted:
            raise Paused


def _end(row: ImportFile, state: State, **fields: Any) -> bool:
    """Ends this work unless somebody stopped it meanwhile. Returns whether it did."""
    fields = {"share": 0.0, "done": 0, "fault": "", **fields, "state": state, "at": timezone.now()}
    return bool(ImportFile.objects.filter(pk=row.pk, state=row.state).update(**fields))


def _fail(row: ImportFile, sentence: str, **fields: Any) -> None:
    _end(row, State.FAILED, fault=sentence, **fields)


def fail(row: ImportFile) -> None:
    """Marks the file as failed after a fault of the program; it waits until a person tries again."""
    with translation.override(row.language or settings.LANGUAGE_CODE):
        _fail(row, _("A fault in the program stopped this; the log has it. Nothing is lost: try again."))
