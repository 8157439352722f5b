"""Rows that only their functions write, to look at: messages, passages, vectors, runs. Lists never fetch a vector."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from memoryapp import models
from memoryapp.admin.base import ModelAdmin, OwnedAdmin, ReadOnlyAdmin


@admin.register(models.Media)
class MediaAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "owner", "type", "mime_type", "size_bytes", "created_at")
    list_filter = ("type", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("name", "=sha256")


@admin.register(models.ImportBatch)
class ImportBatchAdmin(ReadOnlyAdmin):
    list_display = ("source", "owner", "format", "added", "skipped", "started_at")
    list_filter = ("format", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("source",)


@admin.register(models.Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "sent_at", "role", "author", "__str__", "topic_id")
    list_filter = ("role", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("text", "author", "=external_id")
    raw_id_fields = ("owner", "topic", "batch")


@admin.register(models.Passage)
class PassageAdmin(ReadOnlyAdmin):
    unfetched = ("terms",)
    list_display = ("id", "owner", "__str__", "term_count")
    list_select_related = ("owner",)
    search_fields = ("text",)


@admin.register(models.PassageMessage)
class PassageMessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "passage_id", "message_id")
    list_select_related = ("owner",)
    raw_id_fields = ("owner", "passage", "message")
    search_fields = ("=passage__id", "=message__id")


@admin.register(models.EmbeddingProfile)
class EmbeddingProfileAdmin(ModelAdmin):
    list_display = ("provider", "model", "dimensions", "threshold")
    readonly_fields = ("provider", "model", "dimensions")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A profile comes into being with its first vector."""
        return False


@admin.register(models.PassageVector)
class PassageVectorAdmin(ReadOnlyAdmin):
    unfetched = ("vector",)
    list_display = ("id", "owner", "passage_id", "profile", "dimensions")
    list_filter = ("profile", *OwnedAdmin.list_filter)
    list_select_related = ("owner", "profile")
    raw_id_fields = ("owner", "passage")


@admin.register(models.TopicVector)
class TopicVectorAdmin(ReadOnlyAdmin):
    unfetched = ("vector",)
    list_display = ("id", "owner", "topic_id", "profile")
    list_filter = ("profile", *OwnedAdmin.list_filter)
    list_select_related = ("owner", "profile")
    raw_id_fields = ("owner", "topic")


@admin.register(models.Run)
class RunAdmin(ReadOnlyAdmin):
    ordering = ("-created_at", "-id")
    list_display = ("short_id", "owner", "query", "strategy", "state", "fallback", "selected_count", "created_at")
    list_filter = ("state", "strategy", "fallback", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("query", "=id")
    raw_id_fields = ("owner", "operator", "evaluation")


@admin.register(models.RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """The list leaves payloads out: one may hold two hundred candidates."""

    list_display = ("id", "owner", "run_id", "seq", "kind", "at")
    list_filter = ("kind", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("=run__id",)
    raw_id_fields = ("owner", "run")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("payload")


@admin.register(models.Prompt)
class PromptAdmin(ReadOnlyAdmin):
    """The list leaves the texts out; they are edited on their own pages, where a version never changes."""

    list_display = ("__str__", "in_force", "forced_by", "forced_at", "note", "made_by", "made_at")
    list_filter: ClassVar[Any] = ("name", "language", "in_force")
    search_fields = ("note", "made_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("system", "user")


@admin.register(models.Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ("source", "strategy", "started_at")
    list_filter: ClassVar[Any] = ("strategy",)


@admin.register(models.Card)
class CardAdmin(ReadOnlyAdmin):
    unfetched = ("terms",)
    list_display = ("id", "owner", "__str__", "person_id", "artifact_id", "made_from")
    list_select_related = ("owner",)
    raw_id_fields = ("owner", "person", "artifact")
    search_fields = ("text",)


@admin.register(models.CardVector)
class CardVectorAdmin(ReadOnlyAdmin):
    unfetched = ("vector",)
    list_display = ("id", "owner", "card_id", "profile", "dimensions")
    list_filter = ("profile", *OwnedAdmin.list_filter)
    list_select_related = ("owner", "profile")
    raw_id_fields = ("owner", "card")


@admin.register(models.RunProgress)
class RunProgressAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "owner", "turn", "at")
    list_select_related = ("owner",)
    search_fields = ("=run__id",)
    raw_id_fields = ("owner", "run")


@admin.register(models.QueryVector)
class QueryVectorAdmin(ReadOnlyAdmin):
    unfetched = ("vector",)
    list_display = ("run_id", "owner", "profile")
    list_filter = ("profile", *OwnedAdmin.list_filter)
    list_select_related = ("owner", "profile")
    raw_id_fields = ("owner", "run")


@admin.register(models.Suggestion)
class SuggestionAdmin(ReadOnlyAdmin):
    """They are decided in the queue."""

    list_display = ("__str__", "owner", "state", "score", "decided_by", "decided_at")
    list_filter = ("kind", "state", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("decided_by",)


@admin.register(models.Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("process", "at")
    list_filter: ClassVar[Any] = ()
    search_fields = ("process",)


@admin.register(models.Work)
class WorkAdmin(ReadOnlyAdmin):
    list_display = ("kind", "owner", "source", "state", "worker", "done", "share", "at")
    list_filter = ("kind", "state", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("source",)
