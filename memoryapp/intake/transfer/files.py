"""Files that people uploaded on the page of imports, until they are imported, restored or removed. In: an uploaded
file, a person's answers and decisions. Out: its row with the findings, and messages or a whole memory. It imports
ingestion, which rehearses and imports chats, and transfer, which restores memories."""

from __future__ import annotations

import logging
import os
import re
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from uuid import uuid5
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone, translation
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from memoryapp import importers
from memoryapp.engine.sight import Sight, looking
from memoryapp.intake import artifacts, transfer
from memoryapp.intake.imports import Addressee, Course, Paused, batch_of, import_for
from memoryapp.intake.rehearsal import MOST_CHARS, MOST_SHOWN, Findings, reasons_of, rehearse, rejections
from memoryapp.intake.transfer import distilled
from memoryapp.memory import content, documents
from memoryapp.models import ChatUser, ImportBatch, ImportFile, Message
from memoryapp.platform import database, work
from memoryapp.platform.caps import QuotaReached, check_room
from memoryapp.platform.database import each_alone
from memoryapp.platform.storage import NoSpace, check_space

# Stages the files that people upload on the page of imports, stores their answers, begins, pauses and removes them.
#
# The state of a row says what is to be done; ``working`` does it.

State = ImportFile.State


class FileActionRefused(Exception):
    """The file does not allow this action now; the text is a sentence for people."""


def stage(owner: ChatUser, received: Path, source: str, asked_by: str, zone: str = "") -> ImportFile:
    """Moves the file ``received`` to the import directory and stores its row; it is rehearsed next. ``zone`` is the
    time zone of the person who uploads it, for times without a zone. Raises BeingErased, OSError."""
    content.check_kept(owner)
    settings.IMPORT_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    size, who = received.stat().st_size, asked_by[:150]
    given = {"source": _name(source), "size_bytes": size, "asked_by": who, "timezone": zone}
    row = ImportFile(owner=owner, language=get_language(), **given)
    # The file comes first: a row must never name a file that is not there.
    os.replace(received, row.path)
    row.path.chmod(0o600)
    row.save()
    return row


def _name(source: str) -> str:
    """What the browser calls the file, as one line."""
    plain = "".join(sign for sign in source.replace("\\", "/").rpartition("/")[2] if sign.isprintable())
    return plain.strip()[:300] or _("a file without a name")


def answer(row: ImportFile, **answers: Any) -> None:
    """Stores a person's answers to what the file does not say; it is rehearsed again. Raises FileActionRefused."""
    _move(row, (State.ASKING, State.READY, State.FAILED), State.REHEARSING, **answers)


def begin(row: ImportFile, *, takes_changes: bool | None = None) -> None:
    """Starts a rehearsed import, or continues a paused or failed one. Raises FileActionRefused. ``takes_changes`` is a
    person's decision about changed texts, None if they were not asked."""
    fields: dict[str, Any] = {"started_at": row.started_at or timezone.now()}
    found = row.findings
    coming = found.get("added") or found.get("restores", {}).get("message", 0)
    try:
        check_room(row.owner, messages=coming * (row.addressee != ImportFile.EVERYBODY))
    except QuotaReached as error:
        raise FileActionRefused(str(error)) from None
    if takes_changes is not None:
        fields["takes_changes"] = takes_changes
    _move(row, (State.READY, State.PAUSED, State.FAILED), State.IMPORTING, **fields)


def pause(row: ImportFile) -> None:
    _move(row, (State.IMPORTING,), State.PAUSED, share=row.share, done=row.done)


def discard(row: ImportFile) -> None:
    """Removes the row and its file. What it brought stays, and can be undone as an import. Raises FileActionRefused."""
    with transaction.atomic():
        if ImportFile.objects.filter(pk=row.pk, state=State.IMPORTING).exists():
            raise FileActionRefused(_("Pause the import first."))
        ImportFile.objects.filter(pk=row.pk).delete()
    row.path.unlink(missing_ok=True)


