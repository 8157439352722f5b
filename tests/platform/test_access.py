"""A stranger visits every address, socket and command, and finds nothing of another's memory."""

import json
import re
import uuid
from io import StringIO
from pathlib import Path
from typing import Any

import channels.auth
import pytest
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command, get_commands
from django.db import OperationalError
from django.db.models import Model
from django.test import Client
from django.utils.module_loading import import_string

from memoryapp.models import ChatUser, Erasure, Operator, Role, Run
from rerankui.runs.consumers import websocket_urlpatterns
from tests.conftest import operator, signed_in, talk
from tests.platform.every_address import SECRET, WORD, every_row, filled, holdings, routes
from tests.support.clock import PATIENCE

pytestmark = pytest.mark.slow


@pytest.fixture
def memory(anna: ChatUser) -> dict[str, Model]:
    return every_row(anna)


OPEN_TO_ALL = {
    "login",
    "operator_invitation",
    "language",
    "theme",
    "healthz",
    "readyz",
    "metrics",
    "admin:login",
    "admin:jsi18n",
    "v1:openapi-json",
}
# one's own account, also for somebody who is no operator
OWN = {"account", "password"}
ADMIN_ONLY = "admin:"
# A login session opens none of these; tests/doors/api/test_api.py and tests/doors/test_mcp.py visit them with tokens.
API = ("v1:", "mcp")
# what programs may do is for admins too; tests/rerankui/test_tokens.py checks who may open these
OF_TOKENS = "token_"
# as is who may sign in; tests/platform/test_operators.py
OF_OPERATORS = "operator"
# the erasure of a memory is for admins too; tests/erasure/test_user_erasure.py
ERASING = "eras"
EXPORTING = "export"
# embedding profiles belong to nobody, and are for admins; tests/rerankui/test_embedding_page.py
OF_PROFILES = "embedding_"
# and so are receivers of messages; tests/platform/test_webhooks.py
OF_WEBHOOKS = "webhook"
# as are golden sets of the night; tests/insight/test_nights.py
OF_NIGHTS = "night"
OTHER_RIGHTS = (ADMIN_ONLY, *API, OF_TOKENS, OF_OPERATORS, ERASING, EXPORTING, OF_PROFILES, OF_WEBHOOKS, OF_NIGHTS)
REFUSALS = {302, 400, 401, 403, 404, 405}


def body(answer: Any) -> str:
    return b"".join(answer).decode(errors="replace")  # event streams are checked like pages


@pytest.fixture
def nobody(db: None) -> Operator:
    """An operator who may open no memory."""
    return operator("nina", Role.CURATOR)


@pytest.fixture
def staff(boris: ChatUser) -> Operator:
    """A viewer of Boris's memory to whom Django's own permissions open every model."""
    made = operator("stef", Role.VIEWER, boris)
    made.user.is_staff = True
    made.user.save()
    made.user.user_permissions.set(Permission.objects.all())
    return made


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("person", ["stranger", "nobody", "staff"])
def test_an_operator_finds_nothing_of_a_memory_they_may_not_see(
    person: str, method: str, memory: dict[str, Model], request: pytest.FixtureRequest
) -> None:
    client = signed_in(request.getfixturevalue(person))
    walked, before = routes(memory), holdings()
    for route in walked:
        answer = getattr(client, method)(route.path)
        text = body(answer)
        assert WORD not in text, f"{method} {route.path} tells"
        assert SECRET not in text, f"{method} {route.path} tells"
        assert route.is_anybodys or answer.status_code in REFUSALS, f"{method} {route.path}: {answer.status_code}"
        assert answer.status_code < 500, route.path
    assert holdings() == before
    assert len(walked) > 20


def test_a_hidden_row_is_answered_like_one_that_does_not_exist(memory: dict[str, Model], as_stranger: Client) -> None:
    asked = [
        route.path for route in routes(memory) if not route.is_anybodys and not route.name.startswith(OTHER_RIGHTS)
    ]
    theirs = {path: as_stranger.get(path) for path in asked}
    Run.objects.all().delete()
    nowhere = {path: as_stranger.get(re.sub(r"(?<=/)\d+(?=/)", "999999", path)) for path in asked}
    for path, answer in theirs.items():
        assert answer.status_code == nowhere[path].status_code == 404, path
        assert _unnamed(answer) == _unnamed(nowhere[path]), path


