"""Stages the files that people upload on the page of imports, stores their answers, begins, pauses and removes them.

The state of a row says what is to be done; ``working`` does it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid5

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from memoryapp.content import chat_users
from memoryapp.models import ChatUser, ImportBatch, ImportFile
from memoryapp.operations.outages import each_alone

State = ImportFile.State


class FileActionRefused(Exception):
    """The file does not allow this action now; the text is a sentence for people."""


def stage(owner: ChatUser, received: Path, source: str, asked_by: str, zone: str = "") -> ImportFile:
    """Moves the file ``received`` to the import directory and stores its row; it is rehearsed next.

    ``zone`` is the time zone of the person who uploads it, for times without a zone. Raises BeingErased, OSError.
    """
    chat_users.check_kept(owner)
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
    """Starts a rehearsed import, or continues a paused or failed one. Raises FileActionRefused.

    ``takes_changes`` is a person's decision about changed texts, None if they were not asked."""
    fields: dict[str, Any] = {"started_at": row.started_at or timezone.now()}
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


def clear(now: datetime | None = None) -> None:
    """Removes files that are not worked on and did not change for ``IMPORT_KEEP``, and old files without a row."""
    before = (now or timezone.now()) - settings.IMPORT_KEEP
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
