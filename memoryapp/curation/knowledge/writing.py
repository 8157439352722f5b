"""The only place that writes people, facts and artifacts for changes: from their values before to those after. Every
function is called in a transaction, after ``lock``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext as _

from memoryapp.curation.change import MOST_REASON_CHARS, CurationError, Stale, too_long_a_list
from memoryapp.memory import guard
from memoryapp.models import Artifact, ChatUser, Fact, KnowledgeEdit, Person, RecallMode, Topic
from memoryapp.platform import database

# The fields of people, facts and artifacts: which a person may edit, and how the history records their values.

Kind, Noun = KnowledgeEdit.Kind, KnowledgeEdit.Noun
Row = Person | Fact | Artifact | Topic
Values = Mapping[str, Any]
# Values by the number of their row; None when there is no such row.
Rows = dict[str, dict[str, Any] | None]

MODELS: Mapping[str, type[Row]] = {Noun.PERSON: Person, Noun.FACT: Fact, Noun.ARTIFACT: Artifact, Noun.TOPIC: Topic}
EDITABLE: Mapping[str, tuple[str, ...]] = {
    Noun.PERSON: ("display_name", "aliases", "username", "circle", "bio", "project"),
    Noun.FACT: ("relation", "category", "content", "type", "importance", "project"),
    Noun.ARTIFACT: ("name", "summary", "keywords", "entities", "rag_hints", "project"),
    # Everything else of a topic changes with edits, which replace it.
    Noun.TOPIC: ("recall",),
}
LISTS = ("aliases", "keywords", "entities", "rag_hints")
# Counts that the program updates are no change by anybody: they are recorded, but prevent no undo.
COUNTED_NOUNS = ("mention_count", "first_seen", "last_seen")
# The time of the last access is no change by anybody; number and owner never change.
UNRECORDED = ("id", "owner", "updated_at")


def noun_of(row: Row) -> KnowledgeEdit.Noun:
    return next(Noun(noun) for noun, model in MODELS.items() if isinstance(row, model))


def field_of(row: Row | type[Row], name: str) -> models.Field[Any, Any]:
    """The field with that name; only the row's own fields, no reverse relations."""
    return next(field for field in row._meta.concrete_fields if name in (field.name, field.attname))


def labels(noun: KnowledgeEdit.Noun, fields: Iterable[str]) -> str:
    """The names of these fields in a sentence."""
    return ", ".join(str(field_of(MODELS[noun], name).verbose_name) for name in fields)


@cache
def recorded_fields(noun: str) -> Mapping[str, models.Field[Any, Any]]:
    """The fields that the history stores of a noun, by their names in a change: all that a change may write."""
    fields = MODELS[noun]._meta.concrete_fields
    if noun == Noun.TOPIC:
        return {field.attname: field for field in fields if field.name in EDITABLE[noun]}
    return {field.attname: field for field in fields if field.name not in UNRECORDED}


def recorded(row: Row) -> dict[str, Any]:
    """All values of the row that the history stores, as JSON values."""
    return {name: plain(getattr(row, name)) for name in recorded_fields(noun_of(row))}


def is_recordable(noun: str, rows: Rows) -> bool:
    """Whether the history could have stored this: numbers of rows, and of their values only recorded ones. No change
    of this kind makes or deletes a topic."""
    known = recorded_fields(noun).keys()
    return all(
        number.isdecimal() and (noun != Noun.TOPIC if values is None else values.keys() <= known)
        for number, values in rows.items()
    )


def plain(value: Any) -> Any:
    """The value as JSON stores it."""
    return value.isoformat() if isinstance(value, datetime) else value


def plain_rows(rows: Rows) -> Rows:
    return {
        number: None if values is None else {name: plain(value) for name, value in values.items()}
        for number, values in rows.items()
    }


# Checks values that were typed for a row: trims and bounds them, and refuses those that the row cannot have.

MOST_ENTRIES = 200
MOST_ENTRY_CHARS = 300