def _unnamed(answer: Any) -> str:
    """Returns the page without what differs in every answer: its token, and the address it repeats."""
    return re.sub(r'X-CSRFToken": "\w+|value="[^"]*"', "", body(answer))


def test_whoever_is_not_signed_in_is_asked_to(memory: dict[str, Model]) -> None:
    client = Client()
    for route in routes(memory):
        if route.name in OPEN_TO_ALL:
            continue
        for answer in (client.get(route.path), client.post(route.path)):
            if route.name.startswith(API):
                assert answer.status_code in {401, 404, 405}, f"{route.path}: {answer.status_code}"
                continue
            assert answer.status_code == 302, f"{route.path}: {answer.status_code}"
            assert "/login/" in answer["Location"], route.path


def test_a_user_who_is_no_operator_gets_an_explanation(memory: dict[str, Model]) -> None:
    client, user = Client(), User.objects.create_user("ulf", password="a-long-enough-word")
    client.force_login(user)
    for route in routes(memory):
        answer = client.get(route.path)
        assert WORD not in body(answer)
        assert answer.status_code in REFUSALS or route.name in OPEN_TO_ALL | OWN | {"admin:login"}, route.path
    assert client.get("/").status_code == 403


def test_the_walk_would_see_the_word(memory: dict[str, Model], as_admin: Client) -> None:
    """Opens the same addresses as somebody who may; without this the other test would prove nothing."""
    shown = [route for route in routes(memory) if not route.is_anybodys and not route.name.startswith(OTHER_RIGHTS)]
    for route in shown:
        answer = as_admin.get(route.path, follow=True)
        assert (answer.status_code, WORD in body(answer)) == (200, True), route.path


def test_search_does_not_reach_into_other_memories(memory: dict[str, Model], as_stranger: Client) -> None:
    for path in ("/find/", "/", "/runs/"):
        assert WORD not in body(as_stranger.get(path, {"q": WORD})).replace(f'value="{WORD}"', "").replace(
            f"“{WORD}”", ""
        )
    assert SECRET not in body(as_stranger.get("/find/", {"q": f"Topic:{memory['topic'].pk}"}))
    assert SECRET not in body(as_stranger.get("/runs/", {"user": "anna"}))


def test_another_memorys_message_is_no_permalink_in_ones_own(
    memory: dict[str, Model], as_stranger: Client, boris: ChatUser
) -> None:
    assert as_stranger.get(f"/memory/{boris.pk}/messages/", {"at": memory["message"].pk}).status_code == 404


def socket_for(client: Client, path: str, origin: str = "http://localhost") -> WebsocketCommunicator:
    """Connects a socket as a browser does: through the real application, with the cookies of a signed-in client."""
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in client.cookies.items())
    headers = [(b"host", b"localhost"), (b"origin", origin.encode()), (b"cookie", cookies.encode())]
    # The application is built on request, as in a server: it looks for the static files, which are collected by then.
    protocols = import_string("rerankui.asgi.protocols")
    return WebsocketCommunicator(protocols, f"/{path}", headers=headers)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
