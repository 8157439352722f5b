"""Signing in: login limits, one's own password and login sessions, and how sessions end."""

import re
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog
from channels.db import database_sync_to_async
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from memoryapp.models import ChatUser, LoginSession, Operator, Role
from memoryapp.platform.accounts import signing_in
from memoryapp.runs import lifecycle
from memoryapp.upkeep import tasks
from tests.conftest import signed_in
from tests.platform.test_access import socket_for
from tests.support.browsing import get
from tests.support.clock import PATIENCE

pytestmark = pytest.mark.django_db
PASSWORD = "a-long-enough-word"


@pytest.fixture(autouse=True)
def quick_passwords(settings: LazySettings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def sign_in(name: str, password: str, address: str = "192.0.2.1", client: Client | None = None, **more: Any) -> Any:
    sent = {"username": name, "password": password}
    return (client or Client()).post("/login/", sent, REMOTE_ADDR=address, **more)


@pytest.mark.parametrize("language", ["en", "ru"])
def test_a_form_of_an_old_page_is_refused_in_a_sentence(viewer: Operator, language: str) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Accept-Language": language})
    answer = sign_in("vera", PASSWORD, client=client)
    page = answer.content.decode()
    assert answer.status_code == 403
    assert {"en": "The form was not sent", "ru": "Форма не отправлена"}[language] in page
    assert "<style" not in page, "which the policy of contents would leave out"


def fail(name: str, times: int, address: str = "192.0.2.1", **more: Any) -> Any:
    for _ in range(times):
        answer = sign_in(name, "wrong", address, **more)
    return answer


def test_who_tries_too_often_waits_and_sees_how_long(viewer: Operator, settings: LazySettings) -> None:
    assert fail("vera", settings.AXES_FAILURE_LIMIT - 1).status_code == 200
    answer = fail("vera", 1)
    assert (answer.status_code, answer["Retry-After"]) == (429, "300")
    assert "Wait 5 minutes and try again" in answer.content.decode()
    assert sign_in("vera", PASSWORD).status_code == 429
    russian = sign_in("vera", PASSWORD, headers={"accept-language": "ru"}).content.decode()
    assert "Подождите 5 минут и попробуйте снова" in russian


def test_who_knows_a_name_locks_nobody_out_elsewhere(viewer: Operator, settings: LazySettings) -> None:
    fail("vera", settings.AXES_FAILURE_LIMIT)
    assert sign_in("vera", PASSWORD, "192.0.2.2").status_code == 302
    assert sign_in("nobody-else", "wrong").status_code == 200


def test_an_address_that_tries_many_names_waits(viewer: Operator, settings: LazySettings) -> None:
    settings.LOGIN_ATTEMPTS_OF_ADDRESS = 6
    for number in range(6):
        answer = fail(f"name-{number}", 1)
    assert answer.status_code == 429
    assert sign_in("vera", PASSWORD).status_code == 429


def test_after_the_wait_the_right_password_opens(viewer: Operator, settings: LazySettings) -> None:
    fail("vera", settings.AXES_FAILURE_LIMIT)
    AccessAttempt.objects.update(attempt_time=timezone.now() - settings.AXES_COOLOFF_TIME - timedelta(seconds=1))
    assert sign_in("vera", PASSWORD).status_code == 302
    assert fail("vera", 1).status_code == 200


def test_a_header_tells_the_address_only_where_a_setting_names_it(viewer: Operator, settings: LazySettings) -> None:
    forged = {"headers": {"x-forwarded-for": "203.0.113.9"}}
    fail("vera", settings.AXES_FAILURE_LIMIT, **forged)
    assert set(AccessAttempt.objects.values_list("ip_address", flat=True)) == {"192.0.2.1"}
    settings.CLIENT_ADDRESS_HEADER = "X-Forwarded-For"
    fail("vera", 1, headers={"x-forwarded-for": "203.0.113.9, 198.51.100.7"})
    assert AccessAttempt.objects.filter(ip_address="198.51.100.7").count() == 1
    fail("vera", 1, "192.0.2.5", headers={"x-forwarded-for": "203.0.113.9, no address"})
    assert AccessAttempt.objects.filter(ip_address="192.0.2.5").count() == 1


@pytest.mark.slow
def test_an_admin_sees_tried_passwords(admin: Operator, viewer: Operator, settings: LazySettings) -> None:
    fail("vera", settings.AXES_FAILURE_LIMIT)
    # The waiting time has ended when the admin comes.
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(days=1))
    client = Client()
    page = client.post("/login/", {"username": "ada", "password": PASSWORD}, REMOTE_ADDR="192.0.2.3", follow=True)
    assert "1 account was tried with wrong passwords" in page.content.decode()
    listed = get(client, "/admin/axes/accessfailurelog/")
    assert "vera" in listed
    assert ">Login attempts</a>" in listed


