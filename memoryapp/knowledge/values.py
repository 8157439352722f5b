"""Checks values that were typed for a row: trims and bounds them, and refuses those that the row cannot have."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext as _

from memoryapp.curation.bounds import too_long_a_list
from memoryapp.curation.change import CurationError
from memoryapp.knowledge.rows import EDITABLE, LISTS, Row, Values, labels, noun_of
from memoryapp.models import Fact, KnowledgeEdit

MOST_ENTRIES = 200
MOST_ENTRY_CHARS = 300


def cleaned(noun: KnowledgeEdit.Noun, values: Values) -> dict[str, Any]:
    """Trimmed, lists without blanks and repetitions. Raises CurationError."""
    unknown = sorted(set(values) - set(EDITABLE[noun]))
    if unknown:
        raise CurationError(_("%(field)s cannot be edited.") % {"field": unknown[0]})
    return {name: _entries(value) if name in LISTS else _trimmed(value) for name, value in values.items()}


def _trimmed(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


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
    same = Fact.objects.current().filter(owner=fact.owner_id, relation=fact.relation, content=fact.content)
    return same.exclude(pk=fact.pk).exists()