@pytest.mark.parametrize("person", ["stranger", "nobody", "not-signed-in"])
async def test_a_socket_tells_a_stranger_nothing(
    person: str, stranger: Operator, nobody: Operator, memory: dict[str, Model]
) -> None:
    client = Client()
    if person != "not-signed-in":
        await client.aforce_login({"stranger": stranger, "nobody": nobody}[person].user)
    paths = [filled(pattern, memory) for pattern in websocket_urlpatterns]
    assert paths
    for path in paths:
        socket = socket_for(client, path)
        await socket.connect(timeout=PATIENCE)
        answer = await _until_closed(socket)
        assert answer["type"] == "websocket.close", path


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_socket_is_refused_while_the_database_is_out_of_reach(
    viewer: Operator, memory: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    await client.aforce_login(viewer.user)

    async def out_of_reach(_scope: Any) -> None:
        raise OperationalError("connection failed")

    monkeypatch.setattr(channels.auth, "get_user", out_of_reach)
    for path in [filled(pattern, memory) for pattern in websocket_urlpatterns]:
        socket = socket_for(client, path)
        assert (await socket.connect(timeout=PATIENCE))[0] is False


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_socket_opens_from_the_sites_own_pages_only(viewer: Operator, memory: dict[str, Model]) -> None:
    client = Client()
    await client.aforce_login(viewer.user)
    for path in [filled(pattern, memory) for pattern in websocket_urlpatterns]:
        for origin in ("http://elsewhere.example", "http://localhost:8001", "https://localhost", "null", "http://["):
            foreign = socket_for(client, path, origin=origin)
            assert (await foreign.connect(timeout=PATIENCE))[0] is False, (path, origin)
        own = socket_for(client, path)
        assert (await own.connect(timeout=PATIENCE))[0] is True, path
        assert WORD in await own.receive_from(timeout=PATIENCE), path
        await own.disconnect(timeout=PATIENCE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_one_socket_too_many_is_refused_and_the_next_after_a_close_opens(
    viewer: Operator, anna: ChatUser, settings: Any
) -> None:
    settings.SOCKETS_PER_SESSION = 2
    client = Client()
    await client.aforce_login(viewer.user)
    run = await Run.objects.acreate(owner=anna, query=WORD, strategy="flash", state=Run.State.RUNNING)
    path = f"ws/runs/{run.pk}/"
    first, second, third = (socket_for(client, path) for _ in range(3))
    assert [(await each.connect(timeout=PATIENCE))[0] for each in (first, second, third)] == [True] * 3
    assert "Too many pages follow runs at once" in await third.receive_from(timeout=PATIENCE)
    assert await third.receive_output(timeout=PATIENCE) == {"type": "websocket.close", "code": 4429}
    await first.disconnect(timeout=PATIENCE)
    fourth = socket_for(client, path)
    assert (await fourth.connect(timeout=PATIENCE))[0]
    assert "Too many pages" not in await fourth.receive_from(timeout=PATIENCE)
    for socket in (second, fourth):
        await socket.disconnect(timeout=PATIENCE)


async def test_a_socket_of_no_path_is_refused() -> None:
    socket = socket_for(Client(), "ws/none/")
    assert (await socket.connect(timeout=PATIENCE))[0] is False


async def _until_closed(socket: WebsocketCommunicator) -> dict[str, object]:
    """Yields what arrives first; then the server reports that the connection is closed, which ends the consumer."""
    first: dict[str, object] = await socket.receive_output(timeout=PATIENCE)
    await socket.disconnect(timeout=PATIENCE)
    return first


def arguments(questions: Path, chat: Path) -> dict[str, list[str]]:
    """Returns the arguments that restrict a command to Boris; a command that works for nobody has none."""
    return {
        "archive": ["--user", "boris", "--now"],
        "backup": [],
        "check_memory": ["--user", "boris"],
        "create_token": ["a program", "--scope", "read", "--user", "boris"],
        "diffsettings": [],
        "embed": [],
        "erase_user": ["boris", "--yes"],
        "evaluate": [str(questions)],
        "export_user": ["boris", str(chat.with_name("export.jsonl"))],
        "fork": [str(uuid.uuid4())],
        "import_chat": [str(chat), "--user", "boris"],
        "judged_questions": ["--user", "boris"],
        "move_memory": ["boris", "1"],
        "recall": [WORD, "--user", "boris"],
        "restore": [],
        "try_endpoint": [],
        "undo_night": ["boris"],
        "up": [],
        "test": [],
        "why_not": [str(uuid.uuid4()), "--text", WORD],
        "verify_audit": [],
        "verify_erasure": [str(Erasure.objects.create(owner_number=0, salt=b"s", marks=bytes(8), lengths=[1]).pk)],
    }


@pytest.mark.django_db(transaction=True)
def test_a_command_for_one_memory_tells_nothing_of_another(
    memory: dict[str, Model], boris: ChatUser, tmp_path: Path
) -> None:
    talk(boris, ("Tomatoes", ["How do I prune tomatoes?", "Above the second leaf."]))
    line = {"id": "b9", "role": "user", "author": "Boris", "ts": "2026-03-09T10:00:00Z", "text": "And cucumbers?"}
    chat, questions = tmp_path / "chat.jsonl", tmp_path / "questions.jsonl"
    chat.write_text(json.dumps({"user": "boris", "messages": [line]}))
    questions.write_text(json.dumps({"user": "boris", "qid": "1", "question": WORD, "evidence": ["m0"]}))
    ours = {name for name, app in get_commands().items() if app == "memoryapp"}
    command_arguments = arguments(questions, chat)
    assert ours <= command_arguments.keys(), f"no arguments here for {ours - command_arguments.keys()}"
    # Boris is erased last, because the other commands work for him.
    for name in sorted(ours - {"up", "test", "backup", "restore"}, key=lambda name: (name == "erase_user", name)):
        out = StringIO()
        try:
            call_command(name, *command_arguments[name], stdout=out, stderr=out)
        except CommandError as refused:
            assert name in {"fork", "move_memory", "try_endpoint", "undo_night", "why_not"}, (
                "only these have nothing to do for Boris"
            )
            out.write(str(refused))
        assert SECRET not in out.getvalue(), name


# The least role for which an address opens, or takes what is sent to it.
OPENS_FROM = {
    Role.DEBUGGER: (
        "endpoint_trial evaluation_new evaluation_stop filter_preset golden_question run_delivered run_golden "
        "run_stop ask recall run_fork "
    ),
    Role.CURATOR: (
        "artifact_delete artifact_edit bulk change change_effect change_summary fact_add fact_delete fact_edit "
        "finding finding_undo import_upload memory_make memory_settings merge merge_proposal people_merge "
        "person_add person_delete person_edit resplit row_recall suggestion suggestion_hold suggestion_judge "
        "suggestion_undo topic_pick undo undo_change undo_preview undo_range withdraw artifact_retry "
        "artifact_upload extraction memory_pipeline memory_work guarded reveal "
    ),
    Role.ADMIN: (
        "embedding embedding_change embedding_similarities erase erase_part erasure erasure_file erasure_verify "
        "erasures export nightly nightly_act nightly_edit nightly_make nightly_remove nights operator "
        "operator_make operators token_make token_revoke tokens webhook webhook_act webhook_delete webhook_edit "
        "webhook_make webhook_secret webhooks pipeline "
    ),
}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DEBUGGER, Role.CURATOR])
def test_what_is_for_a_higher_role_is_refused_to_a_lower_one(
    role: Role, memory: dict[str, Model], anna: ChatUser
) -> None:
    client = signed_in(operator("rita", role, anna))
    closed = {name for needed, names in OPENS_FROM.items() if not role.includes(needed) for name in names.split()}
    walked = [route for route in routes(memory) if route.name in closed]
    assert {route.name for route in walked} == closed
    for route in walked:
        answers = (client.get(route.path), client.post(route.path, {"pause": "archive"}))
        assert 403 in {answer.status_code for answer in answers}, f"{route.path} opens for a {role}"
        assert answers[1].status_code in {403, 405}, f"{route.path} takes what a {role} sends"


def test_a_superuser_without_a_role_counts_as_admin(memory: dict[str, Model]) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    assert WORD in body(client.get(f"/memory/{memory['chatuser'].pk}/"))


def test_the_administration_is_for_those_who_may_see_everyone(
    memory: dict[str, Model], staff: Operator, debugger: Operator, admin: Operator
) -> None:
    topic = f"/admin/memoryapp/topic/{memory['topic'].pk}/change/"
    for refused in (staff, debugger):
        client = signed_in(refused)
        assert client.get("/admin/").status_code == client.get(topic).status_code == 302
    admin.user.user_permissions.set(Permission.objects.all())
    assert WORD in body(signed_in(admin).get(topic))
    admin.user.is_active = False
    admin.user.save()
    assert signed_in(admin).get(topic).status_code == 302


def test_a_superuser_enters_the_administration(memory: dict[str, Model]) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    assert WORD in body(client.get(f"/admin/memoryapp/topic/{memory['topic'].pk}/change/"))
