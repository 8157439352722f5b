"""Search within a period, a channel, or the messages of an author."""

from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from memoryapp.curation import plan_split
from memoryapp.curation.topic_writer import swap
from memoryapp.engine.memory import TopicDraft, Where
from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message
from memoryapp.platform import database
from memoryapp.search import retrieval
from memoryapp.search.profiles import profile_row
from memoryapp.search.retrieval import SearchResult, Sizes
from memoryapp.search.similarity import Question
from memoryapp.search.vectors import embed_pending
from tests.search.test_retrieval import Synonyms

pytestmark = pytest.mark.django_db(transaction=True)


def dated_record(number: int, day: str, author: str, text: str, **metadata: str) -> MessageRecord:
    sent_at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return MessageRecord("", f"m{number}", "peer", author, sent_at, text, metadata=metadata)


@pytest.fixture
def topics(anna: ChatUser) -> dict[str, str]:
    """Three posts about one knee, each a topic, by their names."""
    posts = {
        "spring": dated_record(1, "2025-05-01T23:59:59", "Vera", "the knee hurts", channel="Клиника", channel_id="77"),
        "summer": dated_record(2, "2025-07-01T00:00:00", "Boris", "the knee is well", channel="Sport"),
        "autumn": dated_record(3, "2025-10-01T12:00:00", "Vera", "the knee again", chat="Sport"),
    }
    add_messages(anna, list(posts.values()))
    found = {}
    for name, post in posts.items():
        row = Message.objects.of(anna).get(external_id=post.external_id)
        (topic,) = put_topics(anna, [TopicDraft(name, (row.pk,))], actor="test")
        found[f"Topic:{topic.pk}"] = name
    async_to_sync(embed_pending)(Synonyms(), anna)
    return found


def search(owner: ChatUser, where: Where, **sizes: Any) -> SearchResult:
    async def run() -> SearchResult:
        profile = await profile_row(Synonyms.profile)
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, "knee", None, profile.pk, 32, where=where)
            return await retrieval.search(connection, asked, sizes=Sizes(**sizes))

    return async_to_sync(run)()


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (Where(), {"spring", "summer", "autumn"}),
        (Where(since="2025-07-01"), {"summer", "autumn"}),
        (Where(until="2025-05-01"), {"spring"}),
        (Where(since="2025-05-02", until="2025-06-30"), set()),
        (Where(channels=("клиника",)), {"spring"}),
        (Where(channels=("77",)), {"spring"}),
        (Where(channels=("SPORT",)), {"summer", "autumn"}),
        (Where(authors=("vera",)), {"spring", "autumn"}),
        (Where(authors=("Vera", "Boris")), {"spring", "summer", "autumn"}),
        (Where(channels=("Sport",), authors=("Vera",)), {"autumn"}),
        (Where(authors=("' OR true --",)), set()),
    ],
)
def test_only_topics_with_a_message_that_is_let_through_are_found(
    anna: ChatUser, topics: dict[str, str], where: Where, names: set[str]
) -> None:
    found = search(anna, where, passages=9)
    assert {topics[candidate.id] for candidate in found.candidates} == names
    assert {topics[f"Topic:{number}"] for passage in found.best_passages for number in passage.topics} == names
    assert found.passages == len(names)
    assert {topics[id] for id in found.baseline} == names


def test_scores_mean_the_same_with_and_without_a_filter(anna: ChatUser, topics: dict[str, str]) -> None:
    every = {candidate.id: candidate.fused for candidate in search(anna, Where()).candidates}
    some = {candidate.id: candidate.fused for candidate in search(anna, Where(authors=("Vera",))).candidates}
    assert some
    assert some.items() <= every.items()


def test_a_passage_over_two_topics_is_found_for_the_one_with_the_message(anna: ChatUser) -> None:
    add_messages(
        anna,
        [dated_record(1, "2025-05-01", "Vera", "a knee"), dated_record(2, "2025-05-01T00:01", "Boris", "the knee")],
    )
    first, second = Message.objects.of(anna).in_order()
    (whole,) = put_topics(anna, [TopicDraft("both", (first.pk, second.pk))], actor="test")
    swap(anna, plan_split(anna, whole.pk, [second.pk]), kind="split", actor="test")
    second.refresh_from_db()
    found = search(anna, Where(authors=("Boris",)))
    assert [candidate.id for candidate in found.candidates] == [f"Topic:{second.topic_id}"]


LONG = " ".join(f"The knee of Boris was examined {number} times." for number in range(60))


@pytest.mark.parametrize(
    ("where", "lines"),
    [
        (Where(authors=("boris",)), {"Boris: the knee is mine", "Boris: no, a knee is no secret"}),
        (Where(channels=("Sport",)), {"Vera: whose knee is it, the password is sunflower7"}),
        (Where(since="2025-05-02"), {"Boris: no, a knee is no secret"}),
    ],
)
def test_of_a_passage_only_the_permitted_messages_are_read(anna: ChatUser, where: Where, lines: set[str]) -> None:
    """A window over a group's talk holds the messages of several authors, chats and days."""
    posts = [
        dated_record(1, "2025-05-01T10:00", "Vera", "whose knee is it, the password is sunflower7", channel="Sport"),
        dated_record(2, "2025-05-01T10:01", "Boris", "the knee is mine"),
        dated_record(3, "2025-05-02T10:02", "Boris", "no, a knee is no secret"),
    ]
    add_messages(anna, posts)
    rows = list(Message.objects.of(anna).in_order())
    put_topics(anna, [TopicDraft("all", tuple(row.pk for row in rows))], actor="test")
    async_to_sync(embed_pending)(Synonyms(), anna)
    found = search(anna, where, passages=9).best_passages
    assert found
    assert {line for passage in found for line in passage.text.splitlines()} == lines
    assert {number for passage in found for number in passage.messages} == {
        row.pk for row in rows if f"{row.author}: {row.text}" in lines
    }


def test_of_a_long_reply_the_request_of_another_author_is_not_read(anna: ChatUser) -> None:
    posts = [
        MessageRecord("", "m1", "user", "Vera", datetime(2025, 5, 1, tzinfo=UTC), "what about the knee, sunflower7?"),
        MessageRecord("", "m2", "assistant", "Bot", datetime(2025, 5, 1, 0, 5, tzinfo=UTC), LONG),
    ]
    add_messages(anna, posts)
    put_topics(anna, [TopicDraft("all", tuple(Message.objects.of(anna).values_list("pk", flat=True)))], actor="test")
    async_to_sync(embed_pending)(Synonyms(), anna)
    every = search(anna, Where(), passages=9).best_passages
    assert sum("sunflower7" in passage.text for passage in every) > 1
    some = search(anna, Where(authors=("Bot",)), passages=9).best_passages
    assert some
    assert all(passage.text.startswith("Bot: ") and "sunflower7" not in passage.text for passage in some)
    assert max(len(passage.text) for passage in some) < 800
