"""Every other table, read-only: what a list shows, filters and searches follows from the kinds of its columns."""

import re
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.postgres.search import SearchVectorField
from django.db.models import (
    BinaryField,
    BooleanField,
    CharField,
    DateTimeField,
    FloatField,
    JSONField,
    Model,
    TextField,
)
from django.urls import reverse
from pgvector.django import HalfVectorField

from memoryapp import models
from memoryapp.admin.base import ReadOnlyAdmin

MOST_COLUMNS = 8
# The routes of pages at which rows are curated, by model.
PAGES: dict[type[Model], str] = {
    models.Artifact: "artifact",
    models.Fact: "fact",
    models.KnowledgeEdit: "undo_change",
    models.Miss: "miss",
    models.Person: "person",
    models.Topic: "topic",
    models.TopicEdit: "undo_preview",
}
# Sessions of the browser are keys to the program, so nobody is shown them; what is behind a mask is shown where the
# audit log knows of it.
HIDDEN = (models.LoginSession, models.UnmaskedText)
_NAMED = re.compile(r"\{0\.(\w+)")
_LARGE = (TextField, JSONField, BinaryField)


def options_of(model: type[Model]) -> dict[str, Any]:
    """The attributes of the table's class. Vectors are never read, large columns only for the page of one row."""
    fields: dict[str, Any] = {field.name: field for field in model._meta.fields}
    # What a row is called, see ``Row.shown``.
    named = _NAMED.findall(getattr(model, "shown", ""))
    vectors = [name for name, field in fields.items() if isinstance(field, HalfVectorField | SearchVectorField)]
    short = [name for name, field in fields.items() if _is_listed(field) and name not in (*named, "owner")]
    columns = ["__str__", *(["owner"] if "owner" in fields else []), *short][:MOST_COLUMNS]
    chosen = [name for name in fields if name not in vectors and _narrows(fields[name])]
    return {
        "list_display": columns,
        "list_filter": [*chosen, *([("owner", admin.RelatedOnlyFieldListFilter)] if "owner" in fields else [])],
        "list_select_related": [name for name in fields if name in {*columns, *named} and fields[name].is_relation],
        "search_fields": [name for name, field in fields.items() if _is_searched(field)],
        "unfetched": [*vectors, *(name for name, field in fields.items() if isinstance(field, BinaryField))],
        "unlisted": [name for name, field in fields.items() if isinstance(field, _LARGE) and name not in named],
        "ordering": ("-created_at", "-pk") if model is models.Run else ("-pk",),
        **({"view_on_site": staticmethod(_place)} if model in PAGES else {}),
    }


def _is_listed(field: Any) -> bool:
    is_of_person = field.related_model is User
    return isinstance(field, CharField | BooleanField | DateTimeField | FloatField) or is_of_person


def _narrows(field: Any) -> bool:
    return bool(field.choices) or isinstance(field, BooleanField) or field.related_model is models.EmbeddingProfile


def _is_searched(field: Any) -> bool:
    return isinstance(field, CharField | TextField) and not field.choices


def _place(row: Any) -> str:
    """The address of the page where the row is curated."""
    page = PAGES[type(row)]
    return reverse(page, args=[row.pk] if page == "topic" else [row.owner_id, row.pk])


for _model in apps.get_app_config("memoryapp").get_models():
    if _model not in HIDDEN and not admin.site.is_registered(_model):
        admin.site.register(_model, ReadOnlyAdmin, **options_of(_model))
