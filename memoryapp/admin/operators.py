"""What is changed here: operators, accounts, chat users, and settings that are rows. Tokens are revoked."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, pgettext_lazy

from memoryapp import models
from memoryapp.admin.base import BaseUserAdmin, ModelAdmin, StackedInline, TabularInline
from memoryapp.platform.accounts import tokens


@admin.register(models.ChatUser)
class ChatUserAdmin(ModelAdmin):
    list_display = ("name", "display_name", "created_at")
    search_fields = ("name", "display_name")
    readonly_fields = ("created_at",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Returns False, because a memory must be erased through the room ``erasure``, which leaves a receipt."""
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


class RoleForm(forms.ModelForm):  # type: ignore[type-arg]
    def has_changed(self) -> bool:
        """Returns True for a new user even if the role is the default one, because the row must be stored."""
        return super().has_changed() or self.instance.user_id is None


class OperatorInline(StackedInline):
    model = models.Operator
    form = RoleForm
    can_delete = False


admin.site.unregister(User)
_OF_SUPERUSERS = ("is_superuser", "is_staff", "groups", "user_permissions")


@admin.register(User)
class UserWithRoleAdmin(BaseUserAdmin):
    """Sets the role of a user on the same page; the chat users they may see are set on the operator's page."""

    inlines = (OperatorInline,)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Only a superuser may make superusers: the role admin grants no more rights than it has."""
        given = super().get_readonly_fields(request, obj)
        return given if request.user.is_superuser else (*given, *_OF_SUPERUSERS)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _reaches(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _reaches(request, obj)


def _reaches(request: HttpRequest, account: User | None) -> bool:
    return request.user.is_superuser or account is None or not account.is_superuser


@admin.register(models.ApiToken)
class ApiTokenAdmin(ModelAdmin):
    """Lists and revokes tokens. What a token opens is fixed when it is made."""

    list_display = ("name", "prefix", "scope_labels", "created_at", "last_used_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "prefix")
    fields = ("name", "prefix", "scope_labels", "owners", "created_at", "last_used_at", "revoked_at")
    readonly_fields = fields
    actions = ("revoke",)

    @admin.display(description=pgettext_lazy("rights", "may"))
    def scope_labels(self, token: models.ApiToken) -> str:
        return ", ".join(str(label) for scope, label in models.ApiToken.Scope.choices if scope in token.scopes)

    @admin.action(description=_("Revoke the selected tokens"))
    def revoke(self, request: HttpRequest, queryset: QuerySet[models.ApiToken]) -> None:
        count = tokens.revoke(queryset, by=cast(User, request.user))
        sentence = ngettext("%(count)s token was revoked.", "%(count)s tokens were revoked.", count)
        self.message_user(request, sentence % {"count": count})

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Returns False, because the runs of a revoked token still refer to it."""
        return False


@admin.register(models.Access)
class AccessAdmin(ModelAdmin):
    list_display = ("operator", "owner")
    list_filter = (("owner", admin.RelatedOnlyFieldListFilter),)
    list_select_related = ("operator__user", "owner")
    list_per_page = 50
    ordering = ("-pk",)
    raw_id_fields = ("operator", "owner")


class MadeElsewhereAdmin(ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


@admin.register(models.EmbeddingProfile)
class EmbeddingProfileAdmin(MadeElsewhereAdmin):
    """The program creates profiles; their thresholds are changed here."""

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


@admin.register(models.FilterPreset)
class FilterPresetAdmin(MadeElsewhereAdmin):
    """Presets are made in the filter lab, which shows their effect."""

    list_display = ("name", "profile", "threshold", "score_gap", "final_top_k", "made_by", "made_at")
    list_filter = ("profile",)
    readonly_fields = ("profile", "made_by")
