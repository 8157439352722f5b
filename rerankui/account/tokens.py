"""The pages of API tokens, for admins: the list, making a token, revoking one.

The text of a token stands in one response only, the one to the form that made it, and in no address, session or row.
Every form carries the number of the one token it can make: the same form sent again, by a reload, by going back or by
pressing twice, makes no token and shows no text.
"""

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

from memoryapp.models import ApiToken, ChatUser, Role
from memoryapp.platform.accounts import tokens
from rerankui.frame.access import open_to, visible_owners
from rerankui.frame.forms import TokenForm
from rerankui.frame.pages import page_of

LATELY_REVOKED = 5
LIVE, REVOKED = ("-created_at", "-id"), ("-revoked_at", "-id")
Scope = ApiToken.Scope
_numbers = Signer(salt="token-number")


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token as the list shows it: ``owners`` are the first chat users it opens, ``more`` counts the others."""

    token: ApiToken
    may: Sequence[str]
    opens_all: bool
    owners: Sequence[ChatUser]
    more: int
    made_by: str
    revoked_by: str


@open_to(Role.ADMIN)
def token_list(request: HttpRequest) -> HttpResponse:
    """The tokens in force and below them the last ones revoked; with ``state=revoked`` all revoked tokens."""
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
    return render(request, "pages/tokens/tokens.html", context)


def _lately_revoked() -> list[ApiToken]:
    return list(tokens.listed().filter(revoked_at__isnull=False).order_by(*REVOKED)[: LATELY_REVOKED + 1])


def _listed(rows: Sequence[ApiToken]) -> list[ListedToken]:
    made, revoked = tokens.makers(rows), tokens.revokers(rows)
    return [_listing(token, made.get(token.pk, ""), revoked.get(token.pk, "")) for token in rows]


def _listing(token: Any, made_by: str = "", revoked_by: str = "") -> ListedToken:
    """``token`` is a row of ``tokens.listed``."""
    may = [str(label) for scope, label in Scope.choices if scope in token.scopes and scope != Scope.EVERYONE]
    more = token.owner_count - len(token.first_owners)
    return ListedToken(token, may, Scope.EVERYONE in token.scopes, token.first_owners, more, made_by, revoked_by)


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
        token, text = tokens.make(sent["name"], scopes, sent["users"], number=number, by=cast(User, request.user))
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


def _example(request: HttpRequest, row: ListedToken, text: str) -> str:
    """A line for a shell that uses the token: one that changes nothing, if its scopes allow any."""
    owner = next(iter(row.owners), None) or visible_owners(request).order_by("name").first()
    name = owner.name if owner else "anna"
    body: dict[str, Any] = {}
    may = row.token.scopes
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
