"""Redacts everything else that quotes erased words: every text and JSON value of the owner's rows, in any table.

Remaining messages are not changed, because their text was not erased. A fact, an item or a change in the history that
quotes is deleted, and so is a card, whose words and vector are then made again from its row; an artifact goes with its
file, from which its text could be read again, and the summary of a topic is written again. In any other row the quoting
lines and values are replaced.
Reports of evaluations and the administration's log belong to nobody and are searched as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction

from memoryapp.erasure.conversations import Changes
from memoryapp.erasure.cutting import delete_artifact, delete_changes, make_anew, name_erasure
from memoryapp.erasure.deleting import by_table, deleted
from memoryapp.erasure.redaction import ERASED, Redaction
from memoryapp.models import (
    AgentCall,
    Artifact,
    Card,
    ChatUser,
    Erasure,
    Evaluation,
    Fact,
    KnowledgeEdit,
    Message,
    RawReply,
    Run,
    RunEvent,
    StoredItem,
    Topic,
)
from memoryapp.models.user import Owned

_ELSEWHERE = {Message, Run, RunEvent, RawReply, AgentCall}
_OF_TEXT = (models.CharField, models.TextField, models.JSONField, ArrayField)
_AT_ONCE = 500


def redact_leftovers(erasure: Erasure, redaction: Redaction) -> Changes:
    """Redacts all tables with rows of the owner, and rows that belong to nobody."""
    changes, words = Changes(), redaction.by_words()
    for model in apps.get_app_config("memoryapp").get_models():
        if issubclass(model, Owned) and model not in _ELSEWHERE:
            _table(erasure, model, model._base_manager.filter(owner=erasure.owner_number), words, changes)
    _table(erasure, ChatUser, ChatUser.objects.filter(pk=erasure.owner_number), words, changes)
    _table(erasure, Evaluation, Evaluation.objects.all(), words, changes)
    quoting = [
        row.pk for row in LogEntry.objects.iterator(_AT_ONCE) if _quoted(row, ("object_repr", "change_message"), words)
    ]
    changes.gone += by_table(LogEntry.objects.filter(pk__in=quoting).delete()[1])
    return changes


def _table(
    erasure: Erasure, model: type[models.Model], rows: models.QuerySet[Any], words: Redaction, changes: Changes
) -> None:
    names = list(texts_of(model))
    for row in rows.order_by("pk").iterator(_AT_ONCE) if names else ():
        if _quoted(row, names, words):
            with transaction.atomic():
                name_erasure(erasure)
                _mended(model, row, names, words, changes)


def texts_of(model: type[models.Model]) -> Iterator[str]:
    """The names of the columns that hold text, lists of texts, or JSON."""
    for column in model._meta.concrete_fields:
        if isinstance(column, _OF_TEXT) and not column.choices:
            yield column.attname


def _quoted(row: models.Model, names: Any, words: Redaction) -> bool:
    return any(_redacted(getattr(row, name), words) != getattr(row, name) for name in names)


def _redacted(value: Any, words: Redaction) -> Any:
    return words.text(value) if isinstance(value, str) else words.json(value)


def _mended(model: type[models.Model], row: models.Model, names: list[str], words: Redaction, changes: Changes) -> None:
    if model in (Fact, StoredItem, Card):
        changes.gone += deleted(model._base_manager.filter(pk=row.pk))
    elif model is KnowledgeEdit:
        changes.gone += delete_changes([row.pk])
    elif isinstance(row, Artifact) and words.text(row.text) != row.text:
        changes.gone += delete_artifact(row)
    elif isinstance(row, Topic):
        changes.gone += make_anew(row)
        changes.changed[model._meta.db_table] += 1
    else:
        new = {name: _fitting(model, name, row, words) for name in names}
        model._base_manager.filter(pk=row.pk).update(**new)
        changes.changed[model._meta.db_table] += 1


def _fitting(model: type[models.Model], name: str, row: models.Model, words: Redaction) -> Any:
    """The redacted value; with the row's number where two rows must not be equal."""
    old = getattr(row, name)
    new = _redacted(old, words)
    if new == old or not isinstance(new, str):
        return new
    column: Any = model._meta.get_field(name)
    unique = column.unique or any(
        name in constraint.fields
        for constraint in model._meta.constraints
        if isinstance(constraint, models.UniqueConstraint)
    )
    text = f"{ERASED} {row.pk}" if unique else new
    return text[: column.max_length] if column.max_length else text
