"""One browser for all tests of this folder, and a page of it before the live server for whoever signs in."""

from __future__ import annotations

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
    """Starting it takes longer than most tests; each has a context of its own, which shares nothing with others."""
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright's loop runs in this thread, and tests look at rows between its steps.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()
        # Within the loop the rows were reached over a connection of their own, which would hold the database.
        connections.close_all()


@pytest.fixture
def browse(browser: Browser, transactional_db: None, live_server: LiveServer, settings: Any) -> Browse:
    """``with browse(admin) as page``; further arguments are those of ``watched``."""
    # The live server finds styles and scripts by their plain names.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}

    def opened(who: Operator, *ignored: str, **more: Any) -> AbstractContextManager[Page]:
        return watched(browser, who, live_server, *ignored, **more)

    return opened
