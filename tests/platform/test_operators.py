"""Operators and memories are made and changed on pages; the last admin stays; everything is recorded."""

import re
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client

from memoryapp.models import ChatUser, LoginSession, Operator, Role
from memoryapp.platform.accounts.operators import record
from tests.conftest import operator, signed_in
from tests.support.browsing import cost, get

PASSWORD = "a-long-enough-word"


def sent(**given: Any) -> dict[str, Any]:
    return {"name": "otto", "password": PASSWORD, "role": "curator", **given}


def test_an_operator_is_made_who_can_sign_in_and_open_the_chosen_memory(
    anna: ChatUser, boris: ChatUser, as_admin: Client
) -> None:
    answer = as_admin.post("/operators/new/", sent(owners=[anna.pk]))
    assert answer.status_code == 302
    made = Operator.objects.get(user__username="otto")
    assert made.role == Role.CURATOR
    assert authenticate(username="otto", password=PASSWORD) == made.user
    client = signed_in(made)
    assert client.get(f"/memory/{anna.pk}/").status_code == 200
    assert client.get(f"/memory/{boris.pk}/").status_code == 404
    page = get(as_admin, "/operators/")
    assert "made <b>otto</b> an operator" in page
    assert PASSWORD not in page


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"name": ""}, "Type the name with which the operator signs in."),
        ({"name": "ADMIN"}, "There is a user called “ADMIN” already."),
        ({"name": "a b"}, "Enter a valid username"),
        ({"password": "12345"}, "This password is too short"),
        ({"role": "king"}, "Select a valid choice"),
        ({"owners": ["99999"]}, "Select a valid choice"),
    ],
)
def test_a_new_operator_that_cannot_be_made_is_a_sentence(
    as_admin: Client, anna: ChatUser, given: dict[str, Any], sentence: str
) -> None:
    User.objects.filter(operator__role=Role.ADMIN).update(username="admin")
    before = User.objects.count()
    answer = as_admin.post("/operators/new/", sent(**given))
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert User.objects.count() == before


def test_the_last_admin_stays_an_admin_who_can_sign_in(anna: ChatUser, admin: Operator, as_admin: Client) -> None:
    address = f"/operators/{admin.pk}/"
    for rights in ({"role": "viewer", "is_active": "on"}, {"role": "admin"}):
        refused = as_admin.post(address, rights)
        assert refused.status_code == 422
        assert "This is the last admin who can sign in" in refused.content.decode()
    operator("second", Role.ADMIN)
    assert as_admin.post(address, {"role": "viewer", "is_active": "on"}).status_code == 302
    admin.refresh_from_db()
    assert admin.role == Role.VIEWER
    assert as_admin.get("/operators/").status_code == 403


def test_rights_a_password_and_the_right_to_sign_in_are_taken_away(
    anna: ChatUser, boris: ChatUser, as_admin: Client
) -> None:
    otto = operator("otto", Role.CURATOR, anna)
    client = signed_in(otto)
    assert get(client, f"/memory/{anna.pk}/")
    as_admin.post(f"/operators/{otto.pk}/", {"role": "viewer", "owners": [boris.pk], "is_active": "on"})
    assert client.get(f"/memory/{anna.pk}/").status_code == 404
    as_admin.post(f"/operators/{otto.pk}/", {"do": "password", "password": PASSWORD})
    assert authenticate(username="otto", password=PASSWORD)
    assert not LoginSession.objects.filter(user=otto.user).exists()
    as_admin.post(f"/operators/{otto.pk}/", {"role": "viewer", "owners": [boris.pk]})
    assert authenticate(username="otto", password=PASSWORD) is None
    fields = [change.what for change in record(9)]
    assert fields == [("access",), ("password",), ("role", "memories")]
    assert "right to sign in" in get(as_admin, "/operators/")


def test_operators_cost_the_same_queries_however_many(anna: ChatUser, as_admin: Client) -> None:
    operator("o", Role.VIEWER, anna)
    few = cost(as_admin, "/operators/")
    for number in range(9):
        operator(f"o{number}", Role.VIEWER, anna)
    assert cost(as_admin, "/operators/") == few


# a new memory


