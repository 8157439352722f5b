"""API tokens: shown once, stored as a digest, limited to their scopes, revoked by an operator."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryapp.models import ApiToken, ChatUser
from memoryapp.platform.accounts import tokens

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


def test_a_revoked_token_opens_nothing_at_once() -> None:
    token, text = tokens.make("bot", [Scope.READ])
    assert tokens.revoke(ApiToken.objects.filter(pk=token.pk)) == 1
    assert tokens.check(text) is None
    assert tokens.revoke(ApiToken.objects.all()) == 0


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
            "There is no scope “write”. Choose some of: recall, ingest, read, curate, forget.",
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
