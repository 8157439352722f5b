"""The fields of people, facts and artifacts: which a person may edit, and how their values are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import models

from memoryapp.models import Artifact, Fact, KnowledgeEdit, Person

Kind, Noun = KnowledgeEdit.Kind, KnowledgeEdit.Noun
Row = Person | Fact | Artifact
Values = Mapping[str, Any]
# Values by the number of their row, None where there is no such row.
Rows = dict[str, dict[str, Any] | None]

MODELS: Mapping[str, type[Row]] = {Noun.PERSON: Person, Noun.FACT: Fact, Noun.ARTIFACT: Artifact}
EDITABLE: Mapping[str, tuple[str, ...]] = {
    Noun.PERSON: ("display_name", "aliases", "username", "circle", "bio"),
    Noun.FACT: ("relation", "category", "content", "type", "importance"),
    Noun.ARTIFACT: ("name", "summary", "keywords", "entities", "rag_hints"),
}
LISTS = ("aliases", "keywords", "entities", "rag_hints")
# What the machine counts by itself is nobody's change: it is recorded, and stands in the way of no undo.
COUNTED = ("mention_count", "first_seen", "last_seen")
# When a row was last touched is nobody's change; its number and its owner never change.
UNRECORDED = ("id", "owner", "updated_at")


def noun_of(row: Row) -> KnowledgeEdit.Noun:
    return next(Noun(noun) for noun, model in MODELS.items() if isinstance(row, model))


def field_of(row: Row | type[Row], name: str) -> models.Field[Any, Any]:
    """Its field of that name; a row's own, never one that leads here from elsewhere."""
    return next(field for field in row._meta.concrete_fields if name in (field.name, field.attname))


def labels(noun: KnowledgeEdit.Noun, fields: Iterable[str]) -> str:
    """What people call these fields, for a sentence."""
    return ", ".join(str(field_of(MODELS[noun], name).verbose_name) for name in fields)


def recorded(row: Row) -> dict[str, Any]:
    """All of the row's values that history keeps, plain."""
    fields = [field for field in row._meta.concrete_fields if field.name not in UNRECORDED]
    return {field.attname: plain(getattr(row, field.attname)) for field in fields}


def plain(value: Any) -> Any:
    """The value as JSON keeps it."""
    return value.isoformat() if isinstance(value, datetime) else value


def plain_rows(rows: Rows) -> Rows:
    return {
        number: None if values is None else {name: plain(value) for name, value in values.items()}
        for number, values in rows.items()
    }
