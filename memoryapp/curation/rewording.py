"""New wordings of messages: a changed text takes the place of the old one, which is withdrawn.

The text of a message never changes, so past runs show what they read. A new wording is a message of its own, whose
metadata names the message it replaces (``REPLACES`` holds the external id of the old one). Replacing is an edit like
any other: the topic over the old message is retired, the same topic over the new message comes in, and an undo reverses
that. Passages over both messages and their neighbours are handed over together with the topics. Topics that a person
decided about are not touched."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.db import transaction

from memoryapp.curation.change import Change
from memoryapp.curation.topic_writer import lock_owner, settled_by_hand, swap
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, ImportBatch, Message, Topic, TopicEdit
from memoryapp.platform.statements import execute, fetched

REPLACES = "replaces"

_SQL = table_beside(__file__)
PAIRS: str = _SQL["pairs"]
HAND_OVER: str = _SQL["hand_over"]
LEAVE: str = _SQL["leave"]
WITH_PASSAGES = "SELECT DISTINCT message_id FROM memoryapp_passagemessage WHERE message_id = ANY(%s)"


class _Pair(NamedTuple):
    """The numbers of two wordings of one message, and of their topics; null when a wording is in no topic."""

    old: int
    new: int
    old_topic: int | None
    new_topic: int | None
    is_old_withdrawn: bool
    is_new_withdrawn: bool


@transaction.atomic
def reword(owner: ChatUser, batch: ImportBatch, *, actor: str) -> TopicEdit | None:
    """Replaces the old wordings by those of the batch, which are withdrawn until then. Returns None when nothing could
    be replaced. Topics made by hand keep the old wordings."""
    lock_owner(owner)
    pairs = [pair for pair in _pairs(owner.pk, batch.pk) if pair.is_new_withdrawn and not pair.is_old_withdrawn]
    topics = sorted({pair.old_topic for pair in pairs if pair.old_topic})
    settled = set(settled_by_hand(owner.pk, topics))
    taken = {pair.old: pair.new for pair in pairs if pair.old_topic not in settled}
    if not taken:
        return None
    active = [pair.old for pair in pairs if pair.old_topic is None]
    # A new wording belongs where the old one does.
    projects = dict(Message.objects.filter(pk__in=taken).values_list("pk", "project"))
    for project in set(projects.values()):
        ours = [new for old, new in taken.items() if projects[old] == project]
        Message.objects.filter(pk__in=ours).update(is_withdrawn=False, project=project)
    change = _change(owner, [number for number in topics if number not in settled], taken)
    edit = swap(owner, change, kind=TopicEdit.Kind.REWORD, actor=actor, by_hand=False, batch=batch)
    Message.objects.filter(pk__in=active).update(is_withdrawn=True)
    return edit


def _change(owner: ChatUser, topics: list[int], taken: Mapping[int, int]) -> Change:
    """The same topics over the new wordings."""
    listed: dict[int, list[int]] = {number: [] for number in topics}
    rows = Message.objects.of(owner).filter(topic__in=topics).in_order()
    for topic, number in rows.values_list("topic", "pk"):
        listed[topic].append(taken.get(number, number))
    summaries = dict(Topic.objects.filter(pk__in=topics).values_list("pk", "summary"))
    return Change(tuple(topics), tuple(TopicDraft(summaries[topic], tuple(listed[topic])) for topic in topics))


def turn(owner: ChatUser, batch: ImportBatch, *, is_taken: bool) -> None:
    """After an undo exchanged the topics: does the same for messages that no topic holds, and for passages. A pair
    stays as it is if one of its messages was archived meanwhile."""
    pairs = [_turned(pair, is_taken) for pair in _pairs(owner.pk, batch.pk)]
    free = [pair for pair in pairs if pair.old_topic is None and pair.new_topic is None]
    turning = [pair for pair in free if pair.is_new_withdrawn and not pair.is_old_withdrawn]
    Message.objects.filter(pk__in=[pair.old for pair in turning]).update(is_withdrawn=True)
    Message.objects.filter(pk__in=[pair.new for pair in turning]).update(is_withdrawn=False)
    hand_over((pair.old, pair.new) for pair in pairs if pair.new_topic is not None)


def _turned(pair: _Pair, is_taken: bool) -> _Pair:
    """The pair with its roles exchanged: the message that goes is called old."""
    if is_taken:
        return pair
    old, new, old_topic, new_topic, is_old_withdrawn, is_new_withdrawn = pair
    return _Pair(new, old, new_topic, old_topic, is_new_withdrawn, is_old_withdrawn)


def hand_over(pairs: Iterable[tuple[int, int]]) -> None:
    """In each pair, the neighbours of the first message leave its passages and join those of the second, if any."""
    listed = list(pairs)
    found = {number for (number,) in fetched(WITH_PASSAGES, [[come for _gone, come in listed]])}
    kept = [(gone, come) for gone, come in listed if come in found]
    values = {"gone": [gone for gone, _come in kept], "come": [come for _gone, come in kept]}
    execute(HAND_OVER, values)
    execute(LEAVE, values)


def wordings(owner: int, messages: Iterable[int]) -> list[int]:
    """The given messages and all their other wordings, older and newer, by number."""
    return [number for (number,) in fetched(WORDINGS, {"owner": owner, "messages": list(messages)})]


WORDINGS: str = _SQL["wordings"]


def _pairs(owner: int, batch: int) -> list[_Pair]:
    return [_Pair(*row) for row in fetched(PAIRS, [owner, batch])]
