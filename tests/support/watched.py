"""A browser's page on which somebody is signed in, and whose errors are collected."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.signals import request_finished, request_started
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page
from pytest_django.live_server_helper import LiveServer

from memoryapp.models import Operator
from tests.conftest import signed_in
from tests.support.clock import PATIENCE
from tests.support.stack import wait_for

# What htmx reports, before the element, of a request that a newer one replaced, or whose page was left. A failed
# request has a longer report.
REPLACED = {"htmx:afterRequest", "htmx:sendAbort"}
# A slow machine may take long to load a page and to run its scripts: nothing can be clicked before its scripts are
# ready, and what they remove after seconds, such as a toast, stays longer.
UNHURRIED = """(() => {
  const shield = new CSSStyleSheet();
  shield.replaceSync("* { pointer-events: none !important }");
  document.adoptedStyleSheets = [shield];
  addEventListener("load", () => { document.adoptedStyleSheets = []; });
  const later = window.setTimeout, never = 2 ** 31 - 1;
  window.setTimeout = (does, after, ...more) => later(does, [2500, 10000].includes(after) ? never : after, ...more);
})()"""


@contextmanager
def patient_context(browser: Browser, **more: Any) -> Iterator[BrowserContext]:
    """Opens a browser's context until the block ends; ``more`` are its arguments. It waits for as long as tests do."""
    context = browser.new_context(**more)
    try:
        context.set_default_timeout(PATIENCE * 1000)
        if more.get("java_script_enabled", True):
            context.add_init_script(UNHURRIED)
        yield context
    finally:
        context.close()


@contextmanager
def watched(browser: Browser, who: Operator, server: LiveServer, *ignored: str, **more: Any) -> Iterator[Page]:
    """Fails the test if the browser reported any error, above all of the content policy, except those with ``ignored``
    words. ``more`` are arguments of the browser's context. The server has answered every request when the block
    ends."""
    session = signed_in(who).cookies["sessionid"].value
    size = {"width": 1440, "height": 900}
    usual = {"base_url": server.url, "viewport": size, "timezone_id": "UTC", "reduced_motion": "reduce"}
    complaints = list[str]()

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and message.text.partition(",")[0] not in REPLACED:
            complaints.append(message.text)

    with _answered(), patient_context(browser, **usual | more) as context:
        context.add_cookies([{"name": "sessionid", "value": session, "url": server.url}])
        page = context.new_page()
        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    heard = [words for words in complaints if not any(part in words for part in ignored)]
    assert heard == [], heard


@contextmanager
def _answered() -> Iterator[None]:
    """Returns once the server has ended its requests, which would block the emptying of the tables."""
    going = set[int]()

    def begin(**_sent: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            going.add(threading.get_ident())

    def end(**_sent: Any) -> None:
        going.discard(threading.get_ident())

    request_started.connect(begin)
    request_finished.connect(end)
    try:
        yield
        wait_for(lambda: not going)
    finally:
        request_started.disconnect(begin)
        request_finished.disconnect(end)
