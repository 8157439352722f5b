"""The settings of signing in by others' means: a provider of OpenID Connect, a second factor, and clients of ``/mcp``
that connect by browser. Without them nothing of django-allauth is loaded. ``settings`` takes them over as they are;
docs/sign-on.md explains each."""

from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from django.utils.text import slugify

from memoryapp.platform import environment

_HERE = "memoryapp.platform.accounts.sign_on"
ROLES = ("viewer", "debugger", "curator", "admin")

# The address of the provider, under which its /.well-known/openid-configuration is found.
OIDC_ISSUER = environment.address("OIDC_ISSUER").rstrip("/")
OIDC_CLIENT_ID = environment.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = environment.text("OIDC_CLIENT_SECRET")
# What the button on the login page calls it.
OIDC_NAME = environment.text("OIDC_NAME", environment.host(OIDC_ISSUER))
OIDC_SCOPES = environment.text("OIDC_SCOPES", "openid profile email").split()
# The claim with the groups of a person, with dots into objects; which groups have which role here.
OIDC_ROLE_CLAIM = environment.text("OIDC_ROLE_CLAIM", "groups")
OIDC_ROLES = environment.mapping("OIDC_ROLES")
# The claim with the names of the chat users whose memories a person may open; without it an admin chooses them here.
OIDC_MEMORIES_CLAIM = environment.text("OIDC_MEMORIES_CLAIM")
# Accounts are bound to this provider: another one could use the same numbers for other people.
_place = urlsplit(OIDC_ISSUER)
OIDC_PROVIDER_ID = slugify(f"{_place.netloc}{_place.path}".replace(":", "-").replace("/", "-").replace(".", "-"))
PASSWORD_LOGIN = environment.switch("PASSWORD_LOGIN", True)

# Roles whose accounts with a password cannot do without a second factor.
REQUIRE_SECOND_FACTOR = environment.names("REQUIRE_SECOND_FACTOR")
SECOND_FACTOR = environment.switch("SECOND_FACTOR", bool(REQUIRE_SECOND_FACTOR))
MCP_OAUTH = environment.switch("MCP_OAUTH", False)
SIGN_ON = bool(OIDC_ISSUER) or SECOND_FACTOR or MCP_OAUTH


def _check() -> None:
    """Raises SettingError for settings that do not fit each other."""
    refused = environment.SettingError
    if OIDC_ISSUER and not OIDC_CLIENT_ID:
        raise refused("OIDC_ISSUER needs OIDC_CLIENT_ID, the name under which the provider knows this program.")
    if OIDC_ISSUER and not OIDC_ROLES:
        raise refused('OIDC_ISSUER needs OIDC_ROLES, which says who may do what: {"support": "curator"}.')
    if wrong := [role for role in (*OIDC_ROLES.values(), *REQUIRE_SECOND_FACTOR) if role not in ROLES]:
        raise refused(f"OIDC_ROLES and REQUIRE_SECOND_FACTOR know the roles {', '.join(ROLES)}, not {wrong[0]!r}.")
    if not PASSWORD_LOGIN and not OIDC_ISSUER:
        raise refused("PASSWORD_LOGIN may be false only with OIDC_ISSUER: nobody could sign in.")
    if REQUIRE_SECOND_FACTOR and not SECOND_FACTOR:
        raise refused("REQUIRE_SECOND_FACTOR needs SECOND_FACTOR, which is false.")
    if SIGN_ON and not find_spec("allauth"):
        raise refused("OIDC_ISSUER, SECOND_FACTOR and MCP_OAUTH need a package: pip install 'mnemoscope[sign-on]'.")


_check()
SIGN_ON_APPS = [
    *(["django.contrib.humanize", "allauth", "allauth.account"] if SIGN_ON else []),
    *(["allauth.socialaccount", "allauth.socialaccount.providers.openid_connect"] if OIDC_ISSUER else []),
    *(["allauth.mfa"] if SECOND_FACTOR else []),
    *(["allauth.idp.oidc"] if MCP_OAUTH else []),
]
SIGN_ON_BACKENDS = [f"{_HERE}.SignedOn"] if SIGN_ON else []
SIGN_ON_MIDDLEWARE = [
    *(["allauth.account.middleware.AccountMiddleware"] if SIGN_ON else []),
    *(["rerankui.account.sign_on.SecondFactorFirst"] if REQUIRE_SECOND_FACTOR else []),
]
# What allauth counts attempts and used codes in, which all processes share. What is full forgets, so it is large.
CACHES: dict[str, Any] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
if SIGN_ON:
    _shared = {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "sign_on_cache"}
    CACHES["default"] = {**_shared, "OPTIONS": {"MAX_ENTRIES": 100_000}}

ACCOUNT_ADAPTER = f"{_HERE}.Accounts"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_NOTIFICATIONS = False
SOCIALACCOUNT_ADAPTER = f"{_HERE}.Claims"
MFA_ADAPTER = "memoryapp.platform.accounts.second_factor.SecondFactors"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
# Clocks of telephones differ by seconds: the codes of the half minutes before and after count too.
MFA_TOTP_TOLERANCE = 1
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
# Nothing but the login itself begins there, which the provider then confirms.
SOCIALACCOUNT_LOGIN_ON_GET = True
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "SCOPE": OIDC_SCOPES,
        "APPS": [
            {
                "provider_id": OIDC_PROVIDER_ID,
                "name": OIDC_NAME,
                "client_id": OIDC_CLIENT_ID,
                "secret": OIDC_CLIENT_SECRET,
                "settings": {"server_url": OIDC_ISSUER},
            }
        ],
    }
}

# Clients of /mcp register themselves.
IDP_OIDC_ADAPTER = "memoryapp.doors.mcp_server.oauth.Consent"
IDP_OIDC_DCR_ENABLED = True
IDP_OIDC_DCR_REQUIRES_INITIAL_ACCESS_TOKEN = False
# A whole office may have one address.
IDP_OIDC_RATE_LIMITS = {"client_registration": "20/m/ip"}
# Seconds; a client that is not used for so long asks the person again.
IDP_OIDC_REFRESH_TOKEN_EXPIRES_IN = 90 * 24 * 3600
