"""Cells: memories in schemas of their own answer every page and endpoint as if there were one, and go from one to
another whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import Model
from pytest_django.fixtures import Settings

from memoryapp.engine.cells import within
from memoryapp.models import ApiToken, ChatUser, Role
from memoryapp.platform import cells
from memoryapp.platform.accounts import tokens
from tests.conftest import operator, signed_in
from tests.doors.api.every_endpoint import asked, endpoints
from tests.platform.every_address import every_row, routes
from tests.support.api_client import EVERY_SCOPE, Program

pytestmark = pytest.mark.django_db


@pytest.fixture
def two(settings: Settings) -> Iterator[None]:
    """An installation with two cells, in which no cell is chosen."""
    settings.CELLS = 2
    cells.make_missing()
    with within(None):
        yield


def memory_of(name: str) -> tuple[ChatUser, dict[str, Model]]:
    owner = ChatUser.objects.create(name=name)
    with within(owner.cell):
        return owner, every_row(owner)


def statuses(memory: dict[str, Model]) -> dict[str, Any]:
    """What an admin and a token that may everything are answered at each address."""
    client = signed_in(operator("ada", Role.ADMIN, memory["chatuser"]))
    found: dict[str, Any] = {}
    for route in routes(memory):
        found[route.name] = client.get(route.path).status_code
    program = Program(tokens.make("worker", [ApiToken.Scope(scope) for scope in EVERY_SCOPE], [])[1])
    numbers = [memory[name].pk for name in ("topic", "run", "topicedit", "fact", "knowledgeedit")]
    for method, path, body in endpoints(memory["chatuser"].name, *numbers):
        if "stream" not in path:
            found[f"{method} {path}".replace(str(memory["run"].pk), "RUN")] = asked(
                program, (method, path, body)
            ).status_code
    return found


def test_x(two: None) -> None:
    import traceback

    owner, memory = memory_of("anna")
    client = signed_in(operator("ada", Role.ADMIN, owner))
    from django.contrib.auth.models import User

    root = User.objects.create_superuser("root")
    rc = signed_in(root) if False else None
    from django.test import Client

    rc = Client()
    rc.force_login(root)
    client.raise_request_exception = True
    bad = 0

    def tried(what, f):
        nonlocal bad
        with within(None):
            try:
                answer = f()
                if getattr(answer, "streaming", False) and "stream" not in what:
                    b"".join(answer)
                if answer.status_code in (404, 500, 503):
                    print("STATUS", answer.status_code, what)
            except Exception as e:
                bad += 1
                frames = [
                    f
                    for f in traceback.extract_tb(e.__traceback__)
                    if ("memoryapp" in f.filename or "rerankui" in f.filename)
                    and "sights" not in f.filename
                    and "statements" not in f.filename
                ]
                print(
                    "BAD",
                    what,
                    type(e).__name__,
                    str(e)[:60],
                    [f"{f.filename.split('main/')[-1]}:{f.lineno}" for f in frames][-4:],
                )

    for route in routes(memory):
        if route.path.startswith("/admin"):
            tried("get " + route.path, lambda: rc.get(route.path))
            continue
        for method in ("get", "post"):
            tried(f"{method} {route.path}", lambda: getattr(client, method)(route.path))
    program = Program(tokens.make("worker", [ApiToken.Scope(scope) for scope in EVERY_SCOPE], [])[1])
    numbers = [memory[name].pk for name in ("topic", "run", "topicedit", "fact", "knowledgeedit")]
    for endpoint in endpoints("anna", *numbers):
        if "agent/stream" not in endpoint[1]:
            tried(" ".join(endpoint[:2]), lambda: asked(program, endpoint))
    assert not bad
