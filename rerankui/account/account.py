"""The user's own account, for every role: the password and the sessions."""

import json
import shlex
from collections.abc import Sequence
from datetime import datetime
from math import ceil
from typing import Any, cast
from urllib.parse import quote

from axes.models import AccessAttempt, AccessFailureLog
from axes.utils import reset
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, Signer
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from memoryapp.engine.beside import table_beside
from memoryapp.models import ApiToken, LoginSession, Role
from memoryapp.platform import caps
from memoryapp.platform.accounts import signing_in, tokens
from memoryapp.platform.accounts.operators import operator_for
from memoryapp.platform.accounts.signing_in import address_of
from rerankui.frame.access import open_to, visible_owners
from rerankui.frame.forms import TokenForm
from rerankui.frame.frame import DENSITIES, THEMES
from rerankui.frame.pages import page_of
from rerankui.frame.toasts import next_address

MOST_SESSIONS = 50
EVERYWHERE = "everywhere"


@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """The user's sessions; a post ends one of them, or all."""
    signing_in.note(request)
    user = cast(User, request.user)
    if request.method == "POST":
        named = request.POST.get("end", "")
        sessions = signing_in.of_user(user)
        chosen = [row for row in sessions if named in (EVERYWHERE, signing_in.digest_of(row))]
        ends_this_one = any(_is_this_one(request, row) for row in chosen)
        LoginSession.objects.filter(user=user, pk__in=[row.pk for row in chosen]).delete()
        if ends_this_one:
            logout(request)
            return redirect("login")
        messages.success(request, _("Signed out there.") if chosen else _("That session had ended already."))
        return redirect("account")
    rows = signing_in.of_user(user)[:MOST_SESSIONS]
    # The digest is shown in place of the key.
    listed = [{"session": s, "name": signing_in.digest_of(s), "is_this_one": _is_this_one(request, s)} for s in rows]
    context = {"sessions": listed, "everywhere": EVERYWHERE, "has_factors": settings.SECOND_FACTOR}
    return render(request, "pages/account/account.html", context)


def _is_this_one(request: HttpRequest, row: LoginSession) -> bool:
    return row.session_key == request.session.session_key


class OwnPasswordForm(PasswordChangeForm):
    """Tries the old password as signing in does, so that it can be guessed no more often."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request = request
        for field in self.fields.values():
            field.widget.attrs["class"] = "field"

    def clean_old_password(self) -> str:
        old = str(self.cleaned_data["old_password"])
        if authenticate(self._request, username=self.user.get_username(), password=old) != self.user:
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return old


class OwnPassword(PasswordChangeView):
    """Asks for the old password, keeps this session and ends all others."""

    template_name = "pages/account/password.html"
    form_class = OwnPasswordForm
    success_url = reverse_lazy("account")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        reset(ip=address_of(self.request), username=form.user.get_username())
        others = LoginSession.objects.filter(user=form.user).exclude(pk=self.request.session.session_key)
        others.delete()
        messages.success(self.request, _("Your password is changed. Everywhere else you are signed out."))
        return answer


password = OwnPassword.as_view()


# Signing in and out, and the two choices that need no account: language and theme.

YEAR_SECONDS = 365 * 24 * 3600


class SignInForm(AuthenticationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = "field"


class SignInView(LoginView):
    template_name = "pages/account/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True
    extra_context = {
        "provider": settings.OIDC_ISSUER and settings.OIDC_PROVIDER_ID,
        "provider_name": settings.OIDC_NAME,
        "has_passwords": settings.PASSWORD_LOGIN,
        "has_passkeys": settings.SECOND_FACTOR,
    }

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        before = user.last_login
        answer = self._after_password(user) if settings.SECOND_FACTOR else super().form_valid(form)
        # Who still owes a second factor is not told what happens here.
        if self.request.user.is_authenticated:
            _warn_of_attempts(self.request, before)
        return answer

    def _after_password(self, user: User) -> HttpResponse:
        from allauth.account.internal.flows.login import perform_password_login  # noqa: PLC0415 it needs its tables
        from allauth.account.models import Login  # noqa: PLC0415

        login = Login(user=user, redirect_url=self.get_success_url())
        return cast(HttpResponse, perform_password_login(self.request, {"username": user.get_username()}, login))


def _warn_of_attempts(request: HttpRequest, since: datetime | None) -> None:
    """Warn a user who may see everyone of the accounts that were locked since that user signed in last."""
    operator = operator_for(request.user)
    if operator is None or not operator.sees_everyone:
        return
    tried = AccessFailureLog.objects.filter(locked_out=True)
    count = (tried.filter(attempt_time__gt=since) if since else tried).values("username").distinct().count()
    if count:
        sentence = ngettext(
            "Since you were here last, %(count)s account was tried with wrong passwords until it had to wait."
            " Administration lists it under access failures.",
            "Since you were here last, %(count)s accounts were tried with wrong passwords until they had to wait."
            " Administration lists them under access failures.",
            count,
        )
        messages.warning(request, sentence % {"count": count})


def locked_out(request: HttpRequest, response: HttpResponse, credentials: dict[str, str]) -> HttpResponse:
    """The answer after too many wrong passwords: how long to wait. Only signing in is refused."""
    last = AccessAttempt.objects.filter(ip_address=address_of(request)).aggregate(at=Max("attempt_time"))["at"]
    ends = (last or timezone.now()) + settings.AXES_COOLOFF_TIME
    seconds = max(1, ceil((ends - timezone.now()).total_seconds()))
    answer = render(request, "pages/account/locked_out.html", {"minutes": ceil(seconds / 60)}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer


login = SignInView.as_view()
sign_out = LogoutView.as_view()
language = login_not_required(set_language)


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme or the density in a cookie, so that the server draws the page in it from the first byte."""
    answer = HttpResponseRedirect(next_address(request) or "/")
    for name, choices in (("theme", THEMES), ("density", DENSITIES)):
        chosen = request.POST.get(name, "")
        if chosen in choices:
            answer.set_cookie(name, chosen, max_age=YEAR_SECONDS, samesite="Lax", secure=request.is_secure())
    return answer


