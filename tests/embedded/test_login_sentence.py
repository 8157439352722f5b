"""What `up` prints about signing in: the well-known password is accepted from this machine only."""

from __future__ import annotations

import re

import pytest
from django.conf import LazySettings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User

from memoryapp.management.commands import up
from memoryapp.models import Operator, Role
from memoryapp.upkeep import demo


@pytest.fixture
def demo_operator(db: None, monkeypatch: pytest.MonkeyPatch, settings: LazySettings) -> User:
    """The demo's operator as a first start creates it, without the host names that Django's test runner adds."""
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    monkeypatch.setattr(demo, "_put_user", lambda name: None)
    demo.load()
    return User.objects.get(username=demo.LOGIN)


def password_in(login: str) -> str:
    found = re.search(rf"Log in as {demo.LOGIN} with the password (\S+?)\.?(?: |$)", login)
    assert found, login
    return found[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "::1", "localhost"])
def test_on_this_machine_the_demo_has_the_password_everybody_knows(demo_operator: User, host: str) -> None:
    assert password_in(up.login_sentence(host)) == demo.PASSWORD
    assert authenticate(username=demo.LOGIN, password=demo.PASSWORD) == demo_operator


@pytest.mark.parametrize(
    "named",
    [
        {"ALLOWED_HOSTS": ["localhost", "memory.example.com"]},
        {"ALLOWED_HOSTS": ["*"]},
        {"CSRF_TRUSTED_ORIGINS": ["https://*.example.com"]},
    ],
    ids=str,
)
def test_behind_a_proxy_the_demo_never_has_the_password_everybody_knows(
    demo_operator: User, settings: LazySettings, named: dict[str, list[str]]
) -> None:
    for name, value in named.items():
        setattr(settings, name, value)
    login = up.login_sentence("127.0.0.1")
    assert login.startswith("WARNING: ALLOWED_HOSTS or CSRF_TRUSTED_ORIGINS names other machines")
    assert authenticate(username=demo.LOGIN, password=demo.PASSWORD) is None
    assert authenticate(username=demo.LOGIN, password=password_in(login)) == demo_operator


def test_the_demo_account_is_no_superuser(demo_operator: User) -> None:
    assert (demo_operator.is_superuser, demo_operator.operator.role) == (False, Role.ADMIN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "memory.example"])
def test_the_network_is_never_served_the_password_everybody_knows(demo_operator: User, host: str) -> None:
    login = up.login_sentence(host)
    assert login.startswith("WARNING: other machines can reach this address")
    assert authenticate(username=demo.LOGIN, password=demo.PASSWORD) is None
    assert authenticate(username=demo.LOGIN, password=password_in(login)) == demo_operator


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_password_of_your_own_is_neither_shown_nor_changed(demo_operator: User, host: str) -> None:
    demo_operator.set_password("a-long-enough-word")
    demo_operator.save()
    assert up.login_sentence(host) == ""
    assert authenticate(username=demo.LOGIN, password="a-long-enough-word") == demo_operator


def test_no_demo_login_is_printed_where_there_is_no_demo(admin: Operator) -> None:
    assert up.login_sentence("127.0.0.1") == up.login_sentence("0.0.0.0") == ""
