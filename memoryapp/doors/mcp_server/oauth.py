"""``/mcp`` as a resource of OAuth 2.1: a client that knows the address alone finds out where to ask, registers itself,
and a person at a browser lets it in. The server of OAuth is that of django-allauth, loaded with ``MCP_OAUTH`` alone.

What a person grants is a row beside the API tokens: it is listed, counted and revoked there. It opens what that person
may open at the time of each request, so a role that is taken away is taken from the clients too."""

import secrets
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from allauth.idp.oidc import views
from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from allauth.idp.oidc.internal.resources import InvalidTargetError, is_resources_subset
from allauth.idp.oidc.models import Client, Token
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.utils.crypto import salted_hmac
from django.views.decorators.csrf import csrf_exempt

from memoryapp.models import ApiToken, ChatUser, Role
from memoryapp.platform.accounts import operators, tokens
from memoryapp.platform.accounts.tokens import Grant

Scope = ApiToken.Scope
# In the order in which each role includes the ones before it.
_SCOPES: Mapping[Role, tuple[ApiToken.Scope, ...]] = {
    Role.VIEWER: (Scope.READ,),
    Role.DEBUGGER: (Scope.RECALL,),
    Role.CURATOR: (Scope.INGEST, Scope.CURATE),
    Role.ADMIN: (Scope.FORGET,),
}
OFFERED = [scope.value for scopes in _SCOPES.values() for scope in scopes]
BEGINNING = "oauth"
_MOST_ADDRESSES = 10
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def grant_of(text: str, address: str) -> Grant | None:
    """Returns what the access token opens at this address; None for one that is unknown, too old, revoked, meant for
    another address, or of a person who may no longer sign in."""
    token = Token.objects.select_related("user", "client").lookup(Token.Type.ACCESS_TOKEN, text)
    given = token.get_grant_id() if token and token.user and token.user.is_active else None
    if token is None or not given or not token.get_resources():
        return None
    operator = operators.operator_for(token.user)
    if operator is None or not is_resources_subset([address], token.get_resources()):
        return None
    role = Role(operator.role)
    allowed = {scope for least, scopes in _SCOPES.items() if role.includes(least) for scope in scopes}
    scopes = [scope.value for scope in Scope if scope in allowed and scope in token.get_scopes()]
    owners = [] if operator.sees_everyone else list(ChatUser.objects.seen_by(operator))
    scopes += [Scope.EVERYONE.value] if operator.sees_everyone else []
    name = f"{token.client.name or token.client.pk} · {token.user}"
    digest = salted_hmac(__name__, given, algorithm="sha256").hexdigest()
    # The audit log knows a grant by this alone.
    named = {"name": name[:200], "prefix": f"{BEGINNING}_{digest[:10]}", "scopes": scopes}
    row, _is_new = ApiToken.objects.get_or_create(digest=digest, defaults=named)
    if row.revoked_at:
        return None
    if (row.scopes, row.projects) != (scopes, operator.projects):
        row.scopes, row.projects = scopes, operator.projects
        row.save(update_fields=["scopes", "projects"])
    row.owners.set(owners)
    return tokens.used(row)


