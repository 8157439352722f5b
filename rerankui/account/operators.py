"""The pages of operators, for admins: who may sign in, with which role, to whose memories; and the record of it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.contrib.auth.views import INTERNAL_RESET_SESSION_TOKEN, PasswordResetConfirmView
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.functional import Promise
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from memoryapp.models import ChatUser, Operator, Role
from memoryapp.platform.accounts import operators as accounts
from rerankui.frame.access import open_to
from rerankui.frame.forms import ProjectsField
from rerankui.frame.pages import page_of

# The forms about operators: a new one, the rights of one, a password.

# What a role may do, in the order one reads them; each includes the ones before it.
MAY: Mapping[str, Promise] = {
    Role.VIEWER: gettext_lazy("Looks at memories, runs and answers."),
    Role.DEBUGGER: gettext_lazy("Also asks, forks runs and tries prompts."),
    Role.CURATOR: gettext_lazy("Also imports, edits topics, facts and people, and undoes changes."),
    Role.ADMIN: gettext_lazy("Everything, in every memory: operators, tokens, models, export and erasure."),
}


class PasswordForm(forms.Form):
    password = forms.CharField(
        label=gettext_lazy("Password"),
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs={"class": "field", "autocomplete": "new-password"}),
        error_messages={"required": gettext_lazy("Type a password.")},
    )

    def __init__(self, *args: Any, user: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        validate_password(password, self._user or User(username=self.cleaned_data.get("name", "")))
        return password


class _RightsForm(forms.Form):
    """A role and the memories it is for; an admin opens every memory, so none need be chosen."""

    role = forms.ChoiceField(
        label=gettext_lazy("Role"), choices=Role.choices, initial=Role.VIEWER, widget=forms.RadioSelect
    )
    owners = forms.ModelMultipleChoiceField(
        ChatUser.objects.none(), label=gettext_lazy("Memories"), required=False, widget=forms.CheckboxSelectMultiple
    )

    projects = ProjectsField(label=gettext_lazy("Only these projects"))

    def __init__(self, *args: Any, seen: QuerySet[ChatUser], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        owners = self.fields["owners"]
        assert isinstance(owners, forms.ModelMultipleChoiceField)
        owners.queryset = seen

    def clean(self) -> dict[str, Any]:
        """An admin sees everything."""
        sent = self.cleaned_data
        return sent | ({"projects": None} if sent.get("role") == Role.ADMIN else {})

    @property
    def roles(self) -> list[tuple[Any, Promise]]:
        return [(box, MAY[box.data["value"]]) for box in self["role"]]


class NewOperatorForm(_RightsForm, PasswordForm):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off", "autofocus": True}),
        error_messages={"required": gettext_lazy("Type the name with which the operator signs in.")},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The password is compared with the name, which is therefore read first.
        super().__init__(*args, field_order=("name", "password", "role", "owners", "projects"), **kwargs)
        self.fields["password"].required = False

    def clean_password(self) -> str:
        return super().clean_password() if self.cleaned_data["password"] else ""


class OperatorForm(_RightsForm):
    is_active = forms.BooleanField(label=gettext_lazy("May sign in"), required=False)

    def __init__(self, *args: Any, operator: Operator, **kwargs: Any) -> None:
        kwargs["initial"] = {
            "role": operator.role,
            "owners": list(operator.access_set.values_list("owner", flat=True)),
            "projects": operator.projects,
            "is_active": operator.user.is_active,
        }
        super().__init__(*args, **kwargs)


MOST_RECORDED = 20


@open_to(Role.ADMIN)
def operator_list(request: HttpRequest) -> HttpResponse:
    page = page_of(request, accounts.listed(), ("id",))
    context = {"page": page, "first_owners": accounts.FIRST_OWNERS, "record": accounts.record(MOST_RECORDED)}
    return render(request, "pages/operators/operators.html", context)


@sensitive_post_parameters("password")
@open_to(Role.ADMIN, post=Role.ADMIN)
def operator_make(request: HttpRequest) -> HttpResponse:
    form = NewOperatorForm(request.POST if request.method == "POST" else None, seen=_owners())
    if form.is_valid():
        sent = form.cleaned_data
        try:
            password = sent["password"] or None
            rights = {"projects": sent["projects"], "by": _by(request)}
            made = accounts.make(sent["name"], password, Role(sent["role"]), sent["owners"], **rights)
        except accounts.OperatorRefused as error:
            form.add_error("name", str(error))
        else:
            if password is None:
                return _invited(request, made)
            messages.success(request, _("%(name)s can sign in now.") % {"name": made})
            return redirect("operators")
    return render(request, "pages/operators/operator_make.html", {"form": form}, status=422 if form.is_bound else 200)


@sensitive_post_parameters("password")
@open_to(Role.ADMIN, post=Role.ADMIN)
def operator(request: HttpRequest, pk: int) -> HttpResponse:
    """Role, memories and sign-in of one operator; posted with ``do=password``, the new password alone, and with
    ``do=link``, a link with which the person chooses one."""
    row = get_object_or_404(Operator.objects.select_related("user"), pk=pk)
    if row.user.is_superuser and not cast(User, request.user).is_superuser:
        messages.warning(request, _("Only a superuser may change a superuser."))
        return redirect("operators")
    if request.POST.get("do") == "link":
        return _invited(request, row)
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
    context["has_passwords"] = settings.PASSWORD_LOGIN
    status = 422 if form.is_bound or password.is_bound else 200
    return render(request, "pages/operators/operator.html", context, status=status)


@never_cache
@sensitive_variables("address", "context")
def _invited(request: HttpRequest, row: Operator) -> HttpResponse:
    """The one page that shows the link; it ends with its first use, a login or ``INVITATION_KEEP``."""
    names = {
        "uidb64": urlsafe_base64_encode(force_bytes(row.user_id)),
        "token": default_token_generator.make_token(row.user),
    }
    address = reverse("operator_invitation", kwargs=names)
    link = f"{settings.PUBLIC_URL}{address}" if settings.PUBLIC_URL else request.build_absolute_uri(address)
    until = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    context = {"row": row, "link": link, "until": until}
    return render(request, "pages/operators/operator_invited.html", context, status=201)


class InvitationView(PasswordResetConfirmView):
    """Lets who has the link choose a password, once, and ends the sessions of the account."""

    template_name = "pages/operators/invitation.html"
    success_url = reverse_lazy("login")

    def get_form(self, form_class: Any = None) -> Any:
        form = super().get_form(form_class)
        for field in form.fields.values():
            field.widget.attrs["class"] = "field"
        return form

    def render_to_response(self, context: dict[str, Any], **named: Any) -> HttpResponse:
        return super().render_to_response(context, **named, status=200 if context["validlink"] else 404)

    def form_valid(self, form: Any) -> HttpResponse:
        row = get_object_or_404(Operator.objects.select_related("user"), user=form.user, user__is_active=True)
        accounts.set_password(row, form.cleaned_data["new_password1"], by=row.user)
        self.request.session.pop(INTERNAL_RESET_SESSION_TOKEN, None)
        messages.success(self.request, _("Your password is set. Sign in with it as %(name)s.") % {"name": row})
        return redirect("login")


invitation = InvitationView.as_view()


def _changed(request: HttpRequest, row: Operator, form: OperatorForm) -> bool:
    new: dict[str, Any] = form.cleaned_data
    try:
        rights = {name: new[name] for name in ("owners", "projects", "is_active")}
        accounts.change(row, role=Role(new["role"]), **rights, by=_by(request))
    except accounts.OperatorRefused as error:
        form.add_error(None, str(error))
        return False
    messages.success(request, _("The rights of %(name)s are saved.") % {"name": row})
    return True


def _owners() -> QuerySet[ChatUser]:
    return ChatUser.objects.order_by("name").defer("profile")


def _by(request: HttpRequest) -> User:
    return cast(User, request.user)
