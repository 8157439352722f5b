"""What operations read of a memory, and the bounds that all of them keep. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memoryapp.content.reading import content
from memoryapp.curation.bounds import too_many_messages, too_many_topics
from memoryapp.curation.change import MOST_MESSAGES, MOST_TOPICS
from memoryapp.curation.summarising import Summarise
from memoryapp.curation.swapping import check_live, check_summary
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, Message, Topic, TopicMessage


def live_topic(owner: ChatUser, number: int) -> Topic:
    """Raises CurationError or Stale."""
    return live_topics(owner, [number])[0]


def live_topics(owner: ChatUser, ids: Sequence[int]) -> list[Topic]:
    """The topics in the order of ``ids``. Raises CurationError, also where they are too many or too large, or Stale."""
    check_count(len(ids))
    found = Topic.objects.of(owner).in_bulk(list(ids))
    check_live(owner, ids, {pk: topic.is_live for pk, topic in found.items()})
    if sum(topic.message_count for topic in found.values()) > MOST_MESSAGES:
        raise too_many_messages(MOST_MESSAGES)
    return [found[number] for number in ids]


def check_count(count: int) -> None:
    """Raises CurationError for more topics than one change may concern."""
    if count > MOST_TOPICS:
        raise too_many_topics(MOST_TOPICS)


def messages_by_topic(topics: Iterable[Topic]) -> dict[int, list[int]]:
    """The messages of each topic, oldest first."""
    listed: dict[int, list[int]] = {topic.pk: [] for topic in topics}
    rows = TopicMessage.objects.filter(topic__in=list(listed)).order_by("message__sent_at", "message")
    for topic, message in rows.values_list("topic", "message"):
        listed[topic].append(message)
    return listed


def drafts(
    owner: ChatUser, parts: Sequence[Sequence[int]], summaries: Sequence[str], summarise: Summarise
) -> list[TopicDraft]:
    """A draft for each part, by its messages; an empty summary is generated. Raises CurationError."""
    silent = [number for part, summary in zip(parts, summaries, strict=True) if not summary.strip() for number in part]
    contents = {row.pk: content(row) for row in Message.objects.of(owner).filter(pk__in=silent)} if silent else {}
    made = []
    for part, summary in zip(parts, summaries, strict=True):
        written = summary.strip() or summarise([contents[number] for number in part])
        check_summary(written)
        made.append(TopicDraft(written, tuple(part)))
    return made