def _move(row: ImportFile, before: tuple[State, ...], after: State, **fields: Any) -> None:
    """Changes the state. Raises FileActionRefused when it is no longer one of ``before``."""
    begins = {"state": after, "fault": "", "share": 0.0, "done": 0, "attempts": 0, "at": timezone.now()}
    fields = {**begins, "language": get_language(), **fields}
    if not ImportFile.objects.filter(pk=row.pk, state__in=before).update(**fields):
        raise FileActionRefused(_("This was decided meanwhile; the page shows the decision."))
    row.refresh_from_db()


def unfinished() -> QuerySet[ImportFile]:
    """Returns the files that wait for a worker, the longest waiting first."""
    return ImportFile.objects.filter(state__in=(State.REHEARSING, State.IMPORTING)).order_by("asked_at", "pk")


def batches(row: ImportFile) -> QuerySet[ImportBatch]:
    """Returns the file's batches so far: one for each chat user, and one for changed texts taken over."""
    keys = (row.key, uuid5(row.key, "wordings"))
    return ImportBatch.objects.filter(file__in=keys).select_related("owner").order_by("pk")


def clear() -> None:
    """Removes files that are not worked on and did not change for ``IMPORT_KEEP``, and old files without a row."""
    before = timezone.now() - settings.IMPORT_KEEP
    rows = ImportFile.objects.exclude(state__in=(State.REHEARSING, State.IMPORTING)).filter(at__lt=before)
    each_alone(rows, "File %s is not removed.", _discard_if_possible)
    if not settings.IMPORT_DIR.is_dir():
        return
    kept = {str(key) for key in ImportFile.objects.values_list("key", flat=True)}
    for path in settings.IMPORT_DIR.iterdir():
        if path.name not in kept and _age(path) > settings.IMPORT_KEEP.total_seconds():
            path.unlink(missing_ok=True)


def _discard_if_possible(row: ImportFile) -> None:
    with suppress(FileActionRefused):
        discard(row)


