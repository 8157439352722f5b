"""Plans: changes of topics that are computed without being made.

Each function reads the memory and returns a ``Change``, which ``swap`` carries out once a person has seen it, or raises
an error with a sentence. Summaries that nobody wrote come from a ``Summarise`` function: by default the first words of
the messages; ``extractive`` takes the most telling sentences instead. It needs vectors, so plan outside of
transactions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from asgiref.sync import async_to_sync, sync_to_async
from django.utils.translation import gettext as _

from memoryapp.curation.bounds import too_many_messages, too_many_topics
from memoryapp.curation.change import (
    MOST_MESSAGES,
    MOST_SUMMARY_CHARS,
    MOST_TOPICS,
    Change,
    CurationError,
    named,
)
from memoryapp.curation.swapping import check_live, check_summary
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.engine.offline.segmenter import segment
from memoryapp.engine.text import summaries as extracts
from memoryapp.engine.text.lines import shortened
from memoryapp.engine.text.titles import plain
from memoryapp.models import ChatUser, Message, Topic, TopicMessage
from memoryapp.reading import content

OPENING_CHARS = 90
_MARKS = re.compile(r"[|*`#>]|-{3,}")

Summarise = Callable[[Sequence[MessageContent]], str]


def opening(messages: Sequence[MessageContent]) -> str:
    """The first words that the user says in the messages, without markup; if the user says nothing, of anybody."""
    by_user = sorted(messages, key=lambda message: message.role != "user")
    text = next((words for message in by_user if (words := _unmarked(message.text))), "")
    if len(text) <= OPENING_CHARS:
        return text or "…"
    return text[:OPENING_CHARS].rsplit(" ", 1)[0] + "…"


def _unmarked(text: str) -> str:
    """Returns the text without the marks of tables, headings, emphasis and code."""
    return plain(_MARKS.sub(" ", text))


def extractive(embedder: Embedder) -> Summarise:
    """Summaries of the most telling sentences; without vectors, of the first words. Do not call them in an
    event loop."""

    return async_to_sync(extracted(embedder))


def extracted(embedder: Embedder, words: Callable[[], extracts.StemFrequencies] | None = None) -> extracts.Summarise:
    """``extractive`` for an event loop. ``words`` are those of the memory, read when they are needed first."""

    async def telling(messages: Sequence[MessageContent]) -> str:
        try:
            return await extracts.summary(messages, embedder, await sync_to_async(words)() if words else None)
        except EmbeddingError:
            return opening(messages)

    return telling


def plan_edit(owner: ChatUser, topic_id: int, summary: str) -> Change:
    """The topic with another summary. Raises CurationError or Stale."""
    topic = _topic(owner, topic_id)
    check_summary(summary)
    if summary.strip() == topic.summary:
        raise CurationError(_("The summary says that already."))
    return Change((topic.pk,), (TopicDraft(summary.strip(), tuple(_listed([topic])[topic.pk])),))


def plan_merge(owner: ChatUser, topic_ids: Iterable[int], summary: str = "") -> Change:
    """One topic made of two or more, which need not be neighbours. Without a summary all summaries are joined, oldest
    first.

    Raises CurationError or Stale.
    """
    ids = list(dict.fromkeys(topic_ids))
    if len(ids) < 2:
        raise CurationError(_("A merge needs at least two different topics."))
    topics = sorted(_topics(owner, ids), key=lambda topic: (topic.started_at, topic.pk))
    listed = _listed(topics)
    messages = tuple(number for topic in topics for number in listed[topic.pk])
    written = summary.strip() or composed_summary([topic.summary for topic in topics])
    check_summary(written)
    return Change(tuple(topic.pk for topic in topics), (TopicDraft(written, messages),))


def plan_split(
    owner: ChatUser,
    topic_id: int,
    at: Iterable[int],
    summaries: Sequence[str] = (),
    *,
    summarise: Summarise = opening,
) -> Change:
    """The topic in parts, each of which begins at one of the messages ``at``.

    Without ``summaries`` the first part keeps the topic's; empty ones are generated.

    Raises CurationError or Stale, and whatever ``summarise`` raises.
    """
    topic = _topic(owner, topic_id)
    parts = _parts(topic, _listed([topic])[topic.pk], set(at))
    if summaries and len(summaries) != len(parts):
        counts = {"parts": len(parts), "summaries": len(summaries)}
        raise CurationError(_("There are %(parts)d parts and %(summaries)d summaries.") % counts)
    written = summaries or [topic.summary, *[""] * (len(parts) - 1)]
    return Change((topic.pk,), tuple(_summarised(owner, parts, written, summarise)))


def plan_move(
    owner: ChatUser,
    message_ids: Iterable[int],
    to: int | None,
    summary: str = "",
    *,
    summarise: Summarise = opening,
) -> Change:
    """The messages, of one or several topics, moved to the topic ``to``, or to a new topic when it is None.

    The topics keep their summaries and their other messages; a topic without any message left is retired. ``summary``
    is that of the new topic. Raises CurationError or Stale, and whatever ``summarise`` raises.
    """
    ids = _movable(message_ids)
    sources = _sources(owner, ids)
    target = None if to is None else _topic(owner, to)
    touched = {topic.pk: topic for topic in [*_topics(owner, sources), *([target] if target else [])]}
    listed = _listed(touched.values())
    moved = [number for numbers in listed.values() for number in numbers if number in ids]
    _check_move(listed, moved, target)
    rest = {pk: tuple(number for number in listed[pk] if number not in ids) for pk in touched}
    drafts = [TopicDraft(topic.summary, rest[pk]) for pk, topic in touched.items() if rest[pk] and topic is not target]
    if target:
        drafts.append(TopicDraft(target.summary, (*rest[target.pk], *moved)))
    else:
        drafts += _summarised(owner, [moved], [summary], summarise)
    return Change(tuple(touched), tuple(drafts))


def plan_resplit(owner: ChatUser, topic_id: int, drafts: Sequence[TopicDraft]) -> Change:
    """The topic replaced by ``drafts``, which hold each of its messages once. Raises CurationError or Stale."""
    topic = _topic(owner, topic_id)
    listed = _listed([topic])[topic.pk]
    covered = sorted(number for draft in drafts for number in draft.messages)
    if covered != sorted(listed):
        raise CurationError(_("The parts do not hold each message of the topic once."))
    _check_count(len(drafts))
    for draft in drafts:
        check_summary(draft.summary)
    if len(drafts) == 1 and drafts[0].summary == topic.summary:
        raise CurationError(_("That leaves the topic as it is."))
    return Change((topic.pk,), tuple(drafts))


def propose_split(owner: ChatUser, topic_id: int, embedder: Embedder, most_chars: int) -> list[TopicDraft]:
    """The drafts into which the embedded segmenter would divide the topic today, in order; one draft if it would not.

    Raises CurationError, Stale or EmbeddingError.
    """
    topic = _topic(owner, topic_id)
    messages = Message.objects.of(owner).filter(topic=topic).in_order()
    return async_to_sync(segment)([content(row) for row in messages], embedder, most_chars)


def _topic(owner: ChatUser, number: int) -> Topic:
    return _topics(owner, [number])[0]


def _topics(owner: ChatUser, ids: Sequence[int]) -> list[Topic]:
    _check_count(len(ids))
    found = Topic.objects.of(owner).in_bulk(list(ids))
    check_live(owner, ids, {pk: topic.is_live for pk, topic in found.items()})
    if sum(topic.message_count for topic in found.values()) > MOST_MESSAGES:
        raise too_many_messages(MOST_MESSAGES)
    return [found[number] for number in ids]


def _check_count(count: int) -> None:
    if count > MOST_TOPICS:
        raise too_many_topics(MOST_TOPICS)


def _listed(topics: Iterable[Topic]) -> dict[int, list[int]]:
    """The messages of each topic, oldest first."""
    listed: dict[int, list[int]] = {topic.pk: [] for topic in topics}
    rows = TopicMessage.objects.filter(topic__in=list(listed)).order_by("message__sent_at", "message")
    for topic, message in rows.values_list("topic", "message"):
        listed[topic].append(message)
    return listed


def composed_summary(summaries: Sequence[str]) -> str:
    """All summaries in one, each once."""
    text = "; ".join(dict.fromkeys(summary.strip().rstrip(".") for summary in summaries if summary.strip()))
    return shortened(text, MOST_SUMMARY_CHARS)


def _parts(topic: Topic, messages: Sequence[int], at: set[int]) -> list[list[int]]:
    if not at:
        raise CurationError(_("Say at which messages new parts begin."))
    strange = sorted(at - set(messages))
    if strange:
        where = {"message": strange[0], "topic": named([topic.pk])}
        raise CurationError(_("Message %(message)d is not in %(topic)s.") % where)
    if messages[0] in at:
        raise CurationError(_("The topic begins with that message, so the part before it would be empty."))
    _check_count(len(at) + 1)
    borders = [0, *(place for place, number in enumerate(messages) if number in at), len(messages)]
    return [list(messages[start:end]) for start, end in pairwise(borders)]


def _summarised(
    owner: ChatUser, parts: Sequence[Sequence[int]], summaries: Sequence[str], summarise: Summarise
) -> list[TopicDraft]:
    silent = [number for part, summary in zip(parts, summaries, strict=True) if not summary.strip() for number in part]
    contents = {row.pk: content(row) for row in Message.objects.of(owner).filter(pk__in=silent)} if silent else {}
    drafts = []
    for part, summary in zip(parts, summaries, strict=True):
        written = summary.strip() or summarise([contents[number] for number in part])
        check_summary(written)
        drafts.append(TopicDraft(written, tuple(part)))
    return drafts


def _movable(message_ids: Iterable[int]) -> set[int]:
    ids = set(message_ids)
    if not ids:
        raise CurationError(_("Say which messages to move."))
    if len(ids) > MOST_MESSAGES:
        raise too_many_messages(MOST_MESSAGES)
    return ids


def _sources(owner: ChatUser, ids: set[int]) -> list[int]:
    """The topics that hold the messages, each once. Raises CurationError for a message that is in no topic."""
    where = dict(Message.objects.of(owner).filter(pk__in=ids).order_by("pk").values_list("pk", "topic"))
    unknown = sorted(ids - set(where))
    if unknown:
        raise CurationError(_("There is no message %(message)d in this memory.") % {"message": unknown[0]})
    loose = next((number for number, topic in where.items() if topic is None), None)
    if loose is not None:
        raise CurationError(_("Message %(message)d is in no topic, so it cannot be moved.") % {"message": loose})
    return list(dict.fromkeys(topic for topic in where.values() if topic is not None))


def _check_move(listed: Mapping[int, Sequence[int]], moved: Sequence[int], target: Topic | None) -> None:
    if target and set(moved) & set(listed[target.pk]):
        raise CurationError(_("Some of these messages are in %(topic)s already.") % {"topic": named([target.pk])})
    if target is None and len(listed) == 1 and len(moved) == sum(map(len, listed.values())):
        raise CurationError(_("These are all messages of the topic: there is nothing to move out of it."))
