"""A body that was sent to the page of imports, and that no view read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.utils.module_loading import import_string

from memoryapp.models import ChatUser
from rerankui.web import uploads
from tests.support.clock import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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


async def test_a_body_of_somebody_who_is_signed_out_does_not_stay_on_the_disk(
    body: str, anna: ChatUser, settings: Any
) -> None:
    ticket = uploads.ticket(anna.pk, 1)
    assert await answered(f"/memory/{anna.pk}/imports/upload/{ticket}/", body) == 302
    assert list(settings.IMPORT_DIR.iterdir()) == []


async def test_a_body_that_nobody_named_is_left_alone(body: str, settings: Any) -> None:
    name = body.partition(":")[0]
    assert await answered("/login/", f"{name}:made-up") == 403
    assert [path.name for path in settings.IMPORT_DIR.iterdir()] == [name]
