"""Counts that lead to lists: quality, usage, and the inbox of one memory."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.curation import plan_edit, put_in, swap
from memoryapp.curation.suggestions.inbox import Waiting, waiting_in
from memoryapp.engine.events import CandidatesFound, RunFinished, RunStarted
from memoryapp.insight.browsing.quality import Quality, qualities
from memoryapp.insight.browsing.usage import usage, worst_runs
from memoryapp.models import (
    Artifact,
    ChatUser,
    Evaluation,
    Finding,
    ImportFile,
    Message,
    Operator,
    Passage,
    PassageMessage,
    Person,
    Run,
    Suggestion,
    Topic,
    UnreadTopic,
    Work,
)
from tests.conftest import candidate, fact_of, signed_in, talk
from tests.support.answering import record
from tests.support.browsing import cost, get, grow, message_of, opened_to, rows, topic_of

NOW = timezone.now()


def _passage(owner: ChatUser, message: Message) -> None:
    passage = Passage.objects.create(owner=owner, text=message.text, terms="x", term_count=1)
    PassageMessage.objects.create(owner=owner, passage=passage, message=message)


@pytest.fixture
def memory(anna: ChatUser) -> list[Topic]:
    """Four topics, of which the last was edited; a foreign summary each way, two equal ones, one recalled."""
    made = [
        topic_of(anna, "Honey cake", ["Какой торт печём?"]),
        topic_of(anna, "Медовик", ["Which cake is it?"], day=40),
        topic_of(anna, "A knee", ["My knee hurts"], day=41),
        topic_of(anna, "Knee", ["And the other"], day=42),
    ]
    edit = swap(anna, plan_edit(anna, made[3].pk, "A knee"), kind="edit", actor="cora")
    for message in Message.objects.of(anna):
        _passage(anna, message)
    message_of(anna, "And the parcel", minutes=99_999)
    run = Run.objects.create(owner=anna, query="cake?", strategy="flash", state="finished")
    found = CandidatesFound((candidate(made[0]),), 1, 0.1)
    record(run, RunStarted("flash", "cake?", {}, "", "", "p"), found, RunFinished((), (), ""))
    for number, until in enumerate((None, NOW - timedelta(days=2), NOW - timedelta(days=30))):
        fact_of(anna, f"{number}", made[0], relation="r", category="c", importance=9, superseded_at=until)
    for mentions in (0, 1, 5):
        Person.objects.create(owner=anna, display_name=f"P{mentions}", mention_count=mentions)
    return [*made[:3], *put_in(edit)]


def test_each_figure_is_the_number_of_rows_of_its_list(
    anna: ChatUser, boris: ChatUser, memory: list[Topic], as_viewer: Client
) -> None:
    topic_of(boris, "A knee", ["Какой торт?"])
    found = qualities([anna, boris], now=timezone.now())[anna.pk]
    assert found == Quality(
        topics=4, equal=2, factless=3, segmented=3, foreign=2, unused=3, messages=5, waiting=1, quiet=1, people=3,
        seldom=2, facts=3, replaced=1,
    )  # fmt: skip
    page = get(as_viewer, f"/memory/{anna.pk}/quality/").split("<main")[1]
    shown = re.findall(
        r'class="quality-figure[^"]*" href="([^"]+)".*?<span class="quality-count num"><b>(\d+)</b>', page
    )
    assert len(shown) == 9
    for address, count in shown:
        if "?" in address:
            listed = get(as_viewer, address.replace("&amp;", "&").partition("#")[0]).split("<main")[1]
            noun = next(noun for noun in ("topic", "person", "fact", "message") if rows(listed, noun))
            assert len(rows(listed, noun)) == int(count), address


def test_a_mixed_talk_has_no_foreign_summary(anna: ChatUser, as_viewer: Client) -> None:
    mixed = topic_of(anna, "vLLM на H100", ["Почему он падает?", "CUDA out of memory", "Что делать?"])
    without = topic_of(anna, "2026-05-01", ["Какой торт?"], day=3)
    for message in Message.objects.of(anna):
        _passage(anna, message)
    page = get(as_viewer, f"/memory/{anna.pk}/topics/?written=foreign")
    assert rows(page, "topic") == []
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/"), "topic") == [without.pk, mixed.pk]


def test_a_summary_in_another_language_of_the_same_letters_is_foreign(anna: ChatUser, as_viewer: Client) -> None:
    english = ["The cake is for you and the children", "I was at the shop and it is shut"]
    german = topic_of(anna, "Der Kuchen ist fertig und wir essen ihn", english)
    topic_of(anna, "The cake is for the children", english, day=1)
    topic_of(anna, "Kuchen", english, day=2)
    topic_of(anna, "Der Ofen ist kaputt und kalt", ["Ok", "H100"], day=3)
    for message in Message.objects.of(anna):
        _passage(anna, message)
    page = get(as_viewer, f"/memory/{anna.pk}/topics/?written=foreign")
    assert rows(page, "topic") == [german.pk]
    assert "other than its messages’" in page
    assert qualities([anna], now=timezone.now())[anna.pk].foreign == 1


def test_all_memories_stand_in_one_table_and_a_stranger_sees_none(
    anna: ChatUser, memory: list[Topic], as_viewer: Client, as_stranger: Client
) -> None:
    address = f"/memory/{anna.pk}/quality/"
    assert f'href="{address}"' in get(as_viewer, "/quality/").split("<main")[1]
    assert f'href="/memory/{anna.pk}/topics/?written=foreign">2<' in get(as_viewer, "/quality/")
    assert address not in get(as_stranger, "/quality/")
    assert as_stranger.get(address).status_code == 404
    assert f'href="{address}"' in get(as_viewer, "/find/?q=duplicates").split("<main")[1]


@pytest.mark.slow
def test_quality_costs_the_same_queries_for_many_rows_and_many_memories(viewer: Operator, anna: ChatUser) -> None:
    client = signed_in(viewer)
    opened_to(viewer, 2)
    few = cost(client, "/quality/"), cost(client, f"/memory/{anna.pk}/quality/")
    opened_to(viewer, 10)
    grow(anna, 300)
    assert (cost(client, "/quality/"), cost(client, f"/memory/{anna.pk}/quality/")) == few


# The usage of the last days' recalls, and which of them need attention.


TODAY = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)


def asked(owner: ChatUser, *, days_ago: float = 0, **columns: object) -> Run:
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash", **{"state": "finished", **columns})
    Run.objects.filter(pk=run.pk).update(created_at=TODAY - timedelta(days=days_ago))
    return run


def test_recalls_are_counted_timed_and_priced(anna: ChatUser, boris: ChatUser) -> None:
    for seconds in (1, 2, 3):
        asked(anna, seconds=seconds, cost_usd=0.5)
    asked(anna, seconds=9, fallback="timeout", days_ago=29)
    asked(anna, seconds=4, fallback="disabled")
    asked(anna, state="running")
    asked(anna, seconds=70, days_ago=31)
    asked(anna, seconds=70, evaluation=Evaluation.objects.create(source="golden"))
    asked(boris, seconds=70)

    found = usage(ChatUser.objects.filter(pk=anna.pk), now=TODAY, zone=UTC)

    assert (found.recalls, found.fallbacks, found.fallback_percent, found.cost_usd) == (6, 1, 17, 1.5)
    assert (found.median_seconds, found.p95_seconds) == pytest.approx((3, 8))
    assert [(day.day.isoformat(), day.recalls, day.fallbacks) for day in found.days if day.recalls] == [
        ("2026-03-02", 1, 1),
        ("2026-03-31", 5, 0),
    ]
    assert len(found.days) == 30


def test_a_day_is_one_of_the_reader(anna: ChatUser) -> None:
    asked(anna, days_ago=0.25)
    tokyo = usage(ChatUser.objects.all(), now=TODAY, zone=ZoneInfo("Asia/Tokyo"))
    honolulu = usage(ChatUser.objects.all(), now=TODAY, zone=ZoneInfo("Pacific/Honolulu"))
    assert [day.day.day for found in (tokyo, honolulu) for day in found.days if day.recalls] == [31, 30]


def test_runs_that_fell_back_come_before_slow_ones(anna: ChatUser) -> None:
    quick, slow = asked(anna, seconds=1), asked(anna, seconds=8)
    fell_back = asked(anna, seconds=2, fallback="llm_error")
    asked(anna, state="running")
    assert list(worst_runs(ChatUser.objects.all(), 9, now=TODAY, zone=UTC)) == [fell_back, slow, quick]


# The inbox: suggestions, findings and failures of one memory, counted once everywhere.


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("Honey cake", ["Which cake keeps?", "A honey cake"]))[0]


def something_of_each(owner: ChatUser, topic: Topic, n: int = 1) -> None:
    """Creates ``n`` suggestions, findings and failures of each kind."""
    now = timezone.now()
    for number in range(n):
        key = f"{topic.pk}-{number}-{Suggestion.objects.count()}"
        Suggestion.objects.create(owner=owner, kind="split", key=key, topics=[topic.pk], evidence={})
        Finding.objects.create(owner=owner, noun="fact", topic=topic, values={"content": f"Keeps {number} days"})
        name = f"broken{key}.pdf"
        Artifact.objects.create(
            owner=owner, name=name, file_type="pdf", sha256=key, state="failed", fault="Unreadable.", created_at=now
        )
        ImportFile.objects.create(owner=owner, source="chat.json", size_bytes=1, state="failed", fault="No chat.")


def test_one_number_counts_everything_that_waits(anna: ChatUser, topic: Topic, as_viewer: Client) -> None:
    something_of_each(anna, topic, 2)
    UnreadTopic.objects.create(owner=anna, topic=topic, state="failed", due_at=timezone.now(), fault="Late.")
    Work.objects.create(owner=anna, kind="archive", state="failed", fault="The model is away.")
    assert waiting_in(anna) == Waiting(suggestions=2, findings=2, failures=6)
    page = get(as_viewer, f"/memory/{anna.pk}/inbox/")
    assert set(re.findall(r'inbox-badge"[^>]*>(\d+)<', page)) == {"10"}
    for words in ("Honey cake", "Keeps 1 days", "Unreadable.", "No chat.", "The model is away.", "Late."):
        assert words in page, words
    assert "Try again" not in page, "a viewer repeats nothing"


def test_a_failure_is_tried_again_from_the_inbox(anna: ChatUser, topic: Topic, as_admin: Client) -> None:
    UnreadTopic.objects.create(owner=anna, topic=topic, state="failed", due_at=timezone.now(), fault="Late.")
    page = get(as_admin, f"/memory/{anna.pk}/inbox/failures/")
    assert f'action="/memory/{anna.pk}/extraction/"' in page
    as_admin.post(f"/memory/{anna.pk}/extraction/", {"topic": topic.pk})
    assert "Nothing has failed" in get(as_admin, f"/memory/{anna.pk}/inbox/failures/")


def test_the_inbox_costs_the_same_however_much_waits(anna: ChatUser, topic: Topic, as_admin: Client) -> None:
    something_of_each(anna, topic, 1)
    few = cost(as_admin, f"/memory/{anna.pk}/inbox/")
    something_of_each(anna, topic, 12)
    assert cost(as_admin, f"/memory/{anna.pk}/inbox/") <= few


def test_several_are_rejected_at_once_and_one_undo_brings_all_back(
    anna: ChatUser, topic: Topic, as_admin: Client, as_viewer: Client
) -> None:
    something_of_each(anna, topic, 3)
    address = f"/memory/{anna.pk}/inbox/"
    sent = {
        "decision": "reject",
        "suggestion": [row.pk for row in Suggestion.objects.all()[:2]],
        "finding": [row.pk for row in Finding.objects.all()[:2]],
    }
    assert as_viewer.post(address, sent).status_code == 403
    assert as_admin.post(address, sent)["Location"] == address
    assert waiting_in(anna) == Waiting(suggestions=1, findings=1, failures=6)
    page = get(as_admin, address)
    assert "4 are rejected and not suggested again" in page
    undo = re.search(rf'action="({address}undo/\?[^"]+)"', page)
    assert undo
    as_admin.post(undo[1].replace("&amp;", "&"))
    assert waiting_in(anna) == Waiting(suggestions=3, findings=3, failures=6)
    assert "4 decisions were taken back." in get(as_admin, address)


def test_ticking_nothing_or_what_is_anothers_decides_nothing(
    anna: ChatUser, boris: ChatUser, topic: Topic, as_admin: Client
) -> None:
    something_of_each(anna, topic)
    others = {"decision": "reject", "finding": [Finding.objects.get().pk, "x", "9" * 30]}
    for sent in ({"decision": "reject"}, others):
        as_admin.post(f"/memory/{boris.pk}/inbox/", sent)
        assert "tick what you mean" in get(as_admin, f"/memory/{boris.pk}/inbox/")
    assert waiting_in(anna) == Waiting(1, 1, 2)
