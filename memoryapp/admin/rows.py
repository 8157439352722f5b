"""Read-only rows: messages, passages, vectors, runs and the like. Lists never fetch a vector."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from memoryapp import models
from memoryapp.admin.base import ModelAdmin, OwnedAdmin, ReadOnlyAdmin


class VectorAdmin(ReadOnlyAdmin):
    unfetched = ("vector",)
    list_filter = ("profile", *OwnedAdmin.list_filter)
    list_select_related = ("owner", "profile")


class OwnerlessAdmin(ReadOnlyAdmin):
    """Rows that belong to no chat user."""

    list_filter: ClassVar[Any] = ()
    list_select_related: ClassVar[Any] = ()


@admin.register(models.Media)
class MediaAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "owner", "type", "mime_type", "size_bytes", "created_at")
    list_filter = ("type", *OwnedAdmin.list_filter)
    search_fields = ("name", "=sha256")


@admin.register(models.ImportBatch)
class ImportBatchAdmin(ReadOnlyAdmin):
    list_display = ("source", "owner", "format", "added", "skipped", "started_at")
    list_filter = ("format", *OwnedAdmin.list_filter)
    search_fields = ("source",)


@admin.register(models.ImportFile)
class ImportFileAdmin(ReadOnlyAdmin):
    list_display = ("source", "owner", "format", "state", "asked_by", "asked_at")
    list_filter = ("state", *OwnedAdmin.list_filter)
    search_fields = ("source",)


@admin.register(models.Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "sent_at", "role", "author", "__str__", "topic_id")
    list_filter = ("role", *OwnedAdmin.list_filter)
    search_fields = ("text", "author", "=external_id")
    raw_id_fields = ("owner", "topic", "batch")


@admin.register(models.Passage)
class PassageAdmin(ReadOnlyAdmin):
    unfetched = ("terms",)
    list_display = ("id", "owner", "__str__", "term_count")
    search_fields = ("text",)


@admin.register(models.PassageMessage)
class PassageMessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "passage_id", "message_id")
    raw_id_fields = ("owner", "passage", "message")
    search_fields = ("=passage__id", "=message__id")


@admin.register(models.EmbeddingProfile)
class EmbeddingProfileAdmin(ModelAdmin):
    list_display = ("provider", "model", "dimensions", "threshold", "consolidation_threshold", "is_serving")
    readonly_fields = (
        "provider",
        "model",
        "dimensions",
        "query_prefix",
        "passage_prefix",
        "is_serving",
        "asked_at",
        "asked_by",
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Returns False, because the program creates profiles."""
        return False


