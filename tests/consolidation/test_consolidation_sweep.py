"""The sweep of the merger: whose memories it processes, when it pauses, and how it reports that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryapp.curation import suggestions
from memoryapp.curation.suggestions import consolidation
from memoryapp.curation.suggestions.consolidation import Pass, consolidate
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.models import AgentCall, ChatUser
from memoryapp.platform.llm import clients
from memoryapp.upkeep import tasks
from tests.consolidation.merger_passes import Mode, live, refused, wants
from tests.suggestions.placed_topics import placed
from tests.support.merging import SUMMARY, Merger, verdict

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("scale")]


class TestSweep:
    def test_without_a_chat_model_similarity_alone_merges_nothing(self, automatic: ChatUser) -> None:
        placed(automatic, 0, 1)
        tasks.suggest_due()
        tasks.consolidate_due()
        assert len(live(automatic)) == 2
        assert suggestions.progress(automatic).open == 1
        assert AgentCall.objects.count() == 0

    def test_one_chat_user_whose_model_fails_keeps_nobody_waiting(
        self,
        automatic: ChatUser,
        boris: ChatUser,
        settings: Any,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        settings.LLM_BASE_URL = "http://model.invalid"
        wants(boris, Mode.AUTOMATIC)
        placed(automatic, 0, 1, texts=["poison", "dose"])
        placed(boris, 0, 1)

        def answer(question: str) -> str:
            if "poison" in question:
                raise LLMError("No.")
            return verdict()

        monkeypatch.setattr(clients, "open_chat", Merger(answer).open)
        tasks.suggest_due()
        tasks.consolidate_due()
        assert live(boris) == [SUMMARY]
        assert f"Merges of chat user {automatic.pk} are not judged yet: No." in caplog.text

    @pytest.mark.slow
    def test_a_full_queue_leaves_for_later_what_found_no_room(
        self, automatic: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("memoryapp.curation.suggestions.making.MOST_OPEN", 1)
        placed(automatic, 0, 1, 90, 92)
        merger = Merger()
        assert suggestions.suggest(automatic) == 1
        assert list(suggestions.with_unchecked()) == []
        for _ in range(2):
            assert consolidate(automatic, merger.open) == Pass(judged=1, merged=1)
            assert list(suggestions.with_unchecked()) in ([automatic], [])
            suggestions.suggest(automatic)
        assert live(automatic) == [SUMMARY, f"{SUMMARY} and one"]


def test_the_room_says_when_it_rests(automatic: ChatUser) -> None:
    assert consolidation.resumes_at(automatic) is None
    placed(automatic, 0, 5)
    refused(automatic, Merger(LLMError("away")), LLMError)
    at = AgentCall.objects.get().at
    assert consolidation.resumes_at(automatic) == at + timedelta(minutes=1)
