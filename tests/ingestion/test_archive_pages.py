"""A chat user's settings, its active sessions with their countdown, and what cut a topic, as pages show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.engine.memory import TopicDraft
from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import AgentCall, ChatUser, Message, Topic, Work
from memoryapp.platform import work
from memoryapp.platform.work import ARCHIVE
from tests.support.browsing import get

DEFAULTS = {"silence_seconds": "", "session_messages": "", "topic_messages": ""}
SENT = {**DEFAULTS, "consolidation": "suggest", "extraction": "review"}


def add_talk(owner: ChatUser, minutes_ago: float, *texts: str, role: str = "user", session: str = "") -> None:
    begun = Message.objects.of(owner).count()
    at = timezone.now() - timedelta(minutes=minutes_ago)
    add_messages(
        owner,
        [
            MessageRecord("", f"a{begun + place}", role, role, at, text, session=session)
            for place, text in enumerate(texts)
        ],
    )


def settings_page(owner: ChatUser) -> str:
    return f"/memory/{owner.pk}/settings/"


class TestMemorySettings:
    def test_what_is_saved_is_what_the_form_shows_again(self, anna: ChatUser, as_admin: Client) -> None:
        sent = {**SENT, "silence_seconds": "6h", "topic_messages": "4", "consolidation": "automatic"}
        assert as_admin.post(settings_page(anna), sent).status_code == 302
        anna.refresh_from_db()
        assert (anna.silence_seconds, anna.session_messages, anna.topic_messages) == (21_600, None, 4)
        assert (anna.consolidation, anna.extraction) == ("automatic", "review")
        page = get(as_admin, settings_page(anna))
        assert 'value="6h"' in page
        assert "400, as for everybody" in page
        assert as_admin.post(settings_page(anna), SENT).status_code == 302
        anna.refresh_from_db()
        assert (anna.silence_seconds, anna.topic_messages) == (None, None)

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            ({"silence_seconds": "soon"}, "Write a number and a unit: 45m, 6h or 2d."),
            ({"silence_seconds": "31d"}, "It must be between 1m and 30d."),
            ({"silence_seconds": "9" * 19 + "d"}, "Write a number and a unit"),
            ({"session_messages": "1"}, "Write a whole number from 2 to 10000"),
            ({"session_messages": "many"}, "Write a whole number from 2 to 10000"),
            ({"topic_messages": "0"}, "Write a whole number from 1 to 1000"),
            ({"session_messages": "5", "topic_messages": "6"}, "A topic cannot need more messages than a session has."),
            ({"consolidation": "always"}, "There is no such choice."),
        ],
    )
    def test_bad_input_is_one_sentence_and_saves_nothing(
        self, anna: ChatUser, as_admin: Client, wrong: dict[str, str], sentence: str
    ) -> None:
        answer = as_admin.post(settings_page(anna), {**SENT, "extraction": "off", **wrong})
        assert answer.status_code == 422
        page = answer.content.decode()
        assert sentence in page
        assert f'value="{next(iter(wrong.values()))}"' in page or "consolidation" in wrong
        anna.refresh_from_db()
        assert anna.extraction == "review"

    def test_the_pauses_that_hold_without_a_choice_are_shown(self, anna: ChatUser, as_admin: Client) -> None:
        assert "1h, between people 6h" in get(as_admin, settings_page(anna))

    def test_others_may_neither_see_nor_save_them(
        self, anna: ChatUser, as_debugger: Client, as_stranger: Client
    ) -> None:
        for client, status in ((as_debugger, 403), (as_stranger, 404)):
            assert client.get(settings_page(anna)).status_code in {status, 403}
            assert client.post(settings_page(anna), {**SENT, "extraction": "off"}).status_code in {status, 403}
        anna.refresh_from_db()
        assert anna.extraction == "review"


class TestSessions:
    def test_each_active_session_says_when_it_is_archived(self, anna: ChatUser, as_admin: Client) -> None:
        add_talk(anna, 30.5, "Tea?", "Green.")
        add_talk(anna, 10.5, "Cake?", session="cakes")
        page = get(as_admin, f"/memory/{anna.pk}/")
        assert "Active sessions" in page
        assert "archived in 29 min" in page
        assert "archived in 49 min" in page
        anna.silence_seconds = 6 * 3600
        anna.save()
        assert "archived in 6 h" in get(as_admin, f"/memory/{anna.pk}/work/")

    def test_the_list_is_bounded_and_counts_the_rest(
        self, anna: ChatUser, as_admin: Client, django_assert_max_num_queries: Any
    ) -> None:
        for number in range(9):
            add_talk(anna, 3_000 - 100 * number, f"message {number}")
        with django_assert_max_num_queries(20):
            page = get(as_admin, f"/memory/{anna.pk}/work/")
        assert page.count("now due") == 6
        assert "and 3 earlier messages" in page

    def test_after_archive_now_the_panel_follows_the_work_until_nothing_is_left(
        self, anna: ChatUser, as_admin: Client
    ) -> None:
        add_talk(anna, 1, "Tea?", "Green.")
        address = f"/memory/{anna.pk}/work/"
        as_admin.post(address)

        def panel() -> str:
            headers = {"HX-Request": "true", "HX-Target": "sessions", "HX-Current-URL": "/memory/"}
            return as_admin.get(address, headers=headers).content.decode()

        asked = panel()
        assert "The worker begins within seconds." in asked
        assert "every 2s" in asked
        assert "Archive now" not in asked
        with work.tracked(anna, ARCHIVE) as steps:
            steps.reached(1, 0.5)
            steps.write(Work.State.GOING_ON)
            assert "50 %" in panel()
            put_topics(
                anna,
                [TopicDraft("Tea", tuple(Message.objects.in_order().values_list("pk", flat=True)))],
                actor="archive",
            )
        done = panel()
        assert "Every message is in a topic." in done
        assert "hx-trigger" not in done

    def test_a_pause_is_shown_in_the_place_of_the_countdown(self, anna: ChatUser, as_admin: Client) -> None:
        add_talk(anna, 1, "Tea?")
        work.pause(ARCHIVE, "cora", anna)
        page = get(as_admin, f"/memory/{anna.pk}/work/")
        assert "paused for this chat user by cora" in page
        assert "archived in" not in page

    def test_a_failure_is_shown_with_the_button(self, anna: ChatUser, as_admin: Client) -> None:
        add_talk(anna, 1, "Tea?")
        with pytest.raises(RuntimeError), work.tracked(anna, ARCHIVE):
            raise RuntimeError("The embedder is away.")
        page = get(as_admin, f"/memory/{anna.pk}/work/")
        assert "The embedder is away." in page
        assert "Archive now" in page


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (None, "Cut by the embedded segmenter."),
        ({"prompt_version": "split-ru-2", "cost_usd": 0.0123}, "split-ru-2"),
        ({"outcome": "timeout"}, "Cut by the embedded segmenter, for the model failed (no answer in time)."),
    ],
)
def test_the_history_of_a_topic_says_who_cut_it(
    anna: ChatUser, as_admin: Client, call: dict[str, Any] | None, sentence: str
) -> None:
    add_talk(anna, 1, "Tea?", "Green.")
    asked = AgentCall.objects.create(owner=anna, agent="splitter", model="m/1", **call) if call is not None else None
    ids = tuple(Message.objects.in_order().values_list("pk", flat=True))
    put_topics(anna, [TopicDraft("Tea", ids)], actor="archive", call=asked)
    for address in (f"/topics/{Topic.objects.get().pk}/", f"/memory/{anna.pk}/history/?actor=people+and+program"):
        assert sentence in get(as_admin, address), address
