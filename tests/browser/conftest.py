"""One browser for all tests of this folder, and a page of it that is signed in on the live server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import connections
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from memoryapp.models import Operator
from tests.support.chromium import ARGUMENTS, CHROMIUM
from tests.support.clock import PATIENCE
from tests.support.watched import watched

Browse = Callable[..., AbstractContextManager[Page]]

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Starting a browser takes longer than most tests, so all share it; each test has its own context, which shares
    nothing."""
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright's event loop runs in this thread, and tests read rows between its steps.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()
        # Inside the loop the rows would be read over another connection, which would keep the database open.
        connections.close_all()


@pytest.fixture
def browse(browser: Browser, transactional_db: None, live_server: LiveServer, settings: Any) -> Browse:
    """``with browse(admin) as page``; further arguments are passed to ``watched``."""
    # The live server finds styles and scripts by their plain names.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}

    def opened(who: Operator, *ignored: str, **more: Any) -> AbstractContextManager[Page]:
        return watched(browser, who, live_server, *ignored, **more)

    return opened