def test_passwords_are_checked_one_at_a_time(viewer: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_in, "PATIENCE", 0.05)
    with signing_in._checking:
        answer = sign_in("vera", PASSWORD)
    assert "Many people are signing in right now" in answer.content.decode()
    assert AccessAttempt.objects.count() == 0
    assert sign_in("vera", PASSWORD).status_code == 302


def test_every_role_changes_its_own_password_and_ends_other_sessions(viewer: Operator) -> None:
    here, there = Client(), Client()
    for client in (here, there):
        assert sign_in("vera", PASSWORD, client=client).status_code == 302
    form = {"old_password": PASSWORD, "new_password1": "another-long-word", "new_password2": "another-long-word"}
    wrong = here.post("/account/password/", form | {"old_password": "wrong"})
    assert wrong.status_code == 200
    assert here.post("/account/password/", form)["Location"] == "/account/"
    assert "Your password is changed" in get(here, "/account/")
    assert there.get("/account/").status_code == 302
    assert signing_in.of_user(viewer.user).count() == 1
    assert sign_in("vera", "another-long-word").status_code == 302


def test_the_old_password_is_tried_no_more_often_than_at_the_login(viewer: Operator, settings: LazySettings) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    assert sign_in("vera", PASSWORD, client=client).status_code == 302
    form = {"old_password": PASSWORD, "new_password1": "another-long-word", "new_password2": "another-long-word"}
    wrong = form | {"old_password": "wrong"}
    answers = [client.post("/account/password/", wrong) for _ in range(12)]
    first, rest = answers[: settings.AXES_FAILURE_LIMIT - 1], answers[settings.AXES_FAILURE_LIMIT - 1 :]
    assert [answer.status_code for answer in first] == [200] * len(first)
    assert [answer.status_code for answer in rest] == [429] * len(rest)
    assert all(0 < int(answer["Retry-After"]) <= 300 for answer in rest)
    assert "Wait 5 minutes and try again" in rest[0].content.decode()
    assert client.post("/account/password/", form).status_code == 429, "the right one waits as well"
    assert client.get("/account/").status_code == 200, "nobody is signed out"
    AccessAttempt.objects.update(attempt_time=timezone.now() - settings.AXES_COOLOFF_TIME - timedelta(seconds=1))
    assert client.post("/account/password/", wrong).status_code == 200
    assert client.post("/account/password/", form)["Location"] == "/account/"
    assert not AccessAttempt.objects.filter(username="vera").exists()


def test_the_administration_has_no_other_page_for_the_own_password(admin: Operator) -> None:
    assert signed_in(admin).post("/admin/password_change/", {})["Location"] == "/account/password/"


def test_pages_of_somebody_signed_in_are_stored_nowhere(viewer: Operator, anna: ChatUser) -> None:
    client = signed_in(viewer)
    for address in ("/", f"/memory/{anna.pk}/", "/account/", "/no-such-page/"):
        given = client.get(address)["Cache-Control"]
        assert {"private", "no-store"} <= {word.strip() for word in given.split(",")}, address


