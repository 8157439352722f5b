"""The pages of API tokens: for admins only, a secret that is shown once, and a revocation that works at the next
request."""

import html
import json
import re
import shlex
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.models import ApiToken, ChatUser, LoginSession, Operator
from memoryapp.platform.accounts import tokens
from memoryapp.platform.accounts.signing_in import SessionStore
from rerankui.frame.forms import TokenForm
from tests.conftest import signed_in
from tests.support.api_client import Program
from tests.support.browsing import cost, get, link, rows

pytestmark = pytest.mark.django_db
# The API looks tokens up over connections of its own.
calls_the_api = pytest.mark.django_db(transaction=True)
Scope = ApiToken.Scope
LIST, MAKE = "/tokens/", "/tokens/make/"


def page_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def form_of(client: Client, **sent: Any) -> dict[str, Any]:
    """Returns the form as it was rendered, filled in."""
    drawn = re.search(r'name="number" value="([^"]+)"', get(client, MAKE))
    assert drawn
    filled = {"number": drawn[1], "name": "bot", "scopes": ["read"], "whose": "chosen", "owners": ["anna"]}
    return {**filled, **sent}


def secret_in(page: str) -> str:
    found = re.search(r'id="token-text"[^>]*>(mnemo_[\w-]{43})<', page)
    assert found, "no token is shown"
    return found[1]


def made(client: Client, **sent: Any) -> str:
    answer = client.post(MAKE, form_of(client, **sent))
    assert answer.status_code == 201
    return secret_in(page_of(answer))


def asked_with(text: str, name: str = "anna") -> int:
    status: int = Program(text).get(f"/v1/users/{name}/topics").status_code
    return status


# permissions


@pytest.mark.slow
@pytest.mark.parametrize("person", ["viewer", "debugger", "stranger"])
def test_the_pages_are_for_admins_and_others_find_no_way_to_them(
    person: str, anna: ChatUser, request: pytest.FixtureRequest
) -> None:
    token, text = tokens.make("the bot", [Scope.READ], [anna])
    client = signed_in(request.getfixturevalue(person))
    for path in (LIST, MAKE, f"{LIST}{token.pk}/revoke/"):
        for answer in (client.get(path), client.post(path, {"name": "mine", "scopes": ["read"], "whose": "every"})):
            assert answer.status_code in {403, 405}, path
            assert "the bot" not in page_of(answer)
    assert client.get(LIST).status_code == 403
    assert 'href="/tokens/"' not in get(client, "/")
    assert 'href="/tokens/"' not in get(client, "/find/?q=tokens")
    assert ApiToken.objects.count() == 1
    assert tokens.check(text)


@calls_the_api
def test_a_superuser_who_is_no_operator_makes_one_too(as_root: Client, anna: ChatUser) -> None:
    assert asked_with(made(as_root)) == 200
    assert "by root" in get(as_root, LIST)


# creation


@calls_the_api
def test_a_token_that_was_made_opens_what_was_chosen_and_no_more(
    as_admin: Client, anna: ChatUser, boris: ChatUser
) -> None:
    text = made(as_admin, scopes=["read", "recall"])
    assert (asked_with(text), asked_with(text, "boris")) == (200, 404)
    assert Program(text).post("/v1/messages", {"user": "anna", "messages": []}).status_code == 403
    token = ApiToken.objects.get()
    assert (token.name, token.scopes, [*token.owners.all()]) == ("bot", ["recall", "read"], [anna])


@calls_the_api
def test_every_memory_is_opened_only_by_saying_so(as_admin: Client, anna: ChatUser, boris: ChatUser) -> None:
    text = made(as_admin, whose="every", owners=["anna"])
    assert (asked_with(text), asked_with(text, "boris")) == (200, 200)
    assert as_admin.post(MAKE, form_of(as_admin, name="other", owners=[])).status_code == 422
    assert ApiToken.objects.count() == 1


