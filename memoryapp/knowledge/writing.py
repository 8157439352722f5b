"""The only place that writes people, facts and artifacts for changes: from their values before to those after.

Every function is called in a transaction, after ``lock``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from memoryapp.curation.change import MOST_REASON_CHARS, CurationError, Stale
from memoryapp.knowledge.rows import (
    COUNTED,
    MODELS,
    Row,
    Rows,
    Values,
    is_recordable,
    noun_of,
    plain,
    plain_rows,
    recorded_fields,
)
from memoryapp.knowledge.values import check
from memoryapp.models import ChatUser, KnowledgeEdit, RecallMode, Topic
from memoryapp.operations import advisory_locks


def lock(owner: ChatUser) -> None:
    """Waits until nobody else changes the owner's people, facts and artifacts, and locks them until the transaction
    ends."""
    advisory_locks.acquire_until_commit("knowledge", owner.pk)


def make(change: KnowledgeEdit) -> KnowledgeEdit:
    """Carries out the unsaved ``change`` and stores it. Raises CurationError, Stale."""
    change.before, change.after = plain_rows(change.before), plain_rows(change.after)
    apply(change.owner, change.noun, change.before, change.after)
    return record(change)


def record(change: KnowledgeEdit) -> KnowledgeEdit:
    """Stores a ``change`` whose rows are already written. Raises CurationError."""
    if len(change.reason) > MOST_REASON_CHARS:
        raise CurationError(_("The reason is too long."))
    change.save(force_insert=True)
    return change


def apply(owner: ChatUser, noun: str, before: Rows, after: Rows) -> None:
    """Gives rows with the values ``before`` the values ``after``. Raises Stale when they have other values by now.

    A change may be restored from a file, so it is carried out only if the history could have stored it. Raises
    CurationError for one that names other fields, such as the owner.
    """
    if not (is_recordable(noun, before) and is_recordable(noun, after)):
        raise CurationError(_("This change names values that no change can have, so it is not carried out."))
    found = {str(row.pk): row for row in _locked_rows(owner, noun, before)}
    if any(not has_values(found.get(number), values) for number, values in before.items()):
        raise Stale(_("Somebody changed this meanwhile, so it cannot be changed back."))
    # Deletions first: they free names for other rows.
    for key, row in found.items():
        if after[key] is None:
            row.delete()
    for key, row in found.items():
        if (values := after[key]) is not None:
            _save(row, values)
    new = {int(key): values for key, values in after.items() if key not in found and values is not None}
    if MODELS[noun]._base_manager.filter(pk__in=new).exists():
        raise CurationError(_("This change would create a row whose number belongs to another memory."))
    for number in sorted(new):
        _save(MODELS[noun](pk=number, owner=owner), new[number], is_new=True)


def has_values(row: Row | None, values: Values | None) -> bool:
    """Whether the row has these values, apart from counts; or, if they are None, whether it does not exist."""
    if row is None or values is None:
        return row is None and values is None
    known = recorded_fields(noun_of(row))
    return all(
        name in known and plain(getattr(row, name)) == value for name, value in values.items() if name not in COUNTED
    )


def locked(owner: ChatUser, noun: str, ids: Sequence[int]) -> list[Any]:
    """The rows in the order of ``ids``. Raises CurationError for one that is gone or another owner's."""
    found = {row.pk: row for row in _locked_rows(owner, noun, ids)}
    if len(found) != len(ids):
        raise CurationError(
            _("It does not exist any more: somebody deleted or merged it, or it belongs to another memory.")
        )
    return [found[number] for number in ids]


def _save(row: Row, values: Values, *, is_new: bool = False) -> None:
    """Raises CurationError for values that the row cannot have."""
    fields = recorded_fields(noun_of(row))
    try:
        for name, value in values.items():
            setattr(row, name, fields[name].to_python(value))
    except ValidationError as error:
        raise CurationError(" ".join(error.messages)) from error
    store(row, is_new=is_new)


def store(row: Row, *, is_new: bool = False) -> None:
    """Checks the row and saves it. Raises CurationError for values that the row cannot have, Stale for a topic that an
    edit replaced."""
    if isinstance(row, Topic):
        _store_topic(row)
        return
    check(row)
    row.save(force_insert=is_new)


def _store_topic(topic: Topic) -> None:
    """Saves what can change of a topic without replacing it."""
    if not topic.is_live:
        raise Stale(_("Topic:%(topic)d was replaced meanwhile by an edit.") % {"topic": topic.pk})
    if topic.recall not in ("", *RecallMode.values):
        raise CurationError(_("A topic is pinned, never recalled, or neither."))
    topic.save(update_fields=["recall"])


def _locked_rows(owner: ChatUser, noun: str, ids: Iterable[int | str]) -> Sequence[Row]:
    rows = MODELS[noun]._default_manager.filter(owner=owner, pk__in=[int(number) for number in ids])
    return list(rows.order_by("pk").select_for_update(no_key=True))