class Consent(DefaultOIDCAdapter):  # type: ignore[misc]
    """What a client may ask for: these scopes, for ``/mcp``, in the name of a person."""

    scope_display = dict(Scope.choices)

    def generate_client_secret(self) -> str:
        """Without signs that clients escape in the header of a request, and the server does not read back."""
        return secrets.token_urlsafe(48)

    def validate_client_registration(self, *, client: Client, **_: Any) -> None:
        addresses = client.get_redirect_uris()
        if len(addresses) > _MOST_ADDRESSES or not all(map(_is_safe, addresses)):
            raise ValidationError("redirect_uris: https, a loopback address, or a scheme of your own.")
        wanted = {*client.get_grant_types()} - {Client.GrantType.AUTHORIZATION_CODE, Client.GrantType.REFRESH_TOKEN}
        if wanted or client.get_response_types() != ["code"]:
            raise ValidationError("A client uses codes, and may refresh its token.")
        if unknown := {*client.get_scopes()} - {*OFFERED, "openid"}:
            raise ValidationError(f"There is no scope {min(unknown)}.")
        client.set_scopes(OFFERED)
        client.set_default_scopes([Scope.RECALL.value, Scope.READ.value])

    def validate_resource_uris(self, *, uris: list[str], **_: Any) -> None:
        if not is_resources_subset(uris, [_resource(self.request)]):
            raise InvalidTargetError if self.request.method == "POST" else ValidationError("There is no such resource.")

    def populate_server_metadata(self, data: dict[str, Any]) -> None:
        for unused in ("userinfo_endpoint", "jwks_uri", "end_session_endpoint", "device_authorization_endpoint"):
            data.pop(unused, None)
        data["scopes_supported"] = OFFERED
        data["response_types_supported"] = ["code"]
        data["grant_types_supported"] = ["authorization_code", "refresh_token"]


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme == "http":
        return parts.hostname in _LOOPBACK
    return bool(parts.scheme) and parts.scheme not in ("javascript", "data", "file", "blob", "about")


def _resource(request: HttpRequest, user: str = "") -> str:
    return request.build_absolute_uri(f"/mcp/{user}" if user else "/mcp")


def told(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Adds to a refusal where a client learns how to be let in."""
    about = request.build_absolute_uri(f"/.well-known/oauth-protected-resource{request.path}")
    response["WWW-Authenticate"] = f'{response["WWW-Authenticate"]}, resource_metadata="{about}"'
    return response


def resource(request: HttpRequest, user: str = "") -> HttpResponse:
    """Answers as RFC 9728 says: which server lets clients in, and which scopes there are."""
    described = {
        "resource": _resource(request, user),
        "resource_name": "Mnemoscope",
        "authorization_servers": [request.build_absolute_uri("/").rstrip("/")],
        "scopes_supported": OFFERED,
        "bearer_methods_supported": ["header"],
    }
    return JsonResponse(described, headers={"Access-Control-Allow-Origin": "*"})


def consent(request: HttpRequest) -> HttpResponse:
    """The page of allauth on which a person lets a client in. Its form leads to the address of the client, which the
    content policy would not allow. Every client has to prove that it began the login, as OAuth 2.1 says."""
    if request.method == "GET" and not request.GET.get("code_challenge"):
        raise BadRequest("code_challenge")
    response: HttpResponse = views.authorization(request)
    scheme = urlsplit(request.GET.get("redirect_uri", "")).scheme
    if response.status_code == 200 and scheme.replace("-", "").replace(".", "").replace("+", "").isalnum():
        response._csp_update = {"form-action": ["*", f"{scheme}:"]}  # type: ignore[attr-defined]
    return response


def _readable(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The view, which refuses addresses that cannot be read, where allauth would fail."""

    @csrf_exempt
    @login_not_required
    @wraps(view)
    def answering(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except (ValidationError, ValueError):
            raise BadRequest("an address in it cannot be read") from None

    return answering


resource.login_required = False  # type: ignore[attr-defined]
_ABOUT = ".well-known/oauth-protected-resource"
urlpatterns = [
    path(_ABOUT, resource, name="mcp_resource"),
    path(f"{_ABOUT}/mcp", resource, name="mcp_resource"),
    path(f"{_ABOUT}/mcp/<path:user>", resource, name="mcp_resource"),
    path(".well-known/oauth-authorization-server", views.configuration, name="mcp_authorization"),
    path("identity/o/authorize", _readable(consent), name="mcp_consent"),
    path("identity/o/api/token", _readable(views.token), name="mcp_token"),
    path("identity/o/api/clients", _readable(views.client_registration), name="mcp_clients"),
    path("", include("allauth.idp.urls")),
]
