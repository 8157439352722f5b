"""Erases a chat user: every row and every file, and counts the deleted rows of each table.

First the chat user is marked: from then on pages and the API hide them, and new messages and runs are refused. Then
their rows are deleted, one batch in each transaction, which also counts it. If the process is killed, the worker
continues where it stopped. A process that was writing when the chat user was marked may still write. So the row of the
chat user is deleted last; while any row refers to it the database refuses, and the tables are processed once more.
"""

import gzip
import logging
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.db.models import Count, Model, QuerySet
from django.utils import timezone

from memoryapp import models
from memoryapp.erasure.marks import ERASED, Marks
from memoryapp.intake.transfer import files
from memoryapp.memory.content import erased
from memoryapp.models.user import Owned
from memoryapp.platform import database
from memoryapp.platform.cells import of_owner
from memoryapp.platform.embedded import paths
from memoryapp.platform.webhooks.announcing import ERASURE_FINISHED, announce

# Deletes rows with their files and with the log entries that quote them, and counts them by table.

# The key under which a receipt counts files, beside the names of tables.
FILES = "files"


def deleted(rows: QuerySet[Any]) -> Counter[str]:
    """Deletes the rows, the rows that refer to them, and entries of the administration's log that quote them; counts by
    table."""
    numbers = list(rows.values_list("pk", flat=True))
    if not numbers:
        return Counter()
    gone: Counter[str] = Counter()
    if rows.model in (models.Person, models.Artifact):
        # Django would delete them after their rows, with which the database deletes them uncounted.
        gone += by_table(models.Card.objects.filter(**{f"{rows.model._meta.model_name}__in": numbers}).delete()[1])
    gone += by_table(rows.model._base_manager.filter(pk__in=numbers).delete()[1])
    return gone + delete_log_entries(rows.model, numbers)


def delete_media(batch: QuerySet[Any]) -> Counter[str]:
    """Deletes the rows, and the files that no other row refers to; returns counts by table."""
    media = list(batch)
    for path in sorted(row.path for row in media):
        database.acquire_until_commit(path, 0)
    gone = by_table(batch.delete()[1])
    shared = set(models.Media.objects.filter(sha256__in=[row.sha256 for row in media]).values_list("sha256", flat=True))
    for row in media:
        if row.sha256 not in shared:
            default_storage.delete(row.path)
            gone[FILES] += 1
    return gone


def delete_log_entries(model: type[Model], numbers: Sequence[Any]) -> Counter[str]:
    """Deletes the entries of the administration's log about these rows, because they quote them; returns counts."""
    kind = ContentType.objects.get_for_model(model)
    rows = LogEntry.objects.filter(content_type=kind, object_id__in=[str(number) for number in numbers])
    return by_table(rows.delete()[1])


def by_table(gone: Mapping[str, int]) -> Counter[str]:
    """Returns the counts that Django names by model, by table instead."""
    return Counter({apps.get_model(label)._meta.db_table: count for label, count in gone.items() if count})


ERASER = "erase"
# Tables in the order of deletion, each with the tables that refer to it, and the number of rows in a transaction: a run
# has hundreds of events.
_ROOTS: Sequence[tuple[type[Model], int]] = (
    (models.WebhookDelivery, 1_000),
    (models.Run, 100),
    (models.Suggestion, 1_000),
    (models.Finding, 1_000),
    (models.Fact, 1_000),
    # Before their rows, with which the database would delete them uncounted.
    (models.Card, 1_000),
    (models.Artifact, 1_000),
    (models.Person, 1_000),
    (models.KnowledgeEdit, 1_000),
    (models.Passage, 1_000),
    (models.Message, 1_000),
    (models.TopicEdit, 1_000),
    (models.Topic, 1_000),
    (models.ImportBatch, 1_000),
    (models.Access, 1_000),
    (models.ExpiryRule, 1_000),
)
_MOST = 1_000
_TIMES = 10

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Holding:
    """How much there is to erase, for the person who decides; ``findings`` are those that wait for a decision."""

    messages: int
    topics: int
    runs: int
    people: int
    facts: int
    artifacts: int
    findings: int
    imports: int
    media: int
    tokens: int


def holding(owner: models.ChatUser) -> Holding:
    """Returns what would be erased with this chat user."""
    nouns: dict[str, type[Owned]] = {
        "messages": models.Message,
        "topics": models.Topic,
        "runs": models.Run,
        "people": models.Person,
    }
    nouns |= {"facts": models.Fact, "artifacts": models.Artifact, "imports": models.ImportBatch, "media": models.Media}
    return Holding(
        **{noun: model._base_manager.filter(owner=owner).count() for noun, model in nouns.items()},
        findings=models.Finding.objects.filter(owner=owner, state=models.Finding.State.WAITING).count(),
        tokens=_own_tokens(owner).count(),
    )


