"""API tokens: who may do what, a new one, and the end of one. For admins.

The text of a token is in one answer only, the one to the form that made it. It is in no address, no session and
no row; and as every form carries the number of the one token it can make, the same form sent again, by a reload,
by going back or by pressing twice, makes nothing and shows nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import tokens
from memoryapp.models import ApiToken, ChatUser, Role
from rerankui.access import requires, seen_owners
from rerankui.forms import TokenForm
from rerankui.pages import page_of

READS = ("GET", "HEAD", "POST")
LATELY_REVOKED = 5
LIVE, REVOKED = ("-created_at", "-id"), ("-revoked_at", "-id")
Scope = ApiToken.Scope
_numbers = Signer(salt="token-number")


@dataclass(frozen=True, slots=True)
class Listed:
    """A token as its row tells it; ``owners`` are the first of ``owners`` and ``more`` others."""

    token: ApiToken
    may: Sequence[str]
    opens_all: bool
    owners: Sequence[ChatUser]
    more: int
    made_by: str
    revoked_by: str


@require_safe
@requires(Role.ADMIN)
def token_list(request: HttpRequest) -> HttpResponse:
    """Those in force, and below them the last ones revoked; with ``state=revoked`` all of those."""
    is_revoked = request.GET.get("state") == "revoked"
    rows = tokens.listed().filter(revoked_at__isnull=not is_revoked)
    page = page_of(request, rows, REVOKED if is_revoked else LIVE)
    if not page and ("after" in request.GET or "before" in request.GET):
        return redirect("tokens")
    lately = [] if is_revoked or page.after else _lately_revoked()
    context = {
        "page": page,
        "is_revoked": is_revoked,
        "listed": _listed(page.rows),
        "revoked": _listed(lately[:LATELY_REVOKED]),
        "has_more_revoked": len(lately) > LATELY_REVOKED,
    }
    return render(request, "pages/tokens.html", context)


def _lately_revoked() -> list[ApiToken]:
    return list(tokens.listed().filter(revoked_at__isnull=False).order_by(*REVOKED)[: LATELY_REVOKED + 1])


def _listed(rows: Sequence[ApiToken]) -> list[Listed]:
    made, revoked = tokens.makers(rows), tokens.revokers(rows)
    return [_told(token, made.get(token.pk, ""), revoked.get(token.pk, "")) for token in rows]


def _told(token: Any, made_by: str = "", revoked_by: str = "") -> Listed:
    """``token`` is a row of ``tokens.listed``."""
    may = [str(label) for scope, label in Scope.choices if scope in token.scopes and scope != Scope.EVERYONE]
    more = token.owner_count - len(token.first_owners)
    return Listed(token, may, Scope.EVERYONE in token.scopes, token.first_owners, more, made_by, revoked_by)


@never_cache
@sensitive_variables("text", "context")
@require_http_methods(READS)
@requires(Role.ADMIN)
def token_make(request: HttpRequest) -> HttpResponse:
    """The form; posted, the one page that tells the token."""
    is_sent = request.method == "POST"
    form = TokenForm(request.POST if is_sent else None, seen=seen_owners(request))
    number = _number_in(request.POST.get("number", ""))
    if number and ApiToken.objects.filter(pk=number).exists():
        return _shown_before(request, number)
    if not form.is_valid() or number is None:
        context = {"form": form, "number": _numbers.sign(str(number or tokens.reserve()))}
        return render(request, "pages/token_make.html", context, status=422 if is_sent else 200)
    sent = form.cleaned_data
    scopes = [Scope(scope) for scope in sent["scopes"]]
    try:
        token, text = tokens.make(sent["name"], scopes, sent["users"], number=number, by=cast(User, request.user))
    except tokens.MadeAlready:
        return _shown_before(request, number)
    told = _told(tokens.listed().get(pk=token.pk))
    context = {"told": told, "text": text, "example": _example(request, told, text)}
    return render(request, "pages/token_made.html", context, status=201)


def _number_in(sent: str) -> int | None:
    """The number that a form was given for its token; None for a form that this page did not draw."""
    try:
        return int(_numbers.unsign(sent))
    except BadSignature:
        return None


def _shown_before(request: HttpRequest, number: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=number)
    said = _("“%(name)s” was made already, and shown then. If its text is lost, revoke it and make another.")
    messages.warning(request, said % {"name": token.name})
    return redirect("tokens")


def _example(request: HttpRequest, told: Listed, text: str) -> str:
    """A line for a shell that uses the token: one that changes nothing, if its scopes allow any."""
    owner = next(iter(told.owners), None) or seen_owners(request).order_by("name").first()
    name = owner.name if owner else "anna"
    body: dict[str, Any] = {}
    may = told.token.scopes
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


@require_http_methods(READS)
@requires(Role.ADMIN)
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks, and when posted revokes. One revoked before is told, and left as it is."""
    token = get_object_or_404(tokens.listed(), pk=pk)
    if request.method != "POST" and token.revoked_at is None:
        return render(request, "pages/token_revoke.html", {"told": _told(token)})
    by = cast(User, request.user)
    if request.method == "POST" and tokens.revoke(ApiToken.objects.filter(pk=pk), by=by):
        messages.success(request, _("“%(name)s” is revoked: it opens nothing any more.") % {"name": token.name})
    else:
        messages.info(request, _("“%(name)s” was revoked before.") % {"name": token.name})
    return redirect("tokens")
