"""People, facts and artifacts as they were at a moment: as they are, without the changes since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import F, Func, TextField

from memoryapp.models import Artifact, Fact, KnowledgeEdit, Person

Noun = KnowledgeEdit.Noun
MODELS: Mapping[str, Any] = {Noun.PERSON: Person, Noun.FACT: Fact, Noun.ARTIFACT: Artifact}
# Texts of files are too long to be read of all of them.
LEFT_OUT = ("text",)


def rows_at(owner_id: int, noun: str, moment: datetime) -> dict[str, dict[str, Any]]:
    """The values of the people, facts or artifacts of that moment, by number. Three queries; values that a change
    recorded are as JSON stores them, and texts of files are left out."""
    model = MODELS[noun]
    names = [field.attname for field in model._meta.concrete_fields if field.name not in LEFT_OUT]
    found: dict[str, dict[str, Any]] = {
        str(row["id"]): row for row in model.objects.filter(owner=owner_id).values(*names)
    }
    changes = KnowledgeEdit.objects.filter(owner=owner_id, noun=noun)
    numbers = Func(F("before"), function="jsonb_object_keys", output_field=TextField())
    known = set(changes.order_by().annotate(number=numbers).values_list("number", flat=True).distinct())
    for before in _since(owner_id, noun, moment):
        for number, values in before.items():
            if values is None:
                found.pop(number, None)
            else:
                found[number] = {**found.get(number, {}), **values}
    return {number: row for number, row in found.items() if number in known or _existed(row, moment)}


def known_at(owner_id: int, noun: str, moment: datetime) -> list[Any]:
    """The people, facts or artifacts of that moment as rows, which are not to be saved."""
    return as_rows(owner_id, noun, rows_at(owner_id, noun, moment).items())


def as_rows(owner_id: int, noun: str, known: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Any]:
    """Rows with these values by number, as ``rows_at`` has them."""
    model = MODELS[noun]
    fields = {field.attname: field for field in model._meta.concrete_fields if field.name not in ("id", "owner")}
    rows = []
    for number, values in known:
        own = {
            name: fields[name].to_python(value) if isinstance(value, str) else value
            for name, value in values.items()
            if name in fields
        }
        rows.append(model(pk=int(number), owner_id=owner_id, **own))
    return rows


def recall_at(owner_id: int, noun: str, today: Mapping[int, str], moment: datetime) -> dict[int, str]:
    """What was decided at the moment on the recall of each of these rows, by number; ``today`` is what is now."""
    found = dict(today)
    for before in _since(owner_id, noun, moment):
        for number, values in before.items():
            if int(number) in found and values and "recall" in values:
                found[int(number)] = values["recall"]
    return found


def _since(owner_id: int, noun: str, moment: datetime) -> Any:
    """What the changes after the moment found, the newest first."""
    changes = KnowledgeEdit.objects.filter(owner=owner_id, noun=noun, at__gt=moment).order_by("-at", "-pk")
    return changes.values_list("before", flat=True)


def _existed(row: Mapping[str, Any], moment: datetime) -> bool:
    """Whether a row of which no change tells when it came was known then."""
    at = row.get("created_at") or row.get("first_seen")
    return not isinstance(at, datetime) or at <= moment
