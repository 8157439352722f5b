"""Topics and their edits, read-only. A link leads to the page where they are curated."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse

from memoryapp import models
from memoryapp.admin.base import OwnedAdmin, ReadOnlyAdmin


@admin.register(models.Topic)
class TopicAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "owner", "ended_at", "message_count", "size_chars", "is_live", "locked_by_hand")
    list_filter = ("is_live", "locked_by_hand", "is_consolidated", *OwnedAdmin.list_filter)
    search_fields = ("summary", "=id")
    fields = (
        "summary",
        "owner",
        ("started_at", "ended_at"),
        ("message_count", "size_chars"),
        ("is_live", "locked_by_hand"),
        ("is_consolidated", "consolidation_checked", "facts_extracted"),
        "created_at",
    )

    def view_on_site(self, obj: models.Topic) -> str:
        return reverse("topic", args=[obj.pk])


@admin.register(models.TopicEdit)
class TopicEditAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "kind", "actor", "reason", "at")
    list_filter = ("kind", *OwnedAdmin.list_filter)
    search_fields = ("actor", "reason")

    def view_on_site(self, obj: models.TopicEdit) -> str:
        return reverse("undo_preview", args=[obj.owner_id, obj.pk])


@admin.register(models.TopicMessage)
class TopicMessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "topic_id", "message_id")
    raw_id_fields = ("owner", "topic", "message")
    search_fields = ("=topic__id", "=message__id")


@admin.register(models.EditedTopic)
class EditedTopicAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "edit_id", "side", "topic_id")
    list_filter = ("side", *OwnedAdmin.list_filter)
    raw_id_fields = ("owner", "edit", "topic")
    search_fields = ("=topic__id",)