@of_owner
def begin_user(owner: models.ChatUser, actor: str) -> models.Erasure:
    """Hides the chat user for good; an erasure that began earlier continues. The rows exist until ``finish_user``."""
    with transaction.atomic():
        # Stronger locks than a referring row takes, so they wait for those who are writing now.
        list(models.Talk.objects.select_for_update().filter(owner=owner))
        row = models.ChatUser.with_erased.select_for_update().get(pk=owner.pk)
        if row.erasing_since is None:
            row.erasing_since = timezone.now()
            row.save(update_fields=["erasing_since"])
            models.Run.objects.of(row).exclude(state=models.Run.State.FINISHED).update(state=models.Run.State.FINISHED)
        return models.Erasure.objects.get_or_create(
            owner_number=row.pk,
            kind=models.Erasure.Kind.USER,
            defaults={"actor": actor, "salt": secrets.token_bytes(32)},
        )[0]


def finish_user(erasure: models.Erasure) -> models.Erasure:
    """Continues an erasure to its end. While another process works on it, waits for that one, at most an hour; the
    receipt has no ``ended_at`` when that was too short."""
    with database.exclusive(ERASER, erasure.owner_number, wait=timedelta(hours=1)) as is_alone:
        if is_alone:
            _go_through(erasure)
    erasure.refresh_from_db()
    return erasure


def _go_through(erasure: models.Erasure) -> None:
    """Processes all tables until the chat user itself is deleted. Raises IntegrityError when new rows come
    each time."""
    for last in (*[False] * _TIMES, True):
        erasure.refresh_from_db()
        if erasure.ended_at is not None:
            return
        try:
            _forget_golden_sets(erasure.owner_number)
            for model, at_once in (*_ROOTS, *_others()):
                _in_batches(erasure, model, at_once, _delete)
            _in_batches(erasure, models.Media, 100, delete_media)
            _in_batches(erasure, models.ImportFile, 100, _delete_import_files)
            _delete_owner(erasure)
        except IntegrityError:
            if last:
                raise
            logger.info("Rows were written while erasure %s ran; its tables are gone through once more.", erasure.pk)


@transaction.atomic
def _forget_golden_sets(owner: int) -> None:
    """Ends the nights of golden sets in which nobody else has a question, and erases the names of those sets from
    evaluations. Before the questions go: afterwards nothing would tell whose name it was."""
    sets = models.GoldenQuestion.objects.order_by().values_list("collection", flat=True)
    gone = set(sets.filter(owner=owner)) - set(sets.exclude(owner=owner))
    models.NightlyRun.objects.filter(collection__in=gone).update(collection=ERASED, is_on=False)
    models.Evaluation.objects.filter(source__in=gone).update(source=ERASED)


def _others() -> Iterator[tuple[type[Owned], int]]:
    """Tables whose rows are deleted with those of others; rows remain only if they were written meanwhile."""
    known = {model for model, _at_once in _ROOTS} | {models.Media, models.ImportFile, models.Talk}
    for model in apps.get_app_config("memoryapp").get_models():
        if issubclass(model, Owned) and model not in known:
            yield model, _MOST


def _in_batches(
    erasure: models.Erasure, model: type[Model], at_once: int, delete: Callable[[QuerySet[Any]], Counter[str]]
) -> None:
    rows = model._base_manager.filter(owner=erasure.owner_number)
    while True:
        with transaction.atomic():
            # Without an order: ordered by id, the database might scan everybody's rows to find a few.
            numbers = list(rows.order_by().values_list("pk", flat=True)[:at_once])
            if not numbers:
                return
            batch = model._base_manager.filter(pk__in=numbers)
            _count(erasure, delete(batch) + delete_log_entries(model, numbers))


def _delete(batch: QuerySet[Any]) -> Counter[str]:
    return by_table(batch.delete()[1])


def _delete_import_files(batch: QuerySet[Any]) -> Counter[str]:
    """Deletes the rows, and the files that wait to be imported; returns counts by table."""
    paths = [row.path for row in batch]
    gone = _delete(batch)
    for path in paths:
        if path.exists():
            path.unlink(missing_ok=True)
            gone[FILES] += 1
    return gone


