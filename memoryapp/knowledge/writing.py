"""The only place that writes people, facts and artifacts for changes: from their values before to those after.

Every function is called in a transaction, after ``lock``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.curation.change import MOST_REASON_CHARS, CurationError, Stale
from memoryapp.knowledge.rows import COUNTED, MODELS, Row, Rows, Values, field_of, plain, plain_rows
from memoryapp.knowledge.values import check
from memoryapp.models import ChatUser, KnowledgeEdit
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
    """Gives rows with the values ``before`` the values ``after``. Raises Stale when they have other values by now."""
    found = {str(row.pk): row for row in _locked_rows(owner, noun, before)}
    if any(not has_values(found.get(number), values) for number, values in before.items()):
        raise Stale(_("Somebody changed this meanwhile, so it cannot be changed back."))
    # Deletions first: they free names for other rows.
    for number, row in found.items():
        if after[number] is None:
            row.delete()
    for number, row in found.items():
        if (values := after[number]) is not None:
            _save(row, values)
    for number in sorted(set(after) - set(found), key=int):
        _save(MODELS[noun](pk=int(number), owner=owner), after[number] or {})


def has_values(row: Row | None, values: Values | None) -> bool:
    """Whether the row has these values, apart from counts; or, if they are None, whether it does not exist."""
    if row is None or values is None:
        return row is None and values is None
    return all(plain(getattr(row, name)) == value for name, value in values.items() if name not in COUNTED)


def locked(owner: ChatUser, noun: str, ids: Sequence[int]) -> list[Any]:
    """The rows in the order of ``ids``. Raises CurationError for one that is gone or another owner's."""
    found = {row.pk: row for row in _locked_rows(owner, noun, ids)}
    if len(found) != len(ids):
        raise CurationError(
            _("It does not exist any more: somebody deleted or merged it, or it belongs to another memory.")
        )
    return [found[number] for number in ids]


def _save(row: Row, values: Values) -> None:
    for name, value in values.items():
        setattr(row, name, field_of(row, name).to_python(value))
    check(row)
    row.save()


def _locked_rows(owner: ChatUser, noun: str, ids: Iterable[int | str]) -> Sequence[Row]:
    rows = MODELS[noun]._default_manager.filter(owner=owner, pk__in=[int(number) for number in ids])
    return list(rows.order_by("pk").select_for_update(no_key=True))
