"""Pages, programs and monitors while the database is out of reach: refused with a sentence, in one line of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import AsyncClient

from memoryapp.models import ChatUser, Run
from memoryapp.platform.database import database_outage, pool

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
    ("language", "sentence"),
    [("en", "This page loads again by itself"), ("ru", "Страница обновляется сама")],
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