def test_a_memory_is_made_by_name_and_asks_for_a_chat(as_admin: Client, db: None) -> None:
    answer = as_admin.post("/memory/new/", {"name": "Nadia Orlova"})
    made = ChatUser.objects.get()
    assert (made.name, made.display_name) == ("nadia-orlova", "Nadia Orlova")
    assert answer["Location"] == f"/memory/{made.pk}/imports/"
    as_admin.post("/memory/new/", {"name": "Nadia Orlova"})
    assert set(ChatUser.objects.values_list("name", flat=True)) == {"nadia-orlova", "nadia-orlova-2"}


def test_a_script_gets_the_address_for_the_file_or_a_sentence(as_admin: Client, db: None) -> None:
    made = as_admin.post("/memory/new/", {"name": "Надя"}, headers={"X-Upload": "1"})
    assert made.status_code == 201
    owner = ChatUser.objects.get()
    assert owner.name == "надя"
    assert re.fullmatch(rf"/memory/{owner.pk}/imports/upload/[\w:-]+/", made["Location"])
    refused = as_admin.post("/memory/new/", {"name": " "}, headers={"X-Upload": "1"})
    assert (refused.status_code, refused.content.decode()) == (422, "Type whose memory it is.")


def test_a_curator_may_open_the_memory_that_they_made(anna: ChatUser, as_curator: Client, as_viewer: Client) -> None:
    answer = as_curator.post("/memory/new/", {"name": "Nadia"})
    assert as_curator.get(answer["Location"]).status_code == 200
    assert as_viewer.get(answer["Location"]).status_code == 404
    assert as_viewer.post("/memory/new/", {"name": "Nadia"}).status_code == 403
    assert 'href="/memory/new/"' not in get(as_viewer, "/")
    assert 'href="/memory/new/"' in get(as_curator, "/")


def link_of(answer: Any) -> str:
    """The path of the link that this page shows."""
    found = re.search(r'id="link-text" data-secret>https?://[^/]+(/[^<]+)<', answer.content.decode())
    assert answer.status_code == 201
    assert found
    return found[1]


def choose(path: str, password: str) -> Any:
    """What somebody is answered who opens the link and sends this password."""
    client = Client()
    form = client.get(path, follow=True)
    if form.status_code != 200:
        return form
    return client.post(form.redirect_chain[-1][0], {"new_password1": password, "new_password2": password})


def test_a_link_ends_with_its_first_use_a_new_password_and_its_time(
    anna: ChatUser, as_admin: Client, settings: Any
) -> None:
    link = link_of(as_admin.post("/operators/new/", sent(password="", owners=[anna.pk])))
    made = Operator.objects.get(user__username="otto")
    assert not made.user.has_usable_password()
    assert "too short" in choose(link, "short").content.decode()
    page = f"/operators/{made.pk}/"
    again = link_of(as_admin.post(page, {"do": "link"}))
    assert choose(link, PASSWORD)["Location"] == "/login/"
    assert authenticate(username="otto", password=PASSWORD) == made.user
    # Neither that one nor the others that were made before are good for anything now.
    assert [choose(each, "another-long-word").status_code for each in (link, again)] == [404, 404]
    newer = link_of(as_admin.post(page, {"do": "link"}))
    as_admin.post(page, {"do": "password", "password": "set-by-the-admin"})
    assert choose(newer, PASSWORD).status_code == 404
    late = link_of(as_admin.post(page, {"do": "link"}))
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert choose(late, PASSWORD).status_code == 404
    assert "otto" in record(9)[0].by + record(9)[1].by


def test_a_link_opens_neither_a_closed_account_nor_one_above_the_admin(as_admin: Client, as_curator: Client) -> None:
    link = link_of(as_admin.post("/operators/new/", sent(password="")))
    made = Operator.objects.get(user__username="otto")
    User.objects.filter(pk=made.user_id).update(is_active=False)
    assert choose(link, PASSWORD).status_code == 404
    assert as_curator.post(f"/operators/{made.pk}/", {"do": "link"}).status_code == 403
    above = Operator.objects.create(user=User.objects.create_superuser("root", password=PASSWORD), role=Role.ADMIN)
    refused = as_admin.post(f"/operators/{above.pk}/", {"do": "link"}, follow=True)
    assert "Only a superuser may change a superuser." in refused.content.decode()
