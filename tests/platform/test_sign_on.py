"""What the settings of signing in by others' means ask for, and that nothing of them is there without them."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from memoryapp.models import Role
from memoryapp.platform.accounts import sign_on_settings as module
from memoryapp.platform.environment import SettingError
from tests.support.stack import CHECKOUT

PROVIDER = {
    "OIDC_ISSUER": "https://login.example.com/realms/main/",
    "OIDC_CLIENT_ID": "here",
    "OIDC_ROLES": '{"a": "admin"}',
}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    def settings(**variables: str) -> dict[str, Any]:
        for name in ("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_ROLES", "PASSWORD_LOGIN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(module.__file__))

    return settings


def test_the_roles_are_those_of_operators() -> None:
    assert tuple(Role.values) == module.ROLES


def test_a_provider_is_known_by_its_whole_address(read: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    found = read(**PROVIDER, OIDC_CLIENT_SECRET_FILE=str(tmp_path / "secret"))
    [app] = found["SOCIALACCOUNT_PROVIDERS"]["openid_connect"]["APPS"]
    assert app["provider_id"] == "login-example-com-realms-main"
    assert app["settings"]["server_url"] == "https://login.example.com/realms/main"
    assert (app["name"], app["secret"]) == ("login.example.com", "from a file")
    assert "allauth.mfa" not in found["SIGN_ON_APPS"]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({**PROVIDER, "OIDC_CLIENT_ID": ""}, "OIDC_ISSUER needs OIDC_CLIENT_ID"),
        ({**PROVIDER, "OIDC_ROLES": ""}, "OIDC_ISSUER needs OIDC_ROLES"),
        ({**PROVIDER, "OIDC_ROLES": json.dumps({"a": "root"})}, "know the roles viewer, .* not 'root'"),
        ({**PROVIDER, "OIDC_ROLES": json.dumps({"a": ["admin"]})}, "know the roles"),
        ({**PROVIDER, "OIDC_ISSUER": "login.example.com"}, "OIDC_ISSUER must be an address"),
        ({"REQUIRE_SECOND_FACTOR": "editor"}, "not 'editor'"),
        ({"REQUIRE_SECOND_FACTOR": "admin", "SECOND_FACTOR": "false"}, "needs SECOND_FACTOR"),
        ({"PASSWORD_LOGIN": "false"}, "nobody could sign in"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(variables: dict[str, str], sentence: str, read: Any) -> None:
    with pytest.raises(SettingError, match=sentence):
        read(**variables)


def test_without_the_settings_nothing_of_it_is_loaded_or_answers(db: None) -> None:
    loaded = (
        "import django; django.setup(); import rerankui.urls, sys; print([n for n in sys.modules if 'allauth' in n])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    client = Client()
    for path in ("/.well-known/oauth-protected-resource/mcp", "/account/factors/", "/identity/o/authorize"):
        assert client.get(path).status_code == 404, path
    page = client.get("/login/").content.decode()
    assert "passkey" not in page
    assert "Sign in with" not in page