@pytest.mark.slow
def test_sessions_are_listed_and_ended(viewer: Operator, stranger: Operator) -> None:
    here, there, strange = Client(), Client(), signed_in(stranger)
    sign_in("vera", PASSWORD, client=here, headers={"user-agent": "Phone"})
    sign_in("vera", PASSWORD, "192.0.2.77", client=there, headers={"user-agent": "Tablet"})
    shown = get(here, "/account/")
    assert "Tablet" in shown
    assert "192.0.2.77" in shown
    assert "Phone" in shown
    session = LoginSession.objects.get(device="Tablet")
    assert session.session_key not in shown
    name = signing_in.digest_of(session)
    strange.post("/account/", {"end": name})
    assert there.get("/").status_code == 200
    here.post("/account/", {"end": name})
    assert there.get("/").status_code == 302
    assert here.get("/").status_code == 200


def test_signing_out_everywhere(viewer: Operator) -> None:
    here, there = signed_in(viewer), signed_in(viewer)
    assert here.post("/account/", {"end": "everywhere"})["Location"] == "/login/"
    assert [client.get("/").status_code for client in (here, there)] == [302, 302]
    assert LoginSession.objects.filter(user=viewer.user).count() == 0


def test_expired_sessions_are_cleared(viewer: Operator) -> None:
    signed_in(viewer)
    assert LoginSession.objects.count() == 1
    fail("vera", 1)
    LoginSession.objects.update(expire_date=timezone.now() - timedelta(days=1))
    tasks.clear_login_sessions()
    assert (LoginSession.objects.count(), AccessFailureLog.objects.count()) == (0, 1)
    AccessFailureLog.objects.update(attempt_time=timezone.now() - timedelta(days=91))
    tasks.clear_login_sessions()
    assert AccessFailureLog.objects.count() == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
@pytest.mark.parametrize("event", ["signed out", "password changed", "access withdrawn"])
async def test_an_open_socket_ends_within_seconds(
    event: str, viewer: Operator, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerankui.runs.consumers.CHECK_AGAIN", 0.0)
    client = Client()
    await client.aforce_login(viewer.user)
    run = await database_sync_to_async(lifecycle.start)(anna, "a query")
    socket = socket_for(client, f"ws/runs/{run.pk}/")
    assert (await socket.connect(timeout=PATIENCE))[0]
    assert await socket.receive_from(timeout=PATIENCE)
    await database_sync_to_async(_happens)(event, viewer)
    closed = await socket.receive_output(timeout=PATIENCE)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)
    await socket.disconnect(timeout=PATIENCE)


def _happens(event: str, viewer: Operator) -> None:
    if event == "signed out":
        LoginSession.objects.all().delete()
    elif event == "password changed":
        viewer.user.set_password("another-long-word")
        viewer.user.save()
    else:
        viewer.access_set.all().delete()


@pytest.mark.slow
def test_the_role_admin_gives_roles_but_makes_no_superuser(as_admin: Client, viewer: Operator) -> None:
    page = get(as_admin, f"/admin/memoryapp/operator/{viewer.pk}/change/")
    total = re.findall(r'name="(access_set-(?:TOTAL|INITIAL)_FORMS)" value="(\d+)"', page)
    rows = dict(re.findall(r'name="(access_set-0-\w+)" value="([^"]*)"', page))
    sent = {**dict(total), **rows, "user": viewer.user.pk, "role": Role.CURATOR, "access_set-TOTAL_FORMS": "1"}
    assert as_admin.post(f"/admin/memoryapp/operator/{viewer.pk}/change/", sent).status_code == 302
    viewer.refresh_from_db()
    assert viewer.role == Role.CURATOR
    account = get(as_admin, f"/admin/auth/user/{viewer.user.pk}/change/")
    assert "is_superuser" not in re.findall(r'name="(\w+)"', account)
    root = User.objects.create_superuser("root", password=PASSWORD)
    assert as_admin.post(f"/admin/auth/user/{root.pk}/password/", {}).status_code == 403
    assert as_admin.post(f"/admin/auth/user/{root.pk}/delete/", {"post": "yes"}).status_code == 403
