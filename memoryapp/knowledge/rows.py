"""The fields of people, facts and artifacts: which a person may edit, and how the history records their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from django.db import models

from memoryapp.models import Artifact, Fact, KnowledgeEdit, Person, Topic

Kind, Noun = KnowledgeEdit.Kind, KnowledgeEdit.Noun
Row = Person | Fact | Artifact | Topic
Values = Mapping[str, Any]
# Values by the number of their row; None when there is no such row.
Rows = dict[str, dict[str, Any] | None]

MODELS: Mapping[str, type[Row]] = {
    Noun.PERSON: Person,
    Noun.FACT: Fact,
    Noun.ARTIFACT: Artifact,
    Noun.TOPIC: Topic,
}
EDITABLE: Mapping[str, tuple[str, ...]] = {
    Noun.PERSON: ("display_name", "aliases", "username", "circle", "bio"),
    Noun.FACT: ("relation", "category", "content", "type", "importance"),
    Noun.ARTIFACT: ("name", "summary", "keywords", "entities", "rag_hints"),
    # Everything else of a topic changes with edits, which replace it.
    Noun.TOPIC: ("recall",),
}
LISTS = ("aliases", "keywords", "entities", "rag_hints")
# Counts that the program updates are no change by anybody: they are recorded, but prevent no undo.
COUNTED = ("mention_count", "first_seen", "last_seen")
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
