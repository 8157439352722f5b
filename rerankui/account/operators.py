"""The pages of operators, for admins: who may sign in, with which role, to whose memories; and the record of it."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp.accounts import operators as accounts
from memoryapp.models import ChatUser, Operator, Role
from rerankui.access import requires
from rerankui.account.operator_forms import NewOperatorForm, OperatorForm, PasswordForm
from rerankui.pages import page_of

READS = ("GET", "HEAD", "POST")
MOST_RECORDED = 20


@require_safe
@requires(Role.ADMIN)
def operator_list(request: HttpRequest) -> HttpResponse:
    page = page_of(request, accounts.listed(), ("id",))
    context = {"page": page, "first_owners": accounts.FIRST_OWNERS, "record": accounts.record(MOST_RECORDED)}
    return render(request, "pages/operators/operators.html", context)


@sensitive_post_parameters("password")
@require_http_methods(READS)
@requires(Role.ADMIN)
def operator_make(request: HttpRequest) -> HttpResponse:
    form = NewOperatorForm(request.POST if request.method == "POST" else None, seen=_owners())
    if form.is_valid():
        sent = form.cleaned_data
        try:
            made = accounts.make(sent["name"], sent["password"], Role(sent["role"]), sent["owners"], by=_by(request))
        except accounts.OperatorRefused as error:
            form.add_error("name", str(error))
        else:
            messages.success(request, _("%(name)s can sign in now.") % {"name": made})
            return redirect("operators")
    return render(request, "pages/operators/operator_make.html", {"form": form}, status=422 if form.is_bound else 200)


@sensitive_post_parameters("password")
@require_http_methods(READS)
@requires(Role.ADMIN)
def operator(request: HttpRequest, pk: int) -> HttpResponse:
    """Role, memories and sign-in of one operator; posted with ``do=password``, the new password alone."""
    row = get_object_or_404(Operator.objects.select_related("user"), pk=pk)
    if row.user.is_superuser and not cast(User, request.user).is_superuser:
        messages.warning(request, _("Only a superuser may change a superuser."))
        return redirect("operators")
    posts_password = request.POST.get("do") == "password"
    form = OperatorForm(
        request.POST if request.method == "POST" and not posts_password else None, seen=_owners(), operator=row
    )
    password = PasswordForm(request.POST if posts_password else None, user=row.user)
    if form.is_valid() and _changed(request, row, form):
        return redirect("operators")
    if password.is_valid():
        accounts.set_password(row, password.cleaned_data["password"], by=_by(request))
        messages.success(request, _("%(name)s has a new password and is signed out everywhere.") % {"name": row})
        return redirect("operators")
    context = {"row": row, "form": form, "password": password, "is_self": row.user_id == request.user.pk}
    status = 422 if form.is_bound or password.is_bound else 200
    return render(request, "pages/operators/operator.html", context, status=status)


def _changed(request: HttpRequest, row: Operator, form: OperatorForm) -> bool:
    sent: dict[str, Any] = form.cleaned_data
    try:
        accounts.change(
            row, role=Role(sent["role"]), owners=sent["owners"], is_active=sent["is_active"], by=_by(request)
        )
    except accounts.OperatorRefused as error:
        form.add_error(None, str(error))
        return False
    messages.success(request, _("The rights of %(name)s are saved.") % {"name": row})
    return True


def _owners() -> QuerySet[ChatUser]:
    return ChatUser.objects.order_by("name").defer("profile")


def _by(request: HttpRequest) -> User:
    return cast(User, request.user)
