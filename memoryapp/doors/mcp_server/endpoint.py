"""The addresses ``/mcp`` and ``/mcp/<user>``: a token opens them, and the second shows nothing but that memory."""

from urllib.parse import urlsplit

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils import translation
from django.views.decorators.csrf import csrf_exempt

from memoryapp.doors.api.access import Scope, Token
from memoryapp.doors.api.refusals import away, check_values, refusal
from memoryapp.doors.api.shapes.fields import RequestRefused
from memoryapp.doors.mcp_server.tool import Caller
from memoryapp.memory.content import BeingErased
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import entries
from memoryapp.platform.database import in_thread

if settings.MCP_OAUTH:
    from memoryapp.doors.mcp_server import oauth


class _AnyToken(Token):
    """Admits tokens of the API and, with ``MCP_OAUTH``, those that a person at a browser gave to a client."""

    def check(self, request: HttpRequest, text: str) -> Grant | None:
        grant = super().check(request, text)
        if grant or not settings.MCP_OAUTH:
            return grant
        return oauth.grant_of(text, request.build_absolute_uri(request.path))


_TOKEN = _AnyToken(Scope.RECALL, Scope.READ, Scope.INGEST, Scope.CURATE, Scope.FORGET)
_PACKAGES = ("mcp", "mcp_types")
_MISSING = "This server lacks the package mcp: install it with `pip install 'mcp>=2'`, and start again."


@csrf_exempt
async def mcp(request: HttpRequest, user: str = "") -> HttpResponse:
    """Answers one request of the protocol. Streams of the server's own messages are not offered (405)."""
    with translation.override("en"):
        if request.method != "POST":
            response = refusal(405)
            response["Allow"] = "POST"
            return response
        try:
            _check_origin(request)
            check_values(request.body)
            caller = Caller(await _grant(request), user, request)
            # Only calls of tools are written into the audit log.
            entries.begin_anonymous()
            if user:
                await in_thread(caller.memory, "", may_be_new=True)
        except RequestRefused as refused:
            response = refusal(refused.status, refused.message, code=refused.code, wait=refused.wait)
            return oauth.told(request, response) if refused.status == 401 and settings.MCP_OAUTH else response
        except BeingErased as erased:
            return refusal(409, str(erased), code="erased")
        except (OperationalError, InterfaceError) as error:
            return refusal(503, away(error), wait=2)
        return await _answer(request, caller)


async def _answer(request: HttpRequest, caller: Caller) -> HttpResponse:
    try:
        from memoryapp.doors.mcp_server import protocol  # noqa: PLC0415 the package mcp is optional, and slow to import
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PACKAGES:
            raise
        return refusal(501, _MISSING, code="unavailable")
    return await protocol.answer(caller, request.scope, request.body)  # type: ignore[attr-defined]


def _check_origin(request: HttpRequest) -> None:
    """Raises RequestRefused for a page of another site, which must not use what a browser can reach."""
    origin = request.headers.get("Origin")
    if origin and urlsplit(origin).netloc != request.get_host():
        raise RequestRefused(403, "Pages of other sites may not call this address.")


async def _grant(request: HttpRequest) -> Grant:
    checked = _TOKEN(request)
    grant: Grant | None = await checked if checked else None
    if grant is None:
        raise RequestRefused(401)
    return grant


mcp.login_required = False  # type: ignore[attr-defined]
urlpatterns = [
    path("mcp", mcp, name="mcp"),
    path("mcp/<path:user>", mcp, name="mcp_of_user"),
    *([path("", include("memoryapp.doors.mcp_server.oauth"))] if settings.MCP_OAUTH else []),
]