@admin.register(models.FilterPreset)
class FilterPresetAdmin(ModelAdmin):
    list_display = ("name", "profile", "threshold", "score_gap", "final_top_k", "made_by", "made_at")
    list_filter = ("profile",)
    readonly_fields = ("profile", "made_by")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Returns False, because presets are made in the filter lab, which shows their effect."""
        return False


@admin.register(models.PassageVector)
class PassageVectorAdmin(VectorAdmin):
    list_display = ("id", "owner", "passage_id", "profile", "dimensions")
    raw_id_fields = ("owner", "passage")


@admin.register(models.RefusedText)
class RefusedTextAdmin(ReadOnlyAdmin):
    list_filter = ("profile", *OwnedAdmin.list_filter)
    list_select_related = ("owner", "profile")
    list_display = ("id", "owner", "profile", "reason", "tries", "retry_at")
    raw_id_fields = ("owner", "passage", "card", "topic")


@admin.register(models.TopicVector)
class TopicVectorAdmin(VectorAdmin):
    list_display = ("id", "owner", "topic_id", "profile")
    raw_id_fields = ("owner", "topic")


@admin.register(models.Run)
class RunAdmin(ReadOnlyAdmin):
    ordering = ("-created_at", "-id")
    list_display = ("short_id", "owner", "query", "strategy", "state", "fallback", "selected_count", "created_at")
    list_filter = ("state", "strategy", "fallback", *OwnedAdmin.list_filter)
    search_fields = ("query", "=id")
    raw_id_fields = ("owner", "operator", "evaluation")


@admin.register(models.RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """The list omits payloads: one may contain two hundred candidates."""

    list_display = ("id", "owner", "run_id", "seq", "kind", "at")
    list_filter = ("kind", *OwnedAdmin.list_filter)
    search_fields = ("=run__id",)
    raw_id_fields = ("owner", "run")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("payload")


@admin.register(models.Judgement)
class JudgementAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "owner", "is_good", "operator", "at")
    list_filter = ("is_good", *OwnedAdmin.list_filter)
    search_fields = ("=run__id",)
    raw_id_fields = ("owner", "run", "operator")


@admin.register(models.Grade)
class GradeAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "owner", "message_id", "value", "operator", "at")
    list_filter = ("value", *OwnedAdmin.list_filter)
    search_fields = ("=run__id", "=message__id")
    raw_id_fields = ("owner", "run", "message", "operator")


@admin.register(models.GoldenQuestion)
class GoldenQuestionAdmin(ReadOnlyAdmin):
    list_display = ("collection", "owner", "question", "category", "made_by", "at")
    list_filter = ("collection", *OwnedAdmin.list_filter)
    search_fields = ("question", "category")
    raw_id_fields = ("owner",)


@admin.register(models.NightlyRun)
class NightlyRunAdmin(OwnerlessAdmin):
    list_display = ("collection", "strategy", "hour", "zone", "is_on", "next_at", "made_by")
    list_filter: ClassVar[Any] = ("is_on", "strategy")


@admin.register(models.GoldenNight)
class GoldenNightAdmin(OwnerlessAdmin):
    list_display = ("nightly", "at", "state", "reason", "is_alarm", "mail")
    list_filter: ClassVar[Any] = ("state", "is_alarm")
    list_select_related: ClassVar[Any] = ("nightly",)
    raw_id_fields = ("evaluation", "against")


@admin.register(models.GoldenAlarm)
class GoldenAlarmAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "night_id", "at")
    raw_id_fields = ("owner", "night")


@admin.register(models.RawReply)
class RawReplyAdmin(ReadOnlyAdmin):
    list_display = ("event_id", "owner")
    list_select_related = ("owner",)
    search_fields = ("=event__run__id",)
    raw_id_fields = ("owner", "event")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("message")


@admin.register(models.AgentCall)
class AgentCallAdmin(ReadOnlyAdmin):
    """The calls that agents made outside of runs; the list omits their conversations."""

    list_display = ("id", "owner", "agent", "at", "asked_by", "model", "prompt_version", "outcome", "cost_usd")
    list_filter = ("agent", "outcome", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    raw_id_fields = ("owner",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("events")


@admin.register(models.Prompt)
class PromptAdmin(OwnerlessAdmin):
    """The list omits the texts; they are edited on their own pages, and a version never changes."""

    list_display = ("__str__", "in_force", "forced_by", "forced_at", "note", "made_by", "made_at")
    list_filter: ClassVar[Any] = ("name", "language", "in_force")
    search_fields = ("note", "made_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("system", "user")


@admin.register(models.Evaluation)
class EvaluationAdmin(OwnerlessAdmin):
    list_display = ("source", "strategy", "started_at")
    list_filter: ClassVar[Any] = ("strategy",)


@admin.register(models.Card)
class CardAdmin(ReadOnlyAdmin):
    unfetched = ("terms",)
    list_display = ("id", "owner", "__str__", "person_id", "artifact_id", "made_from")
    raw_id_fields = ("owner", "person", "artifact")
    search_fields = ("text",)


@admin.register(models.CardVector)
class CardVectorAdmin(VectorAdmin):
    list_display = ("id", "owner", "card_id", "profile", "dimensions")
    raw_id_fields = ("owner", "card")


@admin.register(models.StoredItem)
class StoredItemAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "namespace", "key", "updated_at")
    raw_id_fields = ("owner",)
    search_fields = ("=key", "text")


@admin.register(models.ItemVector)
class ItemVectorAdmin(VectorAdmin):
    list_display = ("id", "owner", "item_id", "profile")
    raw_id_fields = ("owner", "item")


@admin.register(models.RunProgress)
class RunProgressAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "owner", "turn", "at")
    search_fields = ("=run__id",)
    raw_id_fields = ("owner", "run")


@admin.register(models.Trace)
class TraceAdmin(ReadOnlyAdmin):
    list_display = ("number", "owner", "run_id", "has_root")
    list_select_related = ("owner",)
    search_fields = ("=number", "=run__id")
    raw_id_fields = ("owner", "run")


@admin.register(models.TraceSpan)
class TraceSpanAdmin(ReadOnlyAdmin):
    list_display = ("span", "owner", "trace_id")
    list_select_related = ("owner",)
    search_fields = ("=span",)
    raw_id_fields = ("owner", "trace")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("body")


@admin.register(models.QueryVector)
class QueryVectorAdmin(VectorAdmin):
    list_display = ("run_id", "owner", "profile")
    raw_id_fields = ("owner", "run")


@admin.register(models.Suggestion)
class SuggestionAdmin(ReadOnlyAdmin):
    """A person decides about suggestions in the queue."""

    list_display = ("__str__", "owner", "state", "score", "decided_by", "decided_at")
    list_filter = ("kind", "state", *OwnedAdmin.list_filter)
    search_fields = ("decided_by",)


@admin.register(models.Finding)
class FindingAdmin(ReadOnlyAdmin):
    """A person decides about findings in the review."""

    list_display = ("__str__", "owner", "noun", "state", "decided_by", "decided_at")
    list_filter = ("noun", "state", *OwnedAdmin.list_filter)
    search_fields = ("decided_by",)
    raw_id_fields = ("owner", "topic", "call", "follows", "edit")


@admin.register(models.BulkWork)
class BulkWorkAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "kind", "state", "asked_by", "asked_at", "at")
    list_filter = ("kind", "state")
    raw_id_fields = ("owner",)


@admin.register(models.BulkTopic)
class BulkTopicAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "work_id", "topic_id", "state", "tries", "fault")
    list_filter = ("state",)
    raw_id_fields = ("owner", "work", "topic", "edit")


@admin.register(models.SavedView)
class SavedViewAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "list", "name", "user", "is_shared", "at")
    list_filter = ("list", "is_shared")
    raw_id_fields = ("owner", "user")


@admin.register(models.Webhook)
class WebhookAdmin(OwnerlessAdmin):
    """Webhooks are made and changed on their own page."""

    list_display = ("name", "address", "state", "off_reason", "made_by", "made_at")
    list_filter: ClassVar[Any] = ("state",)
    search_fields = ("name",)


@admin.register(models.WebhookDelivery)
class WebhookDeliveryAdmin(OwnerlessAdmin):
    list_display = ("id", "webhook", "kind", "subject", "state", "status", "fault", "at")
    list_filter: ClassVar[Any] = ("state", "kind", "webhook")
    list_select_related: ClassVar[Any] = ("webhook",)
    raw_id_fields = ("owner",)


@admin.register(models.ForgetRequest)
class ForgetRequestAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "message_id", "asked_by", "at")
    raw_id_fields = ("owner", "message")


@admin.register(models.FindingMessage)
class FindingMessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "finding_id", "message_id")
    raw_id_fields = ("owner", "finding", "message")


@admin.register(models.UnreadTopic)
class UnreadTopicAdmin(ReadOnlyAdmin):
    list_display = ("topic_id", "owner", "state", "attempts", "due_at", "fault")
    list_filter = ("state", *OwnedAdmin.list_filter)
    raw_id_fields = ("owner", "topic")


@admin.register(models.Heartbeat)
class HeartbeatAdmin(OwnerlessAdmin):
    list_display = ("process", "at")
    search_fields = ("process",)


@admin.register(models.Work)
class WorkAdmin(ReadOnlyAdmin):
    list_display = ("kind", "owner", "source", "state", "worker", "done", "share", "at")
    list_filter = ("kind", "state", *OwnedAdmin.list_filter)
    search_fields = ("source",)


@admin.register(models.StagePause)
class StagePauseAdmin(OwnerlessAdmin):
    """Stages are paused and resumed on the pipeline page."""

    list_display = ("kind", "by", "at")


@admin.register(models.Pause)
class PauseAdmin(ReadOnlyAdmin):
    list_display = ("kind", "owner", "by", "at")
    list_filter = ("kind", *OwnedAdmin.list_filter)
