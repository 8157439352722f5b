"""A browser's page that somebody is signed in on, and that is listened to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections
from playwright.sync_api import Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from memoryapp.models import Operator
from tests.conftest import signed_in
from tests.test_live import ARGUMENTS, CHROMIUM


@contextmanager
def watched(
    who: Operator, server: LiveServer, settings: Any, monkeypatch: pytest.MonkeyPatch, *ignored: str, zone: str = "UTC"
) -> Iterator[Page]:
    """Fails the test when the browser complained of anything, the content policy first, but for ``ignored`` words.

    The browser's clock is that of ``zone``.
    """
    # Playwright's loop runs in this thread, and tests look at rows between its steps.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    # The live server finds styles and scripts by their plain names.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    session = signed_in(who).cookies["sessionid"].value
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(base_url=server.url, viewport={"width": 1440, "height": 900}, timezone_id=zone)
        context.add_cookies([{"name": "sessionid", "value": session, "url": server.url}])
        page, complaints = context.new_page(), list[str]()
        page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        browser.close()
        # Within the loop the rows were reached over a connection of their own, which would hold the database.
        connections.close_all()
    assert [words for words in complaints if not any(part in words for part in ignored)] == []
