"""A browser's page that somebody is signed in on, and that is listened to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page
from pytest_django.live_server_helper import LiveServer

from memoryapp.models import Operator
from tests.conftest import signed_in
from tests.support.clock import PATIENCE

# What htmx says, before the element, of a request that a newer one has replaced, or whose page was left. Of one that
# failed it says more.
REPLACED = {"htmx:afterRequest", "htmx:sendAbort"}


@contextmanager
def watched(browser: Browser, who: Operator, server: LiveServer, *ignored: str, **more: Any) -> Iterator[Page]:
    """Fails the test when the browser complained of anything, the content policy first, but for ``ignored`` words.

    ``more`` are arguments of the browser's context.
    """
    session = signed_in(who).cookies["sessionid"].value
    usual = {"base_url": server.url, "viewport": {"width": 1440, "height": 900}, "timezone_id": "UTC"}
    context = browser.new_context(**usual | more)
    context.set_default_timeout(PATIENCE * 1000)
    context.add_cookies([{"name": "sessionid", "value": session, "url": server.url}])
    page, complaints = context.new_page(), list[str]()

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and message.text.partition(",")[0] not in REPLACED:
            complaints.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    heard = [words for words in complaints if not any(part in words for part in ignored)]
    assert heard == [], heard
