"""Messages as a conversation: newest page first, permalinks, search, and what belongs to a message."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from memoryapp import curation
from memoryapp.insight.browsing.quality import holdings, messages_by_month
from memoryapp.models import Artifact, ChatUser, ImportBatch, Message
from rerankui.views import messages
from tests.conftest import BEGAN
from tests.support.browsing import get, link, message_of, rows, topic_of


@pytest.fixture
def talk(anna: ChatUser) -> list[Message]:
    """Two hundred messages, two in each minute, so that only the id gives their order."""
    return [message_of(anna, f"Message {number}.", minutes=number // 2) for number in range(200)]


@pytest.mark.slow
def test_the_last_page_comes_first_and_leads_back_to_the_beginning(
    talk: list[Message], anna: ChatUser, as_viewer: Client
) -> None:
    address = f"/memory/{anna.pk}/messages/"
    page, seen = get(as_viewer, address), list[int]()
    assert rows(page, "message")[-1] == talk[-1].pk
    while True:
        seen = rows(page, "message") + seen
        earlier = link(page, "next")
        if earlier is None:
            break
        page = get(as_viewer, address + earlier)
    assert seen == [message.pk for message in talk]
    assert link(page, "prev") is not None


@pytest.mark.slow
def test_a_permalink_shows_the_message_among_its_neighbours(
    talk: list[Message], anna: ChatUser, as_viewer: Client
) -> None:
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?at={talk[100].pk}")
    assert re.search(rf'is-here[^>]*id="message-{talk[100].pk}"', page)
    around = rows(page, "message")
    assert around == [message.pk for message in talk[60:141]]
    later = get(as_viewer, f"/memory/{anna.pk}/messages/{link(page, 'prev')}")
    assert rows(later, "message")[0] == talk[141].pk


@pytest.mark.parametrize("at", ["0", "nonsense", "9" * 40, "-1"])
def test_a_permalink_to_no_message_is_not_found(at: str, anna: ChatUser, as_viewer: Client) -> None:
    assert as_viewer.get(f"/memory/{anna.pk}/messages/", {"at": at}).status_code == 404


@pytest.mark.parametrize("year", [1, 9999])
def test_a_message_dated_centuries_off_makes_no_page_of_its_months(
    year: int, anna: ChatUser, as_viewer: Client
) -> None:
    message_of(anna, "In March")
    odd = message_of(anna, "When?", minutes=1)
    Message.objects.filter(pk=odd.pk).update(sent_at=datetime(year, 5, 1, tzinfo=UTC))
    for page in (f"/memory/{anna.pk}/", f"/memory/{anna.pk}/messages/"):
        assert len(get(as_viewer, page)) < 100_000
    assert [month.year for month, _count in messages_by_month(anna)] == sorted([2026, year])


def test_the_empty_months_between_others_are_shown(anna: ChatUser) -> None:
    message_of(anna, "In March")
    message_of(anna, "In May", minutes=70 * 1440)
    assert [count for _month, count in messages_by_month(anna)] == [1, 0, 1]


def test_a_month_leads_to_its_first_message(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March")
    april = message_of(anna, "In April", minutes=40 * 1440)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?on=2026-04-01")
    assert f'is-here" id="message-{april.pk}"' in page
    assert get(as_viewer, f"/memory/{anna.pk}/messages/?on=2026-99-99")


def test_months_which_count_all_messages_are_no_part_of_a_search(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March")
    message_of(anna, "In May", minutes=70 * 1440)
    assert "month-list" in get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert "month-list" not in get(as_viewer, f"/memory/{anna.pk}/messages/?q=march")


def test_a_search_that_is_left_brings_the_months_its_page_did_not_have(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March")
    message_of(anna, "In May", minutes=70 * 1440)
    address = f"/memory/{anna.pk}/messages/?q="
    searched = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{address}march"}
    assert "month-list" in get(as_viewer, address, **searched)
    assert "month-list" not in get(as_viewer, f"{address}may", **searched)
    assert "month-list" not in get(as_viewer, address, **{**searched, "HX-Current-URL": f"http://testserver{address}"})


def test_search_marks_the_words_and_leads_to_the_place(anna: ChatUser, as_viewer: Client) -> None:
    topic = topic_of(anna, "vLLM", ["It dies with OOM", "Lower it"])
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?q=oom")
    assert "<mark>OOM</mark>" in page
    assert "Lower it" not in page
    assert f"Topic:{topic.pk}" in page


@pytest.mark.slow
def test_the_heading_counts_all_messages_and_what_was_found_as_far_as_it_looks(
    talk: list[Message], anna: ChatUser, as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_of(anna, "vLLM", ["It dies"])
    address = f"/memory/{anna.pk}/messages/"
    assert "201 messages" in get(as_viewer, address)
    assert "200 messages" in get(as_viewer, f"{address}?place=active")
    assert "111 messages" in get(as_viewer, f"{address}?q=message 1")
    monkeypatch.setattr(messages, "MOST_COUNTED", 110)
    assert "110+ messages" in get(as_viewer, f"{address}?q=message 1")
    assert "201 messages" in get(as_viewer, address)


def test_messages_in_no_topic_are_the_active_session(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "vLLM", ["It dies"])
    waiting = message_of(anna, "And the parcel", minutes=99)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/?place=active")
    assert rows(page, "message") == [waiting.pk]
    assert "active session" in page


def test_an_answer_names_what_it_answers(anna: ChatUser, as_viewer: Client) -> None:
    asked = message_of(anna, "Which cake?")
    message_of(anna, "Honey", minutes=200, role="assistant", reply_to=asked.external_id)
    assert f'href="/memory/{anna.pk}/messages/?at={asked.pk}"' in get(as_viewer, f"/memory/{anna.pk}/messages/")


def test_attachments_and_forwards_are_shown(anna: ChatUser, as_viewer: Client) -> None:
    files = [{"name": "plan.png", "mime": "image/png"}, {"name": "kept.pdf", "mime": "application/pdf"}, "odd"]
    message = message_of(anna, "Look", forwarded_from="Petrov", metadata={"attachments": files})
    Artifact.objects.create(owner=anna, message=message, name="kept.pdf", file_type="pdf", sha256="1", created_at=BEGAN)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert "forwarded from Petrov" in page
    assert page.count("kept.pdf</a>") == 1
    assert "plan.png" in page


@pytest.mark.parametrize("metadata", [{}, {"attachments": None}, {"attachments": "x"}, {"attachments": [{}]}, []])
def test_metadata_of_any_shape_can_be_shown(metadata: object, anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "Look", metadata=metadata)
    assert "Look" in get(as_viewer, f"/memory/{anna.pk}/messages/")


def test_each_day_has_a_rule(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "Monday"), message_of(anna, "Still Monday", minutes=3), message_of(anna, "Tuesday", minutes=1440)
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert page.count('<li class="day">') == 2
    assert "Monday, 2 March 2026" in page


@pytest.fixture
def withdrawn(anna: ChatUser) -> Message:
    """One message of an import that was withdrawn, beside one that stays."""
    message_of(anna, "This stays")
    batch = ImportBatch.objects.create(owner=anna, source="wrong.json", format="telegram", added=1)
    gone = message_of(anna, "This was a mistake", minutes=70 * 1440, batch=batch)
    curation.withdraw(anna, batch, actor="cora")
    return gone


def test_a_withdrawn_import_is_neither_listed_nor_counted(
    withdrawn: Message, anna: ChatUser, as_viewer: Client
) -> None:
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert "This stays" in page
    assert "This was a mistake" not in page
    assert "1 message<" in page
    assert [count for _month, count in messages_by_month(anna)] == [1]
    holding = holdings([anna])[anna.pk]
    assert (holding.messages, holding.waiting) == (1, 1)
    assert holding.last_message_at == Message.objects.earliest("sent_at").sent_at
    assert "This was a mistake" not in get(as_viewer, f"/memory/{anna.pk}/messages/?q=mistake").split("<main")[1]


def test_withdrawn_messages_can_be_looked_at_and_say_what_they_are(
    withdrawn: Message, anna: ChatUser, as_viewer: Client
) -> None:
    for address in ("?place=withdrawn", f"?at={withdrawn.pk}"):
        page = get(as_viewer, f"/memory/{anna.pk}/messages/{address}").split("<main")[1]
        assert "This was a mistake" in page
        assert "with its import, which the history can bring back" in page
    assert "This stays" not in get(as_viewer, f"/memory/{anna.pk}/messages/?place=withdrawn")
    assert "active session" in get(as_viewer, f"/memory/{anna.pk}/messages/")


@pytest.mark.parametrize(("source", "why"), [("neighbour", "this message no time"), ("counted", "is counted from")])
def test_a_time_that_is_not_the_messages_own_is_marked(
    anna: ChatUser, as_viewer: Client, source: str, why: str
) -> None:
    message_of(anna, "In March")
    topic = topic_of(anna, "vLLM", ["It dies with OOM"])
    Message.objects.filter(topic=topic).update(metadata={"time_source": source})
    assert get(as_viewer, f"/memory/{anna.pk}/messages/").count(why) == 2, "as a tooltip, and read aloud"
    assert get(as_viewer, f"/topics/{topic.pk}/").count(why) == 2


def test_a_word_of_a_file_about_its_times_is_no_mark(anna: ChatUser, as_viewer: Client) -> None:
    message = message_of(anna, "In March")
    for metadata in ({"time_source": "gps"}, {"time_source": ["neighbour"]}):
        Message.objects.filter(pk=message.pk).update(metadata=metadata)
        assert "≈" not in get(as_viewer, f"/memory/{anna.pk}/messages/")


def test_the_bars_of_a_young_memory_do_not_fill_the_page(anna: ChatUser, as_viewer: Client) -> None:
    message_of(anna, "In March")
    page = get(as_viewer, f"/memory/{anna.pk}/")
    assert 'class="months" viewBox="0 0 120 56"' in page
    assert '<p class="months-ends"><span>March 2026</span></p>' in page
    message_of(anna, "A year later", minutes=366 * 1440)
    page = get(as_viewer, f"/memory/{anna.pk}/")
    assert 'viewBox="0 0 130 56"' in page
    assert "<span>March 2026</span><span>March 2027</span>" in page


def test_a_message_runs_in_its_own_direction(anna: ChatUser, as_viewer: Client) -> None:
    """A browser decides by the first letter: Hebrew and Arabic run from the right, also in an English page."""
    message_of(anna, "החתול שלנו אלרגי לעוף.")
    page = get(as_viewer, f"/memory/{anna.pk}/messages/")
    assert re.search(r'<[^>]*dir="auto"[^>]*>\s*(?:<p>)?\s*החתול', page)
    assert re.search(r'<input(?=[^>]*type="search")[^>]*dir="auto"', page)
