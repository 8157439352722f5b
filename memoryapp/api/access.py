"""Access to the API: a token needs the right scope, and opens the memories of its chat users.

Anything that a token may not see is answered as if it did not exist. All processes together count the requests of a
token against ``API_RATE``.
"""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest
from ninja.security import HttpBearer

from memoryapp.accounts import tokens
from memoryapp.accounts.rates import Allowances
from memoryapp.accounts.tokens import Grant
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.content import chat_users
from memoryapp.importers.record import clean
from memoryapp.models import ApiToken, ChatUser
from memoryapp.operations.database import in_thread

Scope = ApiToken.Scope
# For programs that need Authorization for the key of a provider.
TOKEN_HEADER = "X-Mnemoscope-Token"

_allowances = Allowances()


class Token(HttpBearer):
    """Admits a request whose token has one of these scopes; the grant is then the request's ``auth``.

    If ``of_all`` is given, a token with that scope is also admitted if it opens every memory. The header
    ``X-Mnemoscope-Token`` takes the place of ``Authorization``, where that one holds the key of a provider.
    """

    def __init__(self, *scopes: ApiToken.Scope, of_all: ApiToken.Scope | None = None) -> None:
        super().__init__()
        self.scopes = scopes
        self.of_all = of_all

    def __call__(self, request: HttpRequest) -> Any:
        named = request.headers.get(TOKEN_HEADER)
        return self.authenticate(request, named.strip()) if named else super().__call__(request)

    async def authenticate(self, request: HttpRequest, token: str) -> Grant | None:
        grant = await in_thread(_counted, token)
        if grant:
            self._check_scope(grant)
        return grant

    def _check_scope(self, grant: Grant) -> None:
        is_of_all = self.of_all is not None and grant.opens_all and grant.may(self.of_all)
        if not is_of_all and not any(grant.may(scope) for scope in self.scopes):
            needed = " or ".join(self.scopes)
            raise RequestRefused(403, f"This token may not do that: it needs the scope {needed}.")


def grant_of(request: HttpRequest) -> Grant:
    """Returns the grant of a request whose token ``Token`` has checked."""
    return cast(Grant, cast(Any, request).auth)


def _counted(text: str) -> Grant | None:
    """Returns what a token opens. Raises RequestRefused if too many requests came with it."""
    grant = tokens.check(text)
    if grant and (wait := _allowances.wait(grant.token.pk)):
        most, seconds = settings.API_RATE
        raise RequestRefused(429, f"More than {most} requests in {seconds:g} s; slow down.", wait=wait)
    return grant


def owner_named(grant: Grant, name: str) -> ChatUser | None:
    """Returns the chat user of that name, or None if it does not exist or the token does not open its memory."""
    return grant.visible_owners().filter(name=clean(name)).first()


def owner_or_404(grant: Grant, name: str) -> ChatUser:
    """Like ``owner_named``, but raises RequestRefused instead of returning None, and BeingErased during an erasure."""
    owner = owner_named(grant, name)
    if owner is None:
        if grant.opens_all and chat_users.being_erased(clean(name)):
            raise chat_users.BeingErased("This chat user is being erased.")
        raise RequestRefused(404, "There is no chat user of that name.")
    return owner
