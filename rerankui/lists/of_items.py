"""The facets of the lists of people and of facts, and the columns as files of what a memory holds beside topics."""

from __future__ import annotations

from django.db.models import Case, Func, Q, TextField, Value, When
from django.db.models.functions import TruncMonth
from django.utils import timezone
from django.utils.translation import gettext_lazy

from memoryapp.browsing.quality import FEW_MENTIONS, WEEK
from memoryapp.models import Artifact, Fact, Message, Person
from rerankui.lists.facets import Facet
from rerankui.lists.of_topics import month_words
from rerankui.text.file_types import file_type

PEOPLE = {
    "id": "pk",
    "name": "display_name",
    "also_called": "aliases",
    "username": "username",
    "circle": "circle",
    "about": "bio",
    "mentions": "mention_count",
    "first_seen": "first_seen",
    "last_seen": "last_seen",
}
FACTS = {
    "id": "pk",
    "fact": "content",
    "relation": "relation",
    "category": "category",
    "type": "type",
    "importance": "importance",
    "topic": "topic_id",
    "noted_at": "created_at",
    "until": "superseded_at",
}
MESSAGES = {
    "id": "pk",
    "external_id": "external_id",
    "sent_at": "sent_at",
    "role": "role",
    "author": "author",
    "text": "text",
    "topic": "topic_id",
}
# The column says where a message is today.
MESSAGES_THEN = {title: column for title, column in MESSAGES.items() if title != "topic"}
ARTIFACTS = {
    "id": "pk",
    "name": "name",
    "type": "file_type",
    "bytes": "size_bytes",
    "summary": "summary",
    "keywords": "keywords",
    "entities": "entities",
    "state": "state",
    "created_at": "created_at",
}
_MENTIONS = {
    "3": gettext_lazy("10 and more"),
    "2": gettext_lazy("2–9"),
    "1": gettext_lazy("once or never"),
}
_IMPORTANCE = {
    "3": gettext_lazy("80 and more: part of the profile"),
    "2": gettext_lazy("50–79"),
    "1": gettext_lazy("under 50"),
}
_REPLACED = {
    "week": gettext_lazy("within a week"),
    "before": gettext_lazy("earlier"),
    "no": gettext_lazy("not replaced"),
}


def people_facets() -> tuple[Facet, ...]:
    circles = dict(Person.Circle.choices)
    mentions = Case(
        When(mention_count__gte=10, then=Value("3")),
        When(mention_count__gte=FEW_MENTIONS, then=Value("2")),
        default=Value("1"),
    )
    return (
        Facet("of", gettext_lazy("Circle"), "circle", lambda value: circles.get(value, value)),
        Facet("mentions", gettext_lazy("Mentions"), mentions, lambda value: _MENTIONS.get(value, value), in_order=True),
        Facet("seen", gettext_lazy("Last seen"), _month("last_seen"), month_words, in_order=True),
    )


def fact_facets() -> tuple[Facet, ...]:
    types = dict(Fact.Type.choices)
    weight = Case(
        When(importance__gte=80, then=Value("3")), When(importance__gte=50, then=Value("2")), default=Value("1")
    )
    replaced = Case(
        When(superseded_at__gte=timezone.now() - WEEK, then=Value("week")),
        When(superseded_at__isnull=False, then=Value("before")),
        default=Value("no"),
    )
    return (
        Facet("kind", gettext_lazy("Type"), "type", lambda value: types.get(value, value)),
        Facet("category", gettext_lazy("Category"), "category"),
        Facet("weight", gettext_lazy("Importance"), weight, lambda value: _IMPORTANCE.get(value, value), in_order=True),
        Facet("replaced", gettext_lazy("Replaced"), replaced, lambda value: _REPLACED.get(value, value)),
        Facet("noted", gettext_lazy("Noted"), _month("created_at"), month_words, in_order=True),
    )


def message_facets() -> tuple[Facet, ...]:
    roles = dict(Message.Author.choices)
    return (
        Facet("who", gettext_lazy("Author"), "author"),
        Facet("as", gettext_lazy("Role"), "role", lambda value: roles.get(value, value)),
        Facet("chat", gettext_lazy("Chat or session"), "session"),
        Facet("month", gettext_lazy("Month"), _month("sent_at"), month_words, in_order=True),
        Facet("file", gettext_lazy("Imported from"), "batch__source"),
    )


def artifact_facets() -> tuple[Facet, ...]:
    states = dict(Artifact.State.choices)
    return (
        Facet("kind", gettext_lazy("Type"), "file_type", lambda value: str(file_type(value))),
        Facet("is", gettext_lazy("State"), "state", lambda value: states.get(value, value)),
        Facet("month", gettext_lazy("Month"), _month("created_at"), month_words, in_order=True),
    )


def _month(column: str) -> Case:
    """The month of a moment on the reader's calendar, as ``2026-05``; empty without one."""
    month = TruncMonth(column, tzinfo=timezone.get_current_timezone())
    written = Func(month, Value("YYYY-MM"), function="to_char", output_field=TextField())
    return Case(When(Q(**{f"{column}__isnull": False}), then=written), default=Value(""), output_field=TextField())
