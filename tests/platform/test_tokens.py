"""API tokens: shown once, stored as a digest, limited to their scopes, revoked, and counted by all processes
together."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryapp.models import ApiToken, ChatUser
from memoryapp.platform.accounts import tokens
from memoryapp.platform.accounts.tokens import Allowances

pytestmark = pytest.mark.django_db

Scope = ApiToken.Scope


def made(*arguments: str) -> Any:
    out = StringIO()
    call_command("create_token", *arguments, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


def test_a_token_opens_what_it_was_made_for_and_only_its_digest_is_kept(anna: ChatUser, boris: ChatUser) -> None:
    token, text = tokens.make("bot", [Scope.RECALL], [anna])
    grant = tokens.check(text)
    assert grant is not None
    assert (grant.may(Scope.RECALL), grant.may(Scope.READ)) == (True, False)
    assert list(grant.visible_owners()) == [anna]
    kept = json.dumps(ApiToken.objects.values(*[field.name for field in ApiToken._meta.fields])[0], default=str)
    assert text not in kept
    assert text[len(token.prefix) :] not in kept


def test_a_token_without_chat_users_opens_every_memory(anna: ChatUser, boris: ChatUser) -> None:
    grant = tokens.check(tokens.make("bot", [Scope.READ])[1])
    assert grant
    assert set(grant.visible_owners()) == {anna, boris}


def test_erasing_the_chat_user_of_a_token_does_not_open_the_others_to_it(anna: ChatUser, boris: ChatUser) -> None:
    text = tokens.make("bot", [Scope.READ], [anna])[1]
    anna.delete()
    grant = tokens.check(text)
    assert grant
    assert not grant.visible_owners().exists()


@pytest.mark.parametrize("wrong", ["", "mnemo_", "mnemo_" + "a" * 43, "\x00", "\ud800", "Bearer x", "ä" * 10_000])
def test_a_text_that_is_no_token_opens_nothing(
    wrong: str, anna: ChatUser, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    tokens.make("bot", [Scope.READ])
    with django_assert_num_queries(1):
        assert tokens.check(wrong) is None


def test_the_last_use_is_noted_once_a_minute(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    token, text = tokens.make("bot", [Scope.READ])
    tokens.check(text)
    token.refresh_from_db()
    first = token.last_used_at
    assert first
    with django_assert_num_queries(2):
        tokens.check(text)
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    tokens.check(text)
    token.refresh_from_db()
    assert token.last_used_at
    assert token.last_used_at >= first


def test_the_command_prints_a_token_that_works(anna: ChatUser, boris: ChatUser) -> None:
    document = made("bot", "--scope", "read,recall", "--user", "anna", "boris")
    assert document == {
        "token": document["token"], "name": "bot", "scopes": ["recall", "read"], "users": ["anna", "boris"]
    }  # fmt: skip
    grant = tokens.check(document["token"])
    assert grant
    assert set(grant.visible_owners()) == {anna, boris}
    out = StringIO()
    call_command("create_token", "bot", "--scope", "read", stdout=out, stderr=StringIO())
    assert tokens.check(out.getvalue().strip())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["bot", "--scope", "read,write"],
            "There is no scope “write”. Choose some of: recall, ingest, read, curate, forget, audit.",
        ),
        (["bot", "--scope", "everyone"], "There is no scope “everyone”."),
        (["bot", "--scope", ","], "--scope names no scope."),
        (["bot", "--scope", "read", "--user", "anna", "nobody"], "There is no chat user “nobody”."),
        (["  ", "--scope", "read"], "A token's name is one line"),
    ],
)
def test_a_wrong_argument_is_a_sentence_and_makes_no_token(arguments: list[str], sentence: str, anna: ChatUser) -> None:
    with pytest.raises(CommandError) as error:
        made(*arguments)
    assert sentence in str(error.value)
    assert not ApiToken.objects.exists()


def test_the_administration_lists_and_revokes_tokens_but_never_shows_one(anna: ChatUser) -> None:
    token, text = tokens.make("bot", [Scope.READ, Scope.CURATE], [anna])
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    for path in ("/admin/memoryapp/apitoken/", f"/admin/memoryapp/apitoken/{token.pk}/change/"):
        page = client.get(path).content.decode()
        assert token.prefix in page
        assert "read, curate" in page
        assert text not in page
        assert token.digest not in page
    assert client.get("/admin/memoryapp/apitoken/add/").status_code == 403
    page = client.post(
        "/admin/memoryapp/apitoken/", {"action": "revoke", "_selected_action": [token.pk]}, follow=True
    ).content.decode()
    assert "1 token was revoked." in page
    assert tokens.check(text) is None


# Requests of a token are counted by all processes together, and written by each only now and then.


@pytest.fixture
def token(anna: ChatUser) -> int:
    return tokens.make("phone", [ApiToken.Scope.READ], [anna])[0].pk


@pytest.fixture
def hours(settings: Any) -> None:
    settings.API_RATE = (600, 3600.0)


def admitted(process: Allowances, token: int, requests: int) -> int:
    return sum(process.wait(token) == 0 for _ in range(requests))


@pytest.mark.usefixtures("hours")
def test_two_processes_admit_together_what_one_would(token: int, settings: Any) -> None:
    for most in (1, 3, 600):
        settings.API_RATE = (most, 3600.0)
        ApiToken.objects.update(counted=0)
        processes = [Allowances(), Allowances()]
        counts = [admitted(process, token, 50) for _ in range(10) for process in processes]
        part = max(1, most // tokens.PARTS)
        assert most - part < sum(counts) <= most


@pytest.mark.usefixtures("hours")
def test_a_process_writes_for_a_part_of_the_requests_and_not_for_refused_ones(token: int) -> None:
    process = Allowances()
    with CaptureQueriesContext(connection) as queries:
        assert admitted(process, token, 600) == 600
    assert len(queries) == tokens.PARTS
    assert process.wait(token) > 0
    with CaptureQueriesContext(connection) as queries:
        assert admitted(process, token, 100) == 0
    assert len(queries) == 0


@pytest.mark.usefixtures("hours")
def test_the_next_time_begins_anew(token: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr(tokens.time, "time", lambda: now)
    process = Allowances()
    assert admitted(process, token, 700) == 600
    assert 0 < process.wait(token) <= 3600
    now += 3600
    assert admitted(Allowances(), token, 700) == 600
    assert admitted(process, token, 700) == 0, "the other process used it up"


@pytest.mark.usefixtures("hours")
def test_tokens_do_not_share_a_limit(token: int, anna: ChatUser) -> None:
    other = tokens.make("tablet", [ApiToken.Scope.READ], [anna])[0].pk
    process = Allowances()
    assert admitted(process, token, 601) == 600
    assert process.wait(other) == 0
