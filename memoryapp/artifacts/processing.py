"""Files read one after another: claimed, read, and written; a failed one is tried again after 1, 5 and 30 minutes.

The state is in the row. A worker that is killed while it reads leaves a claim that lapses, and the next one takes the
file up; a file at which workers die again and again is given up like one that cannot be read.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import media, work
from memoryapp.documents import reading
from memoryapp.documents.reading import DocumentText, Unreadable
from memoryapp.engine.chat.media import MediaError
from memoryapp.engine.events import MediaItem
from memoryapp.engine.storable import storable
from memoryapp.engine.text.digest import digest
from memoryapp.knowledge.rows import EDITABLE
from memoryapp.knowledge.writing import lock
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Work
from memoryapp.models import Media as StoredMedia

WAITS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))
# Longer than any file takes: a claim older than this is of a worker that was killed.
CLAIM = timedelta(minutes=5)
# Who wrote the summary and the keywords of a file where no chat model did.
EXTRACTIVE = "extractive"

logger = logging.getLogger(__name__)
State = Artifact.State


def due(owner: ChatUser | None = None) -> QuerySet[Artifact]:
    """Files whose bytes are here, that wait for their turn or were left by a worker that was killed; nobody's for
    whom the reading of files is paused."""
    stored = StoredMedia.objects.filter(owner=OuterRef("owner"), sha256=OuterRef("sha256"))
    waiting = Q(state__in=(State.PENDING, State.PROCESSING)) & (Q(due_at__isnull=True) | Q(due_at__lte=timezone.now()))
    owners = work.unpaused(ChatUser.objects.all(), Work.Kind.ARTIFACTS)
    rows = Artifact.objects.filter(waiting, Exists(stored), owner__in=owners)
    return (rows if owner is None else rows.filter(owner=owner)).order_by("pk")


def process_due(owner: ChatUser | None = None) -> int:
    """Reads what is due, the oldest first; how many files were read. A file that cannot be read stops no other."""
    made = 0
    for number in due(owner).values_list("pk", flat=True)[:1_000]:
        row = _claim(number)
        if row is not None:
            made += _process(row)
    return made


def retry(row: Artifact) -> None:
    """The file is read again within seconds."""
    Artifact.objects.filter(pk=row.pk).update(state=State.PENDING, attempts=0, due_at=None, fault="")


@transaction.atomic
def _claim(number: int) -> Artifact | None:
    """The row, claimed for a while; None where another worker was faster, or too many died at it."""
    row = due().filter(pk=number).select_for_update(skip_locked=True, of=("self",)).first()
    if row is None:
        return None
    if row.attempts > len(WAITS):
        _give_up(row, _("Reading the file took too much time or memory."))
        return None
    row.state, row.attempts, row.due_at = State.PROCESSING, row.attempts + 1, timezone.now() + CLAIM
    row.save(update_fields=("state", "attempts", "due_at"))
    return row


def _process(row: Artifact) -> bool:
    """Whether the file could be read."""
    kind = reading.kind_of(row.name, row.mime_type)
    try:
        if kind is None:
            raise Unreadable(_("Files of this kind cannot be read; text, Markdown, PDF and Word can."))
        item = MediaItem(row.sha256, "file", row.mime_type, row.name, row.size_bytes)
        _write(row, reading.read(media.read(row.owner_id, item).content, kind))
    except Unreadable as error:
        _give_up(row, str(error))
        return False
    except (MediaError, OSError) as error:
        _put_off(row, str(error))
        return False
    return True


@transaction.atomic
def _write(row: Artifact, found: DocumentText) -> None:
    """Writes what was read, but nothing over the words of a person."""
    lock(row.owner)
    current = Artifact.objects.select_for_update(no_key=True).filter(pk=row.pk).first()
    if current is None:
        return
    text = storable(found.text)
    made = digest(text)
    by_hand = edited_by_hand(current)
    for name in {"summary", "keywords", "entities"} - by_hand:
        setattr(current, name, getattr(made, name))
    current.text, current.is_cut, current.described_by = text, found.is_cut, EXTRACTIVE
    current.state, current.fault, current.due_at = State.READY, "", None
    current.save()


def edited_by_hand(row: Artifact) -> set[str]:
    """The fields of the artifact that a person wrote or took back, as its history tells."""
    changes = KnowledgeEdit.objects.filter(
        owner=row.owner_id, noun=KnowledgeEdit.Noun.ARTIFACT, call__isnull=True, after__has_key=str(row.pk)
    )
    # A row that came back by an undo has all its fields in the change, also those that nobody wrote.
    partial = [change.after[str(row.pk)] for change in changes if change.before.get(str(row.pk)) is not None]
    return {name for values in partial if values for name in values} & set(EDITABLE[KnowledgeEdit.Noun.ARTIFACT])


def _give_up(row: Artifact, sentence: str) -> None:
    row.state, row.fault, row.due_at = State.FAILED, sentence, None
    _save_state(row)


def _put_off(row: Artifact, sentence: str) -> None:
    """Tries again later, as long as there are tries left."""
    if row.attempts > len(WAITS):
        _give_up(row, sentence)
        return
    row.state, row.fault, row.due_at = State.PENDING, sentence, timezone.now() + WAITS[row.attempts - 1]
    _save_state(row)


def _save_state(row: Artifact) -> None:
    # An update, for a person may have edited or deleted the artifact meanwhile.
    fields = ("state", "fault", "due_at")
    Artifact.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in fields})
