"""A text that was forwarded, or posted in several chats, is found once."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from asgiref.sync import async_to_sync

from memoryapp.engine.memory import ANYWHERE, TopicDraft, Where
from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message
from memoryapp.platform import database
from memoryapp.search import retrieval
from memoryapp.search.memory_index import IndexCache
from memoryapp.search.retrieval import SearchResult, Sizes, reranked
from memoryapp.search.similarity import Question

pytestmark = pytest.mark.django_db(transaction=True)

POST = "The new server of the library answers twice as fast as the old one did."


def posted(number: int, author: str, text: str, forwarded_from: str = "") -> MessageRecord:
    sent_at = datetime(2026, 3, number, tzinfo=UTC)
    return MessageRecord("", f"m{number}", "peer", author, sent_at, text, forwarded_from=forwarded_from)


@pytest.fixture
def topics(anna: ChatUser) -> dict[str, str]:
    """Makes a topic of each post; returns them by the ids of topics."""
    posts = {
        "forward": posted(1, "Boris", POST, "News"),
        "original": posted(2, "News", POST),
        "again": posted(3, "Vera", f"🚀 {POST.upper()}"),
        "other": posted(4, "Vera", "The old server was sold to the library of the next town."),
    }
    add_messages(anna, list(posts.values()))
    found = {}
    for name, post in posts.items():
        row = Message.objects.of(anna).get(external_id=post.external_id)
        (topic,) = put_topics(anna, [TopicDraft(name, (row.pk,))], actor="test")
        found[f"Topic:{topic.pk}"] = name
    return found


def search(owner: ChatUser, where: Where = ANYWHERE, cache: IndexCache | None = None, **sizes: Any) -> SearchResult:
    async def run() -> SearchResult:
        async with database.pool() as connections, connections.connection() as connection:
            asked = Question(owner.pk, "fast server", None, 0, 512, where=where)
            return await retrieval.search(connection, asked, sizes=Sizes(**sizes), cache=cache)

    return async_to_sync(run)()


def test_a_text_is_shown_once_by_its_original(anna: ChatUser, topics: dict[str, str]) -> None:
    cache = IndexCache()
    for _time in range(2):
        found = search(anna, cache=cache, passages=9)
        assert [topics[candidate.id] for candidate in found.shown] == ["original", "other"]
        assert {topics[each.id] for each in found.candidates if not each.shown} == {"forward", "again"}
        assert [topics[id] for id in found.baseline] == ["original", "other"]
        assert {topics[copy]: topics[original] for copy, original in found.copies.items()} == {
            "forward": "original",
            "again": "original",
        }
        assert [topics[f"Topic:{passage.topics[0]}"] for passage in found.best_passages] == ["original", "other"]


def test_a_copy_takes_no_place_of_another_topic(anna: ChatUser, topics: dict[str, str]) -> None:
    assert [topics[each.id] for each in search(anna, topics=2).shown] == ["original", "other"]


def test_a_forward_is_found_where_a_filter_hides_its_original(anna: ChatUser, topics: dict[str, str]) -> None:
    found = search(anna, Where(authors=("Boris",)))
    assert [topics[candidate.id] for candidate in found.shown] == ["forward"]
    assert not found.copies


def test_a_cross_encoder_brings_no_copy_back(anna: ChatUser, topics: dict[str, str]) -> None:
    found = search(anna)
    again = reranked(found, np.linspace(0.1, 0.9, len(topics)), shown=50)
    assert {topics[candidate.id] for candidate in again.shown} == {"original", "other"}
