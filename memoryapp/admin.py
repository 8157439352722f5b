"""Every row in Django's admin: to look at, and to mend what has no function of its own.

It shows every chat user's memory, so only who may see everyone enters: the role admin, or a superuser. What is
only right when changed through a function (messages, topics, edits, passages, vectors, runs) can be read here
and nothing more. Lists join what they show and never fetch a vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from memoryapp import models

if TYPE_CHECKING:  # Django's own classes take no parameters at run time
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
    StackedInline = admin.StackedInline[Any, Any]
    BaseUserAdmin = UserAdmin[User]
else:
    ModelAdmin, TabularInline, StackedInline = admin.ModelAdmin, admin.TabularInline, admin.StackedInline
    BaseUserAdmin = UserAdmin


def may_enter(request: HttpRequest) -> bool:
    """Being staff is not enough: Django's permissions know models, not whose memory a row is."""
    user = request.user
    if not user.is_active:
        return False
    return user.is_superuser or models.Operator.objects.filter(user=user.pk, role=models.Role.ADMIN).exists()


# Assigned, for the site is made before this module is found, and everything registers with that one.
admin.site.site_header = admin.site.site_title = "Mnemoscope"
admin.site.has_permission = may_enter  # type: ignore[method-assign]


class OwnedAdmin(ModelAdmin):
    """Rows of one chat user's memory, newest id first; ids instead of select boxes with a million entries."""

    unfetched: tuple[str, ...] = ()
    show_full_result_count = False
    list_per_page = 50
    list_filter: ClassVar[Any] = (("owner", admin.RelatedOnlyFieldListFilter),)
    ordering: ClassVar[Any] = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.unfetched)

    def get_exclude(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.unfetched


class ReadOnlyAdmin(OwnedAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(models.ChatUser)
class ChatUserAdmin(ModelAdmin):
    list_display = ("name", "display_name", "created_at")
    search_fields = ("name", "display_name")
    readonly_fields = ("created_at",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A memory is erased by its own command, which counts what went."""
        return False


class AccessInline(TabularInline):
    model = models.Access
    raw_id_fields = ("owner",)
    extra = 1


@admin.register(models.Operator)
class OperatorAdmin(ModelAdmin):
    list_display = ("user", "role")
    list_filter = ("role",)
    list_select_related = ("user",)
    search_fields = ("user__username",)
    raw_id_fields = ("user",)
    inlines = (AccessInline,)


class OperatorInline(StackedInline):
    model = models.Operator
    can_delete = False


admin.site.unregister(User)


@admin.register(User)
class UserWithRoleAdmin(BaseUserAdmin):
    """A new user gets a role on the same page; the chat users they may see stand with the operator."""

    inlines = (OperatorInline,)


@admin.register(models.Access)
class AccessAdmin(OwnedAdmin):
    list_display = ("operator", "owner")
    list_select_related = ("operator__user", "owner")
    raw_id_fields = ("operator", "owner")


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


@admin.register(models.Topic)
class TopicAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "owner", "ended_at", "message_count", "size_chars", "is_live", "locked_by_hand")
    list_filter = ("is_live", "locked_by_hand", "is_consolidated", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("summary", "=id")


@admin.register(models.TopicMessage)
class TopicMessageAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "topic_id", "message_id")
    list_select_related = ("owner",)
    raw_id_fields = ("owner", "topic", "message")
    search_fields = ("=topic__id", "=message__id")


@admin.register(models.TopicEdit)
class TopicEditAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "kind", "actor", "reason", "at")
    list_filter = ("kind", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("actor", "reason")


@admin.register(models.EditedTopic)
class EditedTopicAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "edit_id", "side", "topic_id")
    list_filter = ("side", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    raw_id_fields = ("owner", "edit", "topic")
    search_fields = ("=topic__id",)


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


@admin.register(models.Person)
class PersonAdmin(OwnedAdmin):
    list_display = ("display_name", "owner", "circle", "username", "mention_count", "last_seen")
    list_filter = ("circle", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("display_name", "username", "bio")
    raw_id_fields = ("owner",)


@admin.register(models.Artifact)
class ArtifactAdmin(OwnedAdmin):
    list_display = ("name", "owner", "file_type", "state", "size_bytes", "created_at")
    list_filter = ("state", "file_type", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("name", "summary", "=sha256")
    raw_id_fields = ("owner", "message")


@admin.register(models.Fact)
class FactAdmin(OwnedAdmin):
    list_display = ("__str__", "owner", "relation", "category", "type", "importance")
    list_filter = ("type", *OwnedAdmin.list_filter)
    list_select_related = ("owner",)
    search_fields = ("content", "relation", "category")
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


@admin.register(models.Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ("source", "strategy", "started_at")
    list_filter: ClassVar[Any] = ("strategy",)