def _delete_owner(erasure: models.Erasure) -> None:
    number = erasure.owner_number
    tokens = list(_own_tokens(number).values_list("pk", flat=True))
    with transaction.atomic():
        gone = delete_log_entries(models.ApiToken, tokens) + by_table(
            models.ApiToken.objects.filter(pk__in=tokens).delete()[1]
        )
        gone += delete_log_entries(models.ChatUser, [number]) + _raw(
            models.ApiToken.owners.through.objects.filter(chatuser=number)
        )
        # The other rows refer to it.
        gone += _raw(models.Talk.objects.filter(owner=number))
        erasure.ended_at = timezone.now()
        erasure.save(update_fields=["ended_at"])
        _count(erasure, gone + _raw(models.ChatUser.with_erased.filter(pk=number)))
        announce(ERASURE_FINISHED, subject=str(erasure.pk))
    erased.send(models.ChatUser, number=number)


def _own_tokens(owner: models.ChatUser | int) -> QuerySet[models.ApiToken]:
    """Tokens that open this memory and no other."""
    alone = models.ApiToken.objects.annotate(opened=Count("owners")).filter(opened=1).values("pk")
    return models.ApiToken.objects.filter(owners=owner, pk__in=alone).exclude(
        scopes__contains=[models.ApiToken.Scope.EVERYONE]
    )


def _raw(rows: QuerySet[Any]) -> Counter[str]:
    """Deletes only these rows; the database refuses if another row refers to one."""
    return Counter({rows.model._meta.db_table: rows._raw_delete(rows.db)})


def _count(erasure: models.Erasure, gone: Counter[str]) -> None:
    erasure.counts = dict(Counter(erasure.counts) + gone)
    erasure.save(update_fields=["counts"])


# Files of the data folder that quote erased words: lines of logs are blanked, files waiting for import are removed.
#
# Processes may be writing to a log meanwhile, so a line keeps its length and the file its position; a packed log is
# written again. The database's own files are not text and are not touched.

_BLANK = b"*"


def blank_logs(marks: Marks) -> int:
    """Blanks every line of a log that quotes erased words; returns how many files were changed."""
    return sum(_blanked(path, marks) for path in logs())


def discardable(owner: int) -> QuerySet[models.ImportFile]:
    """The owner's uploaded chat files, imported or waiting for it, without those that are just being read."""
    states = models.ImportFile.State
    return models.ImportFile.objects.filter(owner=owner).exclude(state__in=(states.REHEARSING, states.IMPORTING))


def discard_imports(owner: int) -> int:
    """Removes the owner's chat files; one that is just being read is left to a later check. They are in formats of
    other programs and may be packed, so they are not searched for words."""
    rows = list(discardable(owner))
    for row in rows:
        files.discard(row)
    return len(rows)


def logs() -> Iterator[Path]:
    """Yields the logs in the data folder, and those beside an embedded database in another folder, packed ones too."""
    cluster = paths.cluster(settings.DATA_DIR)
    for top in dict.fromkeys((settings.DATA_DIR, cluster.base)):
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if Path(folder, name) != cluster.data]
            yield from (Path(folder, name) for name in sorted(names) if _is_log(name))


def _is_log(name: str) -> bool:
    return name.removesuffix(".gz").rstrip("0123456789.").endswith(".log") or ".log." in name


def _blanked(path: Path, marks: Marks) -> bool:
    try:
        return _packed(path, marks) if path.suffix == ".gz" else _plain(path, marks)
    except FileNotFoundError:
        # A log that is rotated meanwhile is found under its other name by the next check.
        return False


def _plain(path: Path, marks: Marks) -> bool:
    changed = False
    with path.open("r+b") as file:
        at = 0
        while line := file.readline():
            if marks.quoted(line.decode("utf-8", "replace")):
                file.seek(at)
                file.write(_blank(line))
                changed = True
            at += len(line)
            file.seek(at)
    return changed


def _packed(path: Path, marks: Marks) -> bool:
    with gzip.open(path, "rb") as file:
        lines = list(file)
    new = [_blank(line) if marks.quoted(line.decode("utf-8", "replace")) else line for line in lines]
    if new == lines:
        return False
    draft = path.with_name(f".{path.name}.new")
    with gzip.open(draft, "wb") as file:
        file.writelines(new)
    draft.replace(path)
    return True


def _blank(line: bytes) -> bytes:
    return _BLANK * len(line.rstrip(b"\r\n")) + line[len(line.rstrip(b"\r\n")) :]