# A browser and its system in two words, out of what it says of itself.

_NAMES = table_beside(__file__)
LONGEST = 60


def device_name(user_agent: str) -> str:
    """``Firefox on Linux``; the beginning of what it says where it is no browser that is known."""
    browser, system = (
        next((name for mark, name in _NAMES[kind].items() if mark in user_agent), "")
        for kind in ("browsers", "systems")
    )
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or user_agent[:LONGEST]


# Tokens of programs.


LATELY_REVOKED = 5
LIVE, REVOKED = ("-created_at", "-id"), ("-revoked_at", "-id")
Scope = ApiToken.Scope
_numbers = Signer(salt="token-number")


@open_to(Role.ADMIN)
def token_list(request: HttpRequest) -> HttpResponse:
    """The tokens in force and below them the last ones revoked; with ``state=revoked`` all revoked tokens."""
    is_revoked = request.GET.get("state") == "revoked"
    rows = tokens.listed().filter(revoked_at__isnull=not is_revoked)
    page = page_of(request, rows, REVOKED if is_revoked else LIVE)
    if not page and ("after" in request.GET or "before" in request.GET):
        return redirect("tokens")
    revoked = tokens.listed().filter(revoked_at__isnull=False).order_by(*REVOKED)
    lately = [] if is_revoked or page.after else list(revoked[: LATELY_REVOKED + 1])
    context = {
        "page": page,
        "is_revoked": is_revoked,
        "listed": _listed(page.rows),
        "revoked": _listed(lately[:LATELY_REVOKED]),
        "has_more_revoked": len(lately) > LATELY_REVOKED,
    }
    return render(request, "pages/tokens/tokens.html", context)


def _listed(rows: Sequence[ApiToken]) -> list[dict[str, Any]]:
    made, revoked, spent = tokens.makers(rows), tokens.revokers(rows), caps.today()
    return [
        _listing(token, made.get(token.pk, ""), revoked.get(token.pk, ""), spent.get(f"token:{token.pk}", 0.0))
        for token in rows
    ]


def _listing(token: Any, made_by: str = "", revoked_by: str = "", spent: float = 0.0) -> dict[str, Any]:
    """A token as the list shows it: ``owners`` are the first chat users it opens, ``more`` counts the others, and
    ``spent`` are the dollars of today."""
    """``token`` is a row of ``tokens.listed``."""
    may = [str(label) for scope, label in Scope.choices if scope in token.scopes and scope != Scope.EVERYONE]
    more = token.owner_count - len(token.first_owners)
    opens_all = Scope.EVERYONE in token.scopes
    return {
        "token": token,
        "may": may,
        "opens_all": opens_all,
        "owners": token.first_owners,
        "more": more,
        "made_by": made_by,
        "revoked_by": revoked_by,
        "spent": spent,
    }


