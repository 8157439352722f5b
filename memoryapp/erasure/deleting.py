"""Deletes rows with their files and with the log entries that quote them, and counts them by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.files.storage import default_storage
from django.db.models import Model, QuerySet

from memoryapp.models import Artifact, Card, Media, Person
from memoryapp.operations import advisory_locks

# The key under which a receipt counts files, beside the names of tables.
FILES = "files"


def deleted(rows: QuerySet[Any]) -> Counter[str]:
    """Deletes the rows, the rows that refer to them, and entries of the administration's log that quote them; counts by
    table."""
    numbers = list(rows.values_list("pk", flat=True))
    if not numbers:
        return Counter()
    gone: Counter[str] = Counter()
    if rows.model in (Person, Artifact):
        # Django would delete them after their rows, with which the database deletes them uncounted.
        gone += by_table(Card.objects.filter(**{f"{rows.model._meta.model_name}__in": numbers}).delete()[1])
    gone += by_table(rows.model._base_manager.filter(pk__in=numbers).delete()[1])
    return gone + delete_log_entries(rows.model, numbers)


def delete_media(batch: QuerySet[Any]) -> Counter[str]:
    """Deletes the rows, and the files that no other row refers to; returns counts by table."""
    media = list(batch)
    for path in sorted(row.path for row in media):
        advisory_locks.acquire_until_commit(path, 0)
    gone = by_table(batch.delete()[1])
    shared = set(Media.objects.filter(sha256__in=[row.sha256 for row in media]).values_list("sha256", flat=True))
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