@pytest.mark.slow
def test_a_chat_user_beyond_the_listed_ones_is_typed(
    as_admin: Client, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        ChatUser.objects.create(name=f"user {number}")
    assert "id_names" not in get(as_admin, MAKE)
    monkeypatch.setattr(TokenForm, "LISTED", 2)
    page = get(as_admin, MAKE)
    assert "id_names" in page
    assert 'value="user 1"' not in page
    made(as_admin, names="user 1\r\n\r\n user 2 ")
    assert {owner.name for owner in ApiToken.objects.get().owners.all()} == {"anna", "user 1", "user 2"}


@calls_the_api
@pytest.mark.parametrize(
    ("scopes", "address", "status"),
    [
        (["recall", "ingest", "read", "curate"], "/v1/users/anna/topics", 200),
        (["ingest", "curate"], "/v1/edits?user=anna", 200),
        (["ingest", "recall"], "/v1/recall", 200),
        (["ingest"], "/v1/messages", 200),
    ],
    ids=["read", "curate", "recall", "ingest"],
)
def test_the_line_to_try_it_fits_what_the_token_may(
    scopes: list[str], address: str, status: int, as_admin: Client, anna: ChatUser
) -> None:
    page = page_of(as_admin.post(MAKE, form_of(as_admin, scopes=scopes)))
    found = re.search(r'id="token-example"[^>]*>([^<]+)<', page)
    assert found
    curl, _flag, header, url, *body = shlex.split(found[1])
    assert (curl, header) == ("curl", f"Authorization: Bearer {secret_in(page)}")
    assert url == f"http://testserver{address}"
    assert [json.loads(sent)["user"] for sent in body[1:]] == ["anna"] * (len(body) // 2)
    if "recall" not in address:
        program = Program(secret_in(page))
        path = url.removeprefix("http://testserver")
        answer = program.post(path, body[1].encode()) if body else program.get(path)
        assert answer.status_code == status


# shown once


@pytest.mark.slow
def test_the_text_is_in_one_answer_and_nowhere_else(as_admin: Client, as_root: Client, anna: ChatUser) -> None:
    sent = form_of(as_admin)
    answer = as_admin.post(MAKE, sent)
    text, token = secret_in(page_of(answer)), ApiToken.objects.get()
    assert "no-store" in answer["Cache-Control"]
    kept = [
        *ApiToken.objects.values_list(),
        *(SessionStore().decode(session.session_data) for session in LoginSession.objects.all()),
    ]
    assert text[len(token.prefix) :] not in str(kept)
    for path in (LIST, MAKE, f"{LIST}{token.pk}/revoke/", "/", f"/admin/memoryapp/apitoken/{token.pk}/history/"):
        answer = as_root.get(path)
        assert (answer.status_code, text[len(token.prefix) :] in page_of(answer)) == (200, False), path


@pytest.mark.slow
def test_the_same_form_sent_again_makes_nothing_and_shows_nothing(as_admin: Client, anna: ChatUser) -> None:
    sent = form_of(as_admin)
    text = secret_in(page_of(as_admin.post(MAKE, sent)))
    for change in ({}, {"name": "another"}, {"name": ""}):
        answer = as_admin.post(MAKE, {**sent, **change})
        assert answer["Location"] == LIST
        shown = page_of(as_admin.get(LIST))
        assert "“bot” was created already, and shown then." in shown
        assert "mnemo_" + text[6:] not in shown
    assert ApiToken.objects.count() == 1
    as_admin.post(f"{LIST}{ApiToken.objects.get().pk}/revoke/")
    assert as_admin.post(MAKE, sent)["Location"] == LIST
    assert ApiToken.objects.count() == 1


def test_two_that_press_at_once_make_one(anna: ChatUser) -> None:
    number = tokens.reserve()
    token, text = tokens.make("bot", [Scope.READ], number=number)
    with pytest.raises(tokens.MadeAlready):
        tokens.make("bot", [Scope.READ], number=number)
    assert (ApiToken.objects.get(), token.pk) == (token, number)
    assert tokens.check(text)
    assert tokens.make("next", [Scope.READ])[0].pk > number


@pytest.mark.slow
@pytest.mark.parametrize("number", ["", "7", "7:forged", "\x00"])
def test_a_number_the_page_did_not_give_out_makes_nothing_and_loses_nothing(
    number: str, as_admin: Client, anna: ChatUser
) -> None:
    answer = as_admin.post(MAKE, form_of(as_admin, number=number))
    page = page_of(answer)
    assert answer.status_code == 422
    assert "No token was created" in page
    assert 'value="bot"' in page
    assert not ApiToken.objects.exists()
    again = re.search(r'name="number" value="([^"]+)"', page)
    assert again
    assert as_admin.post(MAKE, form_of(as_admin, number=again[1])).status_code == 201


# invalid input


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": "  "}, "Name what or whom the token is for."),
        ({"name": "x" * 201}, "A token’s name is one line of at most 200 characters."),
        ({"name": "two\nlines"}, "A token’s name is one line of at most 200 characters."),
        ({"name": "taken"}, "A token in force is called “taken” already."),
        ({"scopes": []}, "Choose what it may do."),
        ({"scopes": ["everyone"]}, "There is no such scope."),
        ({"whose": ""}, "Choose the memories that it gives access to."),
        ({"owners": [], "names": ""}, "Choose at least one chat user, or give access to every memory."),
        ({"owners": ["anna", "nobody"]}, "There is no chat user “nobody”."),
        ({"names": "an\x00na"}, "Null characters are not allowed."),
        ({"names": "Nobody\nanna\nNor they"}, "There is no chat user “Nobody”. There is no chat user “Nor they”."),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_a_sentence_and_nothing_typed_is_lost(
    wrong: dict[str, Any], sentence: str, as_admin: Client, anna: ChatUser
) -> None:
    tokens.make("taken", [Scope.READ], [anna])
    sent = form_of(as_admin, **{"names": "anna", **wrong})
    answer = as_admin.post(MAKE, sent)
    page = page_of(answer)
    assert answer.status_code == 422
    assert sentence in page
    assert f'name="number" value="{sent["number"]}"' in page
    assert sent["name"].strip() in page
    for name, values in (("scopes", sent["scopes"]), ("owners", sent["owners"])):
        for value in values:
            box = re.search(rf'<input[^>]*name="{name}" value="{value}"[^>]*>', page)
            assert box is None or "checked" in box[0], value
    assert "\x00" in sent["names"] or sent["names"].replace("\n", "") in page.replace("\n", "")
    assert ApiToken.objects.count() == 1


@calls_the_api
def test_the_name_of_a_revoked_token_is_free(as_admin: Client, anna: ChatUser) -> None:
    tokens.make("bot", [Scope.READ], [anna])
    tokens.revoke(ApiToken.objects.all())
    assert asked_with(made(as_admin)) == 200


# revocation


@calls_the_api
def test_a_revoked_token_is_refused_at_the_very_next_request(as_admin: Client, admin: Operator, anna: ChatUser) -> None:
    text = made(as_admin)
    token = ApiToken.objects.get()
    assert asked_with(text) == 200
    asked = get(as_admin, f"{LIST}{token.pk}/revoke/")
    assert "Last used" in asked
    assert asked_with(text) == 200
    done = as_admin.post(f"{LIST}{token.pk}/revoke/")
    assert asked_with(text) == 401
    assert done["Location"] == LIST
    page = page_of(as_admin.get(LIST))
    assert "“bot” is revoked" in page
    assert rows(page[page.index('id="revoked"') :], "token") == [token.pk]
    assert f'href="/tokens/{token.pk}/revoke/"' not in page
    assert (tokens.makers([token]), tokens.revokers([token])) == ({token.pk: "ada"}, {token.pk: "ada"})


@pytest.mark.slow
def test_revoking_again_changes_nothing(as_admin: Client, anna: ChatUser) -> None:
    token, _text = tokens.make("bot", [Scope.READ], [anna])
    tokens.revoke(ApiToken.objects.all())
    token.refresh_from_db()
    for ask in (as_admin.get, as_admin.post):
        assert ask(f"{LIST}{token.pk}/revoke/")["Location"] == LIST
        assert "“bot” was revoked before." in page_of(as_admin.get(LIST))
    assert ApiToken.objects.get().revoked_at == token.revoked_at
    assert tokens.revokers([token]) == {}
    assert as_admin.get(f"{LIST}999999/revoke/").status_code == 404


# the list


@pytest.mark.slow
def test_lists_have_pages_by_key_and_the_last_ones_revoked_stand_at_the_end(
    as_admin: Client, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = [tokens.make(f"live {number}", [Scope.READ], [anna])[0].pk for number in range(52)]
    gone = [tokens.make(f"gone {number}", [Scope.READ], [anna])[0] for number in range(7)]
    for number, token in enumerate(gone):
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now() + timedelta(seconds=number))
    first = get(as_admin, LIST)
    assert rows(first, "token") == live[:1:-1]
    after = link(first, "next")
    assert after
    last = get(as_admin, LIST + after)
    lately = [token.pk for token in gone[::-1]]
    assert rows(last, "token") == [live[1], live[0], *lately[:5]]
    assert 'href="/tokens/?state=revoked"' in last
    assert rows(get(as_admin, f"{LIST}?state=revoked"), "token") == lately
    assert as_admin.get(f"{LIST}?after=1999-01-01T00:00:00%2B00:00,1")["Location"] == LIST
    assert rows(get(as_admin, f"{LIST}?after=nonsense"), "token") == live[:1:-1]


@pytest.mark.slow
def test_thirty_tokens_cost_as_many_queries_as_three(as_admin: Client, anna: ChatUser, boris: ChatUser) -> None:
    for number in range(3):
        tokens.make(f"token {number}", [Scope.READ], [anna, boris])
    few = cost(as_admin, LIST)
    for number in range(27):
        tokens.make(f"more {number}", [Scope.READ], [anna, boris])
    assert cost(as_admin, LIST) == few