@never_cache
@sensitive_variables("text", "context")
@open_to(Role.ADMIN, post=Role.ADMIN)
def token_make(request: HttpRequest) -> HttpResponse:
    """The form of a new token; a post makes it and answers with the one page that shows its text."""
    is_sent = request.method == "POST"
    form = TokenForm(request.POST if is_sent else None, seen=visible_owners(request))
    number = _number_in(request.POST.get("number", ""))
    if number and ApiToken.objects.filter(pk=number).exists():
        return _shown_before(request, number)
    if not form.is_valid() or number is None:
        context = {"form": form, "number": _numbers.sign(str(number or tokens.reserve()))}
        return render(request, "pages/tokens/token_make.html", context, status=422 if is_sent else 200)
    sent = form.cleaned_data
    scopes = [Scope(scope) for scope in sent["scopes"]]
    try:
        more: Any = {"by": request.user, "daily_cap_usd": sent["daily_cap_usd"], "projects": sent["projects"]}
        token, text = tokens.make(sent["name"], scopes, sent["users"], number=number, **more)
    except tokens.MadeAlready:
        return _shown_before(request, number)
    row = _listing(tokens.listed().get(pk=token.pk))
    context = {"row": row, "text": text, "example": _example(request, row, text)}
    return render(request, "pages/tokens/token_made.html", context, status=201)


def _number_in(sent: str) -> int | None:
    """The number that the form carries for its token; None for a form that this page did not draw."""
    try:
        return int(_numbers.unsign(sent))
    except BadSignature:
        return None


def _shown_before(request: HttpRequest, number: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=number)
    sentence = _("“%(name)s” was created already, and shown then. If you lost its text, revoke it and create another.")
    messages.warning(request, sentence % {"name": token.name})
    return redirect("tokens")


def _example(request: HttpRequest, row: dict[str, Any], text: str) -> str:
    """A line for a shell that uses the token: one that changes nothing, if its scopes allow any."""
    owner = next(iter(row["owners"]), None) or visible_owners(request).order_by("name").first()
    name = owner.name if owner else "anna"
    body: dict[str, Any] = {}
    may = row["token"].scopes
    if Scope.READ in may:
        address = f"users/{quote(name)}/topics"
    elif Scope.CURATE in may:
        address = f"edits?user={quote(name, safe='')}"
    elif Scope.RECALL in may:
        address, body = "recall", {"user": name, "query": _("What did we talk about last?")}
    else:
        address, body = "messages", {"user": name, "messages": []}
    words = ["curl", "-H", f"Authorization: Bearer {text}", request.build_absolute_uri(f"/v1/{address}")]
    sent = ["-d", json.dumps(body, ensure_ascii=False)] if body else []
    return shlex.join([*words, *sent])


@open_to(Role.ADMIN, post=Role.ADMIN)
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks for confirmation; a post revokes the token. A token revoked before stays as it is, and a message says so."""
    token = get_object_or_404(tokens.listed(), pk=pk)
    if request.method != "POST" and token.revoked_at is None:
        return render(request, "pages/tokens/token_revoke.html", {"row": _listing(token)})
    by = cast(User, request.user)
    if request.method == "POST" and tokens.revoke(ApiToken.objects.filter(pk=pk), by=by):
        messages.success(request, _("“%(name)s” is revoked: it no longer gives access.") % {"name": token.name})
    else:
        messages.info(request, _("“%(name)s” was revoked before.") % {"name": token.name})
    return redirect("tokens")


@open_to(post=Role.ADMIN)
def token_cap(request: HttpRequest, pk: int) -> HttpResponse:
    """Sets what the token's questions may cost a day; empty for no cap."""
    token = get_object_or_404(ApiToken, pk=pk, revoked_at__isnull=True)
    try:
        token.daily_cap_usd = TokenForm.base_fields["daily_cap_usd"].clean(request.POST.get("daily_cap_usd"))
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
    else:
        token.save(update_fields=["daily_cap_usd"])
        messages.success(request, _("The cap of “%(name)s” is changed.") % {"name": token.name})
    return redirect("tokens")