def cleaned(owner: ChatUser | None, noun: KnowledgeEdit.Noun, values: Values) -> dict[str, Any]:
    """Trimmed, lists without blanks and repetitions, as the guard lets them pass. Raises CurationError."""
    unknown = sorted(set(values) - set(EDITABLE[noun]))
    if unknown:
        raise CurationError(_("%(field)s cannot be edited.") % {"field": unknown[0]})
    trimmed = {name: value.strip() if isinstance(value, str) else value for name, value in values.items()}
    listed = {name: _entries(value) if name in LISTS else value for name, value in trimmed.items()}
    return cast(dict[str, Any], guard.as_stored(owner, listed)) if owner else listed


def _entries(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise CurationError(_("This has to be a list of texts."))
    entries = list(dict.fromkeys(entry.strip() for entry in value if entry.strip()))
    if len(entries) > MOST_ENTRIES or any(len(entry) > MOST_ENTRY_CHARS for entry in entries):
        raise too_long_a_list(MOST_ENTRIES, MOST_ENTRY_CHARS)
    return entries


def check(row: Row) -> None:
    """Raises CurationError for a fact that exists, or a value the row cannot have. People may be namesakes."""
    if isinstance(row, Fact) and row.superseded_at is None and _has_twin(row):
        raise CurationError(_("This fact exists already."))
    linked = [column for column in row._meta.concrete_fields if isinstance(column, models.ForeignKey)]
    for column in linked:
        _check_own(row, column)
    try:
        excluded = {column.name for column in linked}
        row.full_clean(exclude=excluded, validate_unique=False, validate_constraints=True)
    except ValidationError as error:
        sentences = [
            f"{labels(noun_of(row), [name])}: {' '.join(found)}" if name != "__all__" else " ".join(found)
            for name, found in error.message_dict.items()
        ]
        raise CurationError(" ".join(sentences)) from error


def _check_own(row: Row, column: models.ForeignKey[Any, Any]) -> None:
    """Raises CurationError if the row refers to what another memory has, or nobody."""
    number, other = getattr(row, column.attname), column.related_model
    if column.name == "owner" or number is None:
        return
    if not other._base_manager.filter(pk=number, owner=row.owner_id).exists():
        named = {"field": labels(noun_of(row), [column.name])}
        raise CurationError(_("%(field)s: this memory has none with that number.") % named)


def _has_twin(fact: Fact) -> bool:
    """Whether another current fact has the same words; past facts may repeat themselves."""
    same = Fact.objects.current().filter(
        owner=fact.owner_id, relation=fact.relation, content=fact.content, project=fact.project
    )
    return same.exclude(pk=fact.pk).exists()


def lock(owner: ChatUser) -> None:
    """Waits until nobody else changes the owner's people, facts and artifacts, and locks them in the transaction."""
    database.acquire_until_commit("knowledge", owner.pk)


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
    """Gives rows with the values ``before`` the values ``after``. Raises Stale when they have other values by now. A
    change may be restored from a file, so it is carried out only if the history could have stored it. Raises
    CurationError for one that names other fields, such as the owner."""
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
        name in known and plain(getattr(row, name)) == value
        for name, value in values.items()
        if name not in COUNTED_NOUNS
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
    """Checks the row and saves it. Raises CurationError for impossible values, Stale for a replaced topic."""
    if isinstance(row, Topic):
        # What can change of a topic without replacing it.
        if not row.is_live:
            raise Stale(_("Topic:%(topic)d was replaced meanwhile by an edit.") % {"topic": row.pk})
        if row.recall not in ("", *RecallMode.values):
            raise CurationError(_("A topic is pinned, never recalled, or neither."))
        row.save(update_fields=["recall"])
        return
    check(row)
    row.save(force_insert=is_new)


def _locked_rows(owner: ChatUser, noun: str, ids: Iterable[int | str]) -> Sequence[Row]:
    rows = MODELS[noun]._default_manager.filter(owner=owner, pk__in=[int(number) for number in ids])
    return list(rows.order_by("pk").select_for_update(no_key=True))
