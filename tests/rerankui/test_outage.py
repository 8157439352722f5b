"""Pages, sockets and programs while the database is out of reach; bodies that no view read."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from django.test import AsyncClient
from django.utils.module_loading import import_string

from memoryapp.models import ChatUser, Run
from memoryapp.platform.database import database_outage, pool
from rerankui.web import uploads
from rerankui.web.refusals import RefusedWithoutDatabase
from tests.support.clock import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

LOOKS = 3
# Seconds in which a pool tries to connect twice; both fail at once.
ATTEMPTS = 3.0


@pytest.fixture
def addresses(anna: ChatUser) -> list[str]:
    run = Run.objects.create(owner=anna, query="Which cake?", strategy="flash", state="running")
    pages = ["/", "/admin/", f"/memory/{anna.pk}/topics/", f"/runs/{run.pk}/", f"/runs/{run.pk}/frame/?last=0"]
    return [*pages, "/readyz", "/metrics"]


@pytest.fixture
def browser(db: None) -> AsyncClient:
    """An admin's, with the asynchronous handler of the web server, which answers a fault instead of raising it."""
    client = AsyncClient(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("ada", password="ada"))
    return client


@pytest.fixture
async def gone(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], browser: AsyncClient
) -> AsyncIterator[pytest.MonkeyPatch]:
    """Takes the database away until the patch is undone; it comes last, because what is above needs it."""
    await sync_to_async(connections.close_all)()
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
    yield monkeypatch
    monkeypatch.undo()
    await sync_to_async(connections.close_all)()
    database_outage.end()


async def test_requests_are_refused_with_one_line_in_the_log(
    browser: AsyncClient, addresses: list[str], gone: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _look in range(LOOKS):
        for address in addresses:
            assert (await browser.get(address)).status_code == 503, address
        for client in (browser, AsyncClient()):
            program = await client.get("/v1/users", headers={"Authorization": "Bearer x"})
            assert (program.status_code, "Retry-After" in program) == (503, True)
            assert program.json()["error"]["message"] == "The database is out of reach; try again."
    assert [(each.levelname, each.exc_info) for each in caplog.records] == [("WARNING", None)]
    assert caplog.records[0].getMessage().startswith("The database cannot be reached: ")
    gone.undo()
    assert (await browser.get(addresses[0])).status_code == 200
    assert caplog.records[-1].getMessage().startswith("The database is back after ")


async def test_a_pool_that_connects_again_logs_no_attempt(
    gone: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with pool(is_single=True) as runs:
        with pytest.raises(psycopg.OperationalError):
            await runs.getconn(timeout=ATTEMPTS)
    assert [each.name for each in caplog.records] == ["memoryapp.platform.database"]


@pytest.mark.parametrize(
    ("language", "sentence"), [("en", "This page loads again by itself"), ("ru", "Страница обновляется сама")]
)
async def test_a_page_says_why_and_loads_again_by_itself(
    browser: AsyncClient, gone: pytest.MonkeyPatch, language: str, sentence: str
) -> None:
    page = await browser.get("/", headers={"Accept-Language": language})
    assert page["Retry-After"] == "2"
    assert sentence in page.content.decode()
    assert '<meta http-equiv="refresh" content="2">' in page.content.decode()


async def test_what_was_sent_is_not_asked_for_again(browser: AsyncClient, gone: pytest.MonkeyPatch) -> None:
    page = await browser.post("/theme/", {"theme": "dark"})
    assert page.status_code == 503
    assert "Go back and try again" in page.content.decode()
    assert "http-equiv" not in page.content.decode()


# A socket that is opened while the database is unreachable.


async def out_of_reach(_scope: Any, _receive: Any, _send: Any) -> None:
    raise OperationalError("connection failed: no such file\nIs the server running?")


async def lost(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})
    await out_of_reach(scope, receive, send)


async def test_it_is_refused_with_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    for _connecting in range(2):
        socket = WebsocketCommunicator(RefusedWithoutDatabase(out_of_reach), "/ws/")
        assert (await socket.connect(timeout=PATIENCE))[0] is False
    sentence = "The database cannot be reached: connection failed: no such file. "
    assert [record.getMessage().partition("Requests")[0] for record in caplog.records] == [sentence]
    database_outage.end()


async def test_one_that_was_accepted_is_not_refused() -> None:
    socket = WebsocketCommunicator(RefusedWithoutDatabase(lost), "/ws/")
    assert (await socket.connect(timeout=PATIENCE))[0] is True
    with pytest.raises(OperationalError):
        await socket.wait(timeout=PATIENCE)


# A body that was sent to the page of imports, and that no view read.


@pytest.fixture
def body(tmp_path: Path, settings: Any) -> str:
    """Returns the header's value with which the server names the body that it wrote."""
    settings.IMPORT_DIR = tmp_path / "imports"
    with uploads.new_file("body-") as file:
        file.write(b"a chat")
        return uploads.body_name(file)


async def answered(path: str, header: str) -> int:
    """Returns the status of a post to that address by somebody who is not signed in."""
    headers = [(b"host", b"localhost"), (uploads.HEADER.lower().encode(), header.encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asked = ApplicationCommunicator(import_string("rerankui.asgi.protocols"), scope)
    await asked.send_input({"type": "http.request", "body": b""})
    status = int((await asked.receive_output(PATIENCE))["status"])
    while (await asked.receive_output(PATIENCE)).get("more_body"):
        pass
    await asked.wait(PATIENCE)
    return status


@pytest.mark.usefixtures("thread_closed")
async def test_a_body_of_somebody_who_is_signed_out_does_not_stay_on_the_disk(
    body: str, anna: ChatUser, settings: Any
) -> None:
    ticket = uploads.ticket(anna.pk, 1)
    assert await answered(f"/memory/{anna.pk}/imports/upload/{ticket}/", body) == 302
    assert list(settings.IMPORT_DIR.iterdir()) == []


@pytest.mark.usefixtures("thread_closed")
async def test_a_body_that_nobody_named_is_left_alone(body: str, settings: Any) -> None:
    name = body.partition(":")[0]
    assert await answered("/login/", f"{name}:made-up") == 403
    assert [path.name for path in settings.IMPORT_DIR.iterdir()] == [name]
