"""The base of the administration's pages: who may enter, and read-only rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memoryapp import models
from memoryapp.engine.cells import cell, enter
from memoryapp.platform import cells
from memoryapp.platform.accounts import signing_in
from memoryapp.platform.audit import entries

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
    asked = request.GET.get("cell", "")
    if cell() is None:
        enter(int(asked) if asked.isdecimal() and int(asked) in cells.numbers() else cells.numbers()[-1])
    is_admin = user.is_superuser or models.Operator.objects.filter(user=user.pk, role=models.Role.ADMIN).exists()
    if is_admin and settings.AUDIT_LOG and not hasattr(request, "is_audited"):
        request.is_audited = True  # type: ignore[attr-defined]
        _audit(request)
    return is_admin


def _audit(request: HttpRequest) -> None:
    """Writes who opens or changes which rows. A page of the administration asks several times whether somebody may."""
    match = request.resolver_match
    of_url = (match.url_name or "" if match else "").split("_")
    model = apps.all_models["memoryapp"].get(of_url[1]) if len(of_url) == 3 else None
    number = unquote(str(match.kwargs.get("object_id", ""))) if match else ""
    row = ModelAdmin(model, admin.site).get_object(request, number) if model and number else None
    owner = row.pk if isinstance(row, models.ChatUser) else getattr(row, "owner_id", None)
    what = entries.named(" ".join(("admin", *of_url[1:2])), {"pk": row.pk} if row else {})
    deed = models.Deed.CHANGE if request.method == "POST" else models.Deed.READ
    entries.begin(request.user.get_username(), models.Door.PAGE, deed, what, request)
    entries.saw(owner)


# Assigned, because Django creates the site before it imports this module, and every model registers with it.
admin.site.site_header = admin.site.site_title = "Mnemoscope"
admin.site.has_permission = may_enter  # type: ignore[method-assign]


class CellFilter(admin.SimpleListFilter):
    """The cell whose rows a list shows, where there are several."""

    title, parameter_name = _("cell"), "cell"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(number), str(number)) for number in cells.numbers()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class ReadOnlyAdmin(ModelAdmin):
    """Rows that are only shown. ``unfetched`` columns are never read, ``unlisted`` ones only for one row’s page."""

    unfetched: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.unfetched, *self.unlisted)

    def get_list_filter(self, request: HttpRequest) -> Any:
        is_of_cells = settings.CELLS > 1 and getattr(self.model, "in_cell", False)
        return [CellFilter] * is_of_cells + [*super().get_list_filter(request)]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        try:
            number = self.opts.pk.to_python(object_id)
            return cells.first(self.get_queryset(request).filter(pk=number), number)
        except (ValidationError, ValueError):
            return None

    def get_exclude(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.unfetched

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
