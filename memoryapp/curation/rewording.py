"""Changed texts taken over: a new wording comes in the place of the old one, which is withdrawn.

A message's text never changes, so past runs show what they read. A new wording is a message of its own; in which place
it comes stands in its metadata (``REPLACES``, the old one's external id). Taking it over is an edit like any other: the
topic of the old one goes out, the same topic over the new one comes in, and an undo brings the old one back. Passages
over both and their neighbours are handed over along with the topics. What a person decided about is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.db import connection, transaction

from memoryapp.curation.change import Change
from memoryapp.curation.swapping import lock_owner, settled_by_hand, swap
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, ImportBatch, Message, Topic, TopicEdit

REPLACES = "replaces"

PAIRS = """
SELECT old.id, new.id, old.topic_id, new.topic_id, old.is_withdrawn, new.is_withdrawn
FROM memoryapp_message new
JOIN memoryapp_message old ON old.owner_id = new.owner_id AND old.external_id = new.metadata ->> 'replaces'
WHERE new.owner_id = %s AND new.batch_id = %s ORDER BY old.id
"""
# Every message beside one that goes comes into the first passage of the one that takes its place.
HAND_OVER = """
INSERT INTO memoryapp_passagemessage (owner_id, passage_id, message_id)
SELECT DISTINCT gone.owner_id, (SELECT min(passage_id) FROM memoryapp_passagemessage WHERE message_id = pair.come),
    beside.message_id
FROM unnest(%(gone)s::bigint[], %(come)s::bigint[]) AS pair (gone, come)
JOIN memoryapp_passagemessage gone ON gone.message_id = pair.gone
JOIN memoryapp_passagemessage beside ON beside.passage_id = gone.passage_id AND beside.message_id <> ALL(%(gone)s)
ON CONFLICT DO NOTHING
"""
LEAVE = """
DELETE FROM memoryapp_passagemessage beside USING memoryapp_passagemessage gone
WHERE gone.message_id = ANY(%(gone)s) AND beside.passage_id = gone.passage_id AND beside.message_id <> ALL(%(gone)s)
"""
WITH_PASSAGES = "SELECT DISTINCT message_id FROM memoryapp_passagemessage WHERE message_id = ANY(%s)"


class _Pair(NamedTuple):
    """The numbers of two wordings of a message and their topics, null where they are in none."""

    old: int
    new: int
    old_topic: int | None
    new_topic: int | None
    is_old_withdrawn: bool
    is_new_withdrawn: bool


@transaction.atomic
def reword(owner: ChatUser, batch: ImportBatch, *, actor: str) -> TopicEdit | None:
    """Puts the wordings of the batch, which are withdrawn so far, in the places of those they replace.

    None where nothing could be replaced. What was made by hand keeps its old wordings.
    """
    lock_owner(owner)
    pairs = [pair for pair in _pairs(owner.pk, batch.pk) if pair.is_new_withdrawn and not pair.is_old_withdrawn]
    topics = sorted({pair.old_topic for pair in pairs if pair.old_topic})
    settled = set(settled_by_hand(owner.pk, topics))
    taken = {pair.old: pair.new for pair in pairs if pair.old_topic not in settled}
    if not taken:
        return None
    active = [pair.old for pair in pairs if pair.old_topic is None]
    Message.objects.filter(pk__in=taken.values()).update(is_withdrawn=False)
    change = _change(owner, [number for number in topics if number not in settled], taken)
    edit = swap(owner, change, kind=TopicEdit.Kind.REWORD, actor=actor, by_hand=False, batch=batch)
    Message.objects.filter(pk__in=active).update(is_withdrawn=True)
    return edit


def _change(owner: ChatUser, topics: list[int], taken: Mapping[int, int]) -> Change:
    """The same topics with the new wordings."""
    listed: dict[int, list[int]] = {number: [] for number in topics}
    rows = Message.objects.of(owner).filter(topic__in=topics).in_order()
    for topic, number in rows.values_list("topic", "pk"):
        listed[topic].append(taken.get(number, number))
    summaries = dict(Topic.objects.filter(pk__in=topics).values_list("pk", "summary"))
    return Change(tuple(topics), tuple(TopicDraft(summaries[topic], tuple(listed[topic])) for topic in topics))


def turn(owner: ChatUser, batch: ImportBatch, *, is_taken: bool) -> None:
    """After the topics were exchanged by an undo: messages that no topic holds follow, and so do passages.

    A pair of which one was archived meanwhile stays as it is.
    """
    pairs = [_turned(pair, is_taken) for pair in _pairs(owner.pk, batch.pk)]
    free = [pair for pair in pairs if pair.old_topic is None and pair.new_topic is None]
    turning = [pair for pair in free if pair.is_new_withdrawn and not pair.is_old_withdrawn]
    Message.objects.filter(pk__in=[pair.old for pair in turning]).update(is_withdrawn=True)
    Message.objects.filter(pk__in=[pair.new for pair in turning]).update(is_withdrawn=False)
    hand_over((pair.old, pair.new) for pair in pairs if pair.new_topic is not None)


def _turned(pair: _Pair, is_taken: bool) -> _Pair:
    """The pair as one that goes, called old, and one that comes."""
    if is_taken:
        return pair
    old, new, old_topic, new_topic, is_old_withdrawn, is_new_withdrawn = pair
    return _Pair(new, old, new_topic, old_topic, is_new_withdrawn, is_old_withdrawn)


def hand_over(pairs: Iterable[tuple[int, int]]) -> None:
    """The neighbours of the first message of each pair leave its passages for those of the second, if it has any."""
    listed = list(pairs)
    with connection.cursor() as cursor:
        cursor.execute(WITH_PASSAGES, [[come for _gone, come in listed]])
        found = {number for (number,) in cursor.fetchall()}
        kept = [(gone, come) for gone, come in listed if come in found]
        values = {"gone": [gone for gone, _come in kept], "come": [come for _gone, come in kept]}
        cursor.execute(HAND_OVER, values)
        cursor.execute(LEAVE, values)


def wordings(owner: int, messages: Iterable[int]) -> list[int]:
    """The numbers of the messages and of all their other wordings, older and newer ones."""
    with connection.cursor() as cursor:
        cursor.execute(WORDINGS, {"owner": owner, "messages": list(messages)})
        return [number for (number,) in cursor.fetchall()]


WORDINGS = """
WITH RECURSIVE worded AS (
    SELECT id, external_id, metadata ->> 'replaces' AS replaces FROM memoryapp_message
    WHERE owner_id = %(owner)s AND id = ANY(%(messages)s)
    UNION
    SELECT m.id, m.external_id, m.metadata ->> 'replaces' FROM worded JOIN memoryapp_message m
    ON m.owner_id = %(owner)s AND (m.external_id = worded.replaces OR m.metadata ->> 'replaces' = worded.external_id)
)
SELECT id FROM worded ORDER BY id
"""


def _pairs(owner: int, batch: int) -> list[_Pair]:
    with connection.cursor() as cursor:
        cursor.execute(PAIRS, [owner, batch])
        return [_Pair(*row) for row in cursor.fetchall()]
