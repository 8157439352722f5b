"""A chat imported through the page of imports: dropped, rehearsed, its time zone chosen, imported, withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memoryapp.models import ChatUser, ImportFile, Message, Role
from memoryapp.upkeep import tasks
from tests.browser.conftest import Browse
from tests.conftest import operator

CHAT = "[25.07.24, 09:05:12] Boris: Are you up?\n[25.07.24, 09:05:40] Anna: Yes, and there is cake."
# Drops a file as a person does; a script can only drop a file that it created.
DROP = """([name, text]) => {
  const brought = new DataTransfer();
  brought.items.add(new File([text], name, { type: "text/plain" }));
  const place = document.getElementById("upload");
  for (const kind of ["dragover", "drop"]) {
    place.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: brought }));
  }
}"""


@pytest.fixture
def page(anna: ChatUser, browse: Browse, tmp_path: Path, settings: Any) -> Iterator[Page]:
    settings.IMPORT_DIR = tmp_path / "imports"
    with browse(operator("cora", Role.CURATOR, anna), timezone_id="Europe/Berlin") as page:
        yield page


def test_a_chat_is_dropped_looked_through_imported_and_taken_back(page: Page, anna: ChatUser) -> None:
    page.goto(f"/memory/{anna.pk}/imports/")
    page.evaluate(DROP, ["WhatsApp Chat with Boris.txt", CHAT])
    page.wait_for_url("**/imports/files/*/")
    expect(page.locator("#import-file")).to_contain_text("waiting for the worker")
    tasks.import_waiting()
    # The page polls the state of the file.
    expect(page.get_by_role("button", name="Import 2 messages")).to_be_visible()
    expect(page.get_by_label("Time zone of the phone")).to_have_value("Europe/Berlin")
    assert not Message.objects.exists()
    page.get_by_role("button", name="Import 2 messages").click()
    expect(page.locator("#import-file")).to_contain_text("Importing the messages")
    tasks.import_waiting()
    expect(page.get_by_role("status").first).to_contain_text("2 messages were imported.")
    assert Message.objects.earliest("sent_at").sent_at.hour == 7, "nine o'clock in Berlin"
    page.get_by_role("link", name="Undo this import").click()
    page.wait_for_url("**/withdraw/")
    page.get_by_role("button", name="Withdraw 2 messages").click()
    expect(page.locator("[data-toast]")).to_contain_text("Withdrew the import WhatsApp Chat with Boris.txt")
    assert set(Message.objects.values_list("is_withdrawn", flat=True)) == {True}
    assert ImportFile.objects.get().state == ImportFile.State.DONE
