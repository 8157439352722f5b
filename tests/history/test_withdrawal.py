"""An import is withdrawn after a preview with its numbers, and an undo restores it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.models import ChatUser, ImportBatch, Message, TopicEdit
from tests.conftest import talk
from tests.history.conftest import address, live
from tests.support.browsing import get


class TestWithdraw:
    @pytest.fixture
    def batch(self, anna: ChatUser) -> ImportBatch:
        """An import with a topic of its own, a part of another topic, and a message that is in no topic yet."""
        batch = ImportBatch.objects.create(owner=anna, source="chat.jsonl", format="jsonl", added=4)
        talk(anna, ("Cats", ["A cat?", "Yes"]), ("Dogs", ["A dog?", "Also"]))
        numbers = list(Message.objects.of(anna).in_order().values_list("pk", flat=True))
        Message.objects.filter(pk__in=[*numbers[:2], numbers[2]]).update(batch=batch)
        loose: Any = {"role": "user", "sent_at": timezone.now(), "text": "Later", "content_hash": "-"}
        Message.objects.create(owner=anna, external_id="loose", batch=batch, **loose)
        return batch

    @pytest.mark.slow
    def test_an_import_is_undone_with_its_numbers_first_and_comes_back(
        self, anna: ChatUser, batch: ImportBatch, client: Client
    ) -> None:
        before = live(anna)
        path = f"/memory/{anna.pk}/imports/{batch.pk}/withdraw/"
        page = get(client, path)
        figures = [int(n) for n in re.findall(r"<b>(\d+)</b>", page)]
        assert figures == [4, 1, 1, 1]
        ImportBatch.objects.filter(pk=batch.pk).update(added=30_000)
        assert "brought 30,000 messages" in get(client, path)
        assert live(anna) == before
        assert client.post(path, {"reason": "wrong chat"}).status_code == 302
        assert [summary for _pk, summary in live(anna)] == ["Dogs"]
        assert Message.objects.of(anna).filter(is_withdrawn=True).count() == 4
        assert "has no messages" in get(client, path)
        edit = TopicEdit.objects.get(kind="withdraw")
        client.post(address(anna, f"edits/{edit.pk}/"))
        assert live(anna) == before
        assert Message.objects.of(anna).filter(is_withdrawn=True).count() == 0

    def test_messages_that_no_topic_had_yet_are_not_counted_as_none(
        self, anna: ChatUser, batch: ImportBatch, client: Client
    ) -> None:
        Message.objects.exclude(external_id="loose").update(batch=None)
        client.post(f"/memory/{anna.pk}/imports/{batch.pk}/withdraw/")
        page = get(client, address(anna))
        assert f"edit-{TopicEdit.objects.get(kind='withdraw').pk}" in page
        assert "0 messages" not in page

    def test_imports_are_listed_with_what_became_of_them(
        self, anna: ChatUser, batch: ImportBatch, client: Client, as_viewer: Client
    ) -> None:
        page = get(client, f"/memory/{anna.pk}/imports/")
        assert "chat.jsonl" in page
        assert f"imports/{batch.pk}/withdraw/" in page
        assert "withdraw/" not in get(as_viewer, f"/memory/{anna.pk}/imports/")
        assert as_viewer.post(f"/memory/{anna.pk}/imports/{batch.pk}/withdraw/").status_code == 403
