"""The base of the administration's pages: who may enter, and read-only rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from memoryapp import models
from memoryapp.platform.accounts import signing_in

if TYPE_CHECKING:  # Django's own classes take no parameters at run time
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
    StackedInline = admin.StackedInline[Any, Any]
    BaseUserAdmin = UserAdmin[User]
else:
    ModelAdmin, TabularInline, StackedInline = admin.ModelAdmin, admin.TabularInline, admin.StackedInline
    BaseUserAdmin = UserAdmin


def may_enter(request: HttpRequest) -> bool:
    """Returns True for admins and superusers. Being staff is not enough: Django's permissions ignore chat users."""
    user = request.user
    if not user.is_active:
        return False
    signing_in.note(request)
    return user.is_superuser or models.Operator.objects.filter(user=user.pk, role=models.Role.ADMIN).exists()


# Assigned, because Django creates the site before it imports this module, and every model registers with it.
admin.site.site_header = admin.site.site_title = "Mnemoscope"
admin.site.has_permission = may_enter  # type: ignore[method-assign]


class ReadOnlyAdmin(ModelAdmin):
    """Rows that are only shown. ``unfetched`` columns are never read, ``unlisted`` ones only for one row’s page."""

    unfetched: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.unfetched, *self.unlisted)

    def get_exclude(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.unfetched

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