def _age(path: Path) -> float:
    """Seconds since the file was written to."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


# Makes documents in the zip of a chat artifacts of the messages to which they were attached.
#
# A message refers to them by a path in its metadata, or by a mark at the beginning of its text (in WhatsApp's
# format).

# Bytes of one document; a larger one is left in its zip.
MOST_BYTES = 20_000_000

_MARK = re.compile(r"\[file: ([^\]\n]{1,200})\]")
_FIELDS = ("file", "photo")


def take(path: Path, chat: importers.ChatFile, addressee: Addressee) -> int:
    """Returns the number of new artifacts; skips files that are artifacts already or whose artifact was deleted."""
    if not zipfile.is_zipfile(path):
        return 0
    made = 0
    with zipfile.ZipFile(path) as archive:
        beside = _by_name(archive)
        for record in chat.records() if beside else ():
            if isinstance(record, importers.MessageRecord) and (name := addressee(record.user)):
                made += sum(_put(archive, info, record, name) for info in _files(record, beside))
    return made


def _by_name(archive: zipfile.ZipFile) -> dict[str, list[zipfile.ZipInfo]]:
    """Returns the documents that can be read, by the last part of their path."""
    found: dict[str, list[zipfile.ZipInfo]] = {}
    for info in archive.infolist():
        name = info.filename.rpartition("/")[2]
        if info.file_size <= MOST_BYTES and documents.kind_of(name, ""):
            found.setdefault(name, []).append(info)
    return found


def _files(record: importers.MessageRecord, beside: Mapping[str, list[zipfile.ZipInfo]]) -> Iterator[zipfile.ZipInfo]:
    for path in _paths(record):
        named = beside.get(path.rpartition("/")[2], ())
        yield from [info for info in named if f"/{info.filename}".endswith(f"/{path}")][:1]


def _paths(record: importers.MessageRecord) -> Iterator[str]:
    attachments: Any = record.metadata.get("attachments")
    for item in attachments if isinstance(attachments, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("path"), str):
            yield item["path"]
    yield from (value for name in _FIELDS if isinstance(value := record.metadata.get(name), str))
    if found := _MARK.match(record.text):
        yield found[1]


def _put(archive: zipfile.ZipFile, info: zipfile.ZipInfo, record: importers.MessageRecord, owner: str) -> bool:
    """Makes an artifact, unless the document cannot be unpacked. Returns whether it did."""
    message = Message.objects.filter(owner__name=owner, external_id=record.external_id).first()
    if message is None:
        return False
    try:
        with archive.open(info) as file:
            # The size in the zip's directory may be wrong.
            content = file.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return False
    name = info.filename.rpartition("/")[2]
    mime_type = guess_type(name)[0] or "text/plain"
    return 0 < len(content) <= MOST_BYTES and artifacts.attach(message, name, mime_type, content)


# Works on an uploaded file: rehearses it, then imports it or restores a whole memory from it.
#
# A worker locks the file on which it works, so the next sweep continues if the worker is killed: a rehearsal begins
# again, an import continues in its batches. A restoration, and an import that brings topics, are one transaction each
# and begin again. A file that is discarded or paused is left within a second, wherever its reading is, and a file at
# which the worker was lost several times waits for a person.

LOCK = "import file"
SLOT = "import slot"
# How many files are worked on at once. More would leave the worker no time for other work.
SLOTS = 2
# Seconds between updates of the progress in the row.
BEAT_SECONDS = 0.5
MOST_USERS = 1_000
# How many chats of a file a page lists; Django takes 1,000 fields of a form.
MOST_CHATS = 500
# How often a file is begun when the worker is lost each time.
MOST_ATTEMPTS = 3


logger = logging.getLogger(__name__)


def work_on(row: ImportFile) -> bool:
    """Does the work that the file waits for. Returns False when another worker has the file, or all slots are taken."""
    with _alone(SLOT, range(SLOTS)) as slot, _alone(LOCK, (row.pk,)) as alone:
        if not (slot and alone):
            return False
        row.refresh_from_db()
        if row.is_worked_on:
            with translation.override(row.language or settings.LANGUAGE_CODE):
                _attempt(row)
    return True


@contextmanager
def _alone(what: str, numbers: Any) -> Iterator[bool]:
    """Holds one of the locks during the block; yields whether one was free."""
    taken = next((number for number in numbers if database.try_acquire(what, number)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None:
            database.release(what, taken)


def _attempt(row: ImportFile) -> None:
    """Works on the file, unless the worker was lost at it too often. An end by an error is no loss."""
    if row.attempts >= MOST_ATTEMPTS:
        sentence = _(
            "The worker was lost %(count)s times while it read this file, which may be too large or damaged. Nothing "
            "is lost: try again, or remove the file."
        )
        return _fail(row, sentence % {"count": row.attempts})
    rows = ImportFile.objects.filter(pk=row.pk)
    rows.update(attempts=row.attempts + 1)
    try:
        _work(row)
    finally:
        with suppress(DatabaseError):
            rows.update(attempts=0)


def _work(row: ImportFile) -> None:
    watch = _Watch(row)
    try:
        if row.state == State.IMPORTING and row.findings.get("restores"):
            return _restore(row, watch)
        chat = _open(row, watch)
        watch.share = lambda: chat.meter.share
        if row.state == State.REHEARSING:
            _rehearse(row, chat, _whole(row, watch), watch)
        else:
            with looking(Sight(None, row.project)):
                _import(row, chat, watch)
    except importers.UnknownSpeaker as error:
        _end(row, State.ASKING, findings={"speakers": [{"author": name} for name in error.speakers]})
    except importers.UnknownOrder as error:
        _end(row, State.ASKING, findings={"dates": error.example})
    except (importers.UnreadableFile, transfer.NotEmpty, content.BeingErased, NoSpace, QuotaReached) as error:
        _fail(row, str(error).replace(f"{row.path}/", "").replace(str(row.path), row.source))
    except Paused:
        logger.info("The import of file %s was paused.", row.pk)


def _open(row: ImportFile, watch: _Watch) -> importers.ChatFile:
    zone = ZoneInfo(row.timezone or "UTC")
    hints = importers.Hints(
        row.owner.name,
        row.me,
        row.start,
        advises=False,
        name=row.source,
        zone=zone,
        dates=row.dates,
        chats=frozenset(name.casefold() for name in row.chats),
        since=row.since,
        until=row.until,
    )
    return importers.open_chat(row.path, "auto", hints, watch.ask)


def _whole(row: ImportFile, watch: _Watch) -> Counter[str]:
    """Returns how many rows of each kind the export of a whole memory has, if it can be restored here. Empty if the
    file is no such export, or if this memory has messages; the messages of the file are then imported."""
    if Message.objects.of(row.owner).exists() or not transfer.recognises(row.path, watch.ask):
        return Counter()
    return transfer.outline(row.path, watch.ask)


def _restore(row: ImportFile, watch: _Watch) -> None:
    """Restores the memory and ends the work in one transaction; progress is written outside of it."""
    total = sum(row.findings["restores"].values())
    watch.is_beside, watch.share = True, lambda: watch.count / max(1, total)
    with transaction.atomic():
        restored = transfer.restore(row.path, row.owner.name, watch, watch.ask)
        numbers = {
            "added": restored.counts.get("message", 0),
            "restores": restored.counts,
            "missing_files": restored.missing_files,
        }
        if not _end(row, State.DONE, findings={**row.findings, **numbers}, done=total, share=1.0):
            raise Paused
    row.path.unlink(missing_ok=True)


def _rehearse(row: ImportFile, chat: importers.ChatFile, whole: Counter[str], watch: _Watch) -> None:
    if not whole and not row.addressee and len(chat.users()) > 1:
        several = _users(chat)
        if len(several) > 1:
            users = [{"name": name, "count": count} for name, count in several.items()]
            _end(row, State.ASKING, format=chat.format, findings={"users": users})
            return
    found = rehearse(row.owner, chat, addressee(row, whole), Course(stored=watch))
    found.restores = dict(whole)
    chats = chat.chats()
    found.chats, found.more_chats = [asdict(each) for each in chats[:MOST_CHATS]], max(0, len(chats) - MOST_CHATS)
    if chat.is_distilled:
        _add_brought(found, distilled.rehearse(chat, addressee(row)))
    has_any = bool(found.messages or found.brings or found.brought_before or whole)
    if not has_any and not found.timeless and not (row.chats or row.since or row.until):
        return _fail(row, _nothing_sentence(row, found), findings=found.document(), format=chat.format)
    state = State.ASKING if found.timeless and not has_any else State.READY
    _end(row, state, format=chat.format, findings=found.document())


def _add_brought(found: Findings, brought: distilled.DistilledCounts) -> None:
    """Adds what another program had made of the messages."""
    found.brings, found.brought_before = dict(brought.new), dict(brought.known)
    found.rejected += brought.refused.count
    found.rejected_reasons |= reasons_of(brought.refused)
    found.rejections = [*found.rejections, *rejections(brought.refused)][:MOST_SHOWN]
    found.left_out = dict(Counter(found.left_out) + brought.left_out)
    if not found.samples:
        found.samples = [
            {"author": fact.category, "role": "", "at": fact.created_at.isoformat(), "text": fact.content[:MOST_CHARS]}
            for fact in brought.samples
        ]


def _users(chat: importers.ChatFile) -> dict[str, int]:
    """Returns the users that a file names, each with the number of what it has; at most as many as a page can list."""
    counts: dict[str, int] = {}
    for read in (chat.records, chat.distilled):
        # What was distilled counts only in a file without messages.
        for item in () if counts else read():
            is_whole = not isinstance(item, importers.Rejected) and item.user
            if is_whole and (item.user in counts or len(counts) < MOST_USERS):
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
    if first := found.rejections[:1]:
        return f"{sentence} {first[0]['line']}: {first[0]['reason']}."
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in found.left_out.items())
    return f"{sentence} {_('Left out: %(reasons)s.') % {'reasons': reasons}}" if reasons else sentence


def _import(row: ImportFile, chat: importers.ChatFile, watch: _Watch) -> None:
    taker = row.asked_by if row.takes_changes else ""
    watch.is_beside = chat.is_distilled
    with distilled.one_transaction(chat, addressee(row)) as opened:
        course = Course(worker="worker", source=row.source, key=row.key, stored=watch, taker=taker, opened=opened)
        imported = import_for(chat, addressee(row), course)
        batch = partial(batch_of, key=row.key, source=row.source, format=chat.format)
        brought = distilled.store(chat, addressee(row), lambda owner: batch(owner)[0], actor=row.asked_by)
    artifacts = take(row.path, chat, addressee(row))
    numbers = {
        "added": imported.added,
        "skipped": imported.skipped,
        "brings": dict(brought.new),
        "brought_before": dict(brought.known),
        "rejected": imported.rejected.count + brought.refused.count,
        "rejected_reasons": reasons_of(imported.rejected) | reasons_of(brought.refused),
        "changed": imported.changed.count,
        "left_out": dict(Counter(imported.left_out) + brought.left_out),
        "taken": imported.taken,
        "artifacts": artifacts,
    }
    done = imported.added + imported.skipped
    # A pause after the last batch comes too late: all is stored.
    _end(row, State.DONE, (State.PAUSED,), findings={**row.findings, **numbers}, done=done, share=1.0)
    row.path.unlink(missing_ok=True)
    if imported.added:
        _make_topics(row)


def _make_topics(row: ImportFile) -> None:
    """Asks for the topics of what was imported, also of a session that may still go on."""
    for batch in ImportBatch.objects.filter(file=row.key, added__gt=0).select_related("owner"):
        work.ask_to_archive(batch.owner, row.asked_by)


@dataclass(slots=True)
class _Watch:
    """Writes the progress into the row. Raises Paused when the row is gone or its state has changed, and NoSpace. It is
    called with the number of messages so far; ``ask`` looks without one. With ``is_beside``, it works outside of the
    transaction in which it is called."""

    row: ImportFile
    share: Callable[[], float] = lambda: 0.0
    is_beside: bool = False
    count: int = 0
    _written: float = 0.0

    def __call__(self, count: int) -> None:
        if not self.count:
            # The first batch is shown at once.
            self._written = 0.0
        self.count = count
        self.ask()

    def ask(self) -> None:
        if not self.is_beside:
            return self._look()
        with ThreadPoolExecutor(1) as beside:
            beside.submit(self._on_own_connection).result()

    def _on_own_connection(self) -> None:
        try:
            self._look()
        finally:
            connection.close()

    def _look(self) -> None:
        rows = ImportFile.objects.filter(pk=self.row.pk, state=self.row.state)
        if time.monotonic() - self._written >= BEAT_SECONDS:
            self._written = time.monotonic()
            is_wanted = bool(rows.update(done=self.count, share=self.share(), at=timezone.now(), **self._progress()))
        else:
            is_wanted = rows.exists()
        if not is_wanted:
            raise Paused
        if self.row.state == State.IMPORTING:
            check_space(settings.IMPORT_DIR)

    def _progress(self) -> dict[str, int]:
        """Returns what stored batches change: an import that continues in them is begun as often as it needs."""
        goes_on = self.count and not self.is_beside and self.row.state == State.IMPORTING
        return {"attempts": 0} if goes_on else {}


def _end(row: ImportFile, state: State, stopped: tuple[State, ...] = (), **fields: Any) -> bool:
    """Ends this work unless somebody removed the file or stopped it meanwhile, except by one of the states ``stopped``.
    Returns whether it did."""
    fields = {"share": 0.0, "done": 0, "fault": "", **fields, "state": state, "at": timezone.now()}
    return bool(ImportFile.objects.filter(pk=row.pk, state__in=(row.state, *stopped)).update(**fields))


def _fail(row: ImportFile, sentence: str, **fields: Any) -> None:
    _end(row, State.FAILED, fault=sentence, **fields)


def fail(row: ImportFile) -> None:
    """Marks the file as failed after a fault of the program; it waits until a person tries again."""
    with translation.override(row.language or settings.LANGUAGE_CODE):
        _fail(row, _("A fault in the program stopped this; the log has it. Nothing is lost: try again."))
