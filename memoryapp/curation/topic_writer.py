"""The only place that writes topics: some are retired, others come in, over the same messages.

One short transaction, in which no model is called. Changes of one owner's topics wait for each other. What a change was
planned on is checked again before anything is written, so of two people who change the same topics the second gets an
error. Triggers in the database check once more that every message stays in one topic, whoever writes."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync, sync_to_async
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Length
from django.utils.translation import gettext as _

from memoryapp.curation.change import (
    MOST_REASON_CHARS,
    MOST_SUMMARY_CHARS,
    ByHand,
    Change,
    CurationError,
    Stale,
    check_one_project,
    named,
    too_long_a_summary,
)
from memoryapp.curation.lineage import successors
from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.engine.text import summaries as extracts
from memoryapp.engine.text.scripts import beginning
from memoryapp.engine.text.summaries import plain
from memoryapp.models import AgentCall, ChatUser, EditedTopic, ImportBatch, Message, RecallMode, Topic, TopicEdit
from memoryapp.platform import database, metrics
from memoryapp.platform.statements import execute, fetched

# What is known of a topic beside its content.
_MARKED = ("locked_by_hand", "is_consolidated", "consolidation_checked", "facts_extracted")
_SQL = table_beside(__file__)
TURN: str = _SQL["turn"]
LIST: str = _SQL["list"]
POINT: str = _SQL["point"]
# What follows a topic into its project, in this order.
LABELLED: tuple[str, ...] = tuple(_SQL["labelled"].values())
SETTLED: str = _SQL["settled"]


class _SwappedMessage(NamedTuple):
    """The columns of a message that a topic needs; ``size`` is in characters, ``topic`` the one that it leaves."""

    id: int
    sent_at: datetime
    size: int
    topic: int | None
    project: str


@transaction.atomic
def swap(
    owner: ChatUser,
    change: Change,
    *,
    kind: TopicEdit.Kind,
    actor: str,
    reason: str = "",
    by_hand: bool = True,
    batch: ImportBatch | None = None,
    call: AgentCall | None = None,
) -> TopicEdit:
    """Makes the change. ``put_in`` of the result returns the new topics, in the order of the drafts.

    ``by_hand`` means that a person made the change; automatic changes then leave its topics alone. An archive retires
    nothing and takes messages that are in no topic. Messages that are left over are withdrawn: with ``batch`` those of
    that import, without one those that a rule sets aside; for a rewording the import's come in, and the replaced ones
    are left over. ``call`` is the agent's question whose answer is carried out. Raises Stale when a topic or message is
    no longer where the change expects it, ByHand when an automatic change would overrule a person, CurationError when a
    message would be lost or in two topics."""
    _check_drafts(change, by_hand)
    lock_owner(owner)
    lock_live(owner, change.out)
    if not by_hand:
        settled = settled_by_hand(owner.pk, change.out) if change.out else ()
        if settled:
            sentence = _("%(topics)s was edited by hand; only a person can change it.")
            raise ByHand(sentence % {"topics": named(settled)}, settled)
    messages = _locked_messages(owner, change, kind)
    are_all = kind == TopicEdit.Kind.REWORD or (kind == TopicEdit.Kind.WITHDRAW and batch is None)
    _check_partition(change, messages, kind, set(messages) if are_all else _of_batch(messages, batch))
    replaced = Topic.objects.of(owner).only("recall", *_MARKED).in_bulk(list(change.out))
    marks = {
        "locked_by_hand": by_hand,
        "is_consolidated": kind == TopicEdit.Kind.MERGE,
        # Facts and people were extracted from all these topics, so their messages need not be read again.
        "facts_extracted": bool(replaced) and all(topic.facts_extracted for topic in replaced.values()),
    }
    recalls = {number: topic.recall for number, topic in replaced.items()}
    topics = _insert(owner, change, messages, marks, recalls)
    if change.project is not None:
        # Each takes the place of one topic, and is as that one is.
        for made, number in zip(topics, change.out, strict=True):
            Topic.objects.filter(pk=made.pk).update(**{name: getattr(replaced[number], name) for name in _MARKED})
    if kind == TopicEdit.Kind.MERGE:
        transaction.on_commit(lambda: metrics.merged(len(change.out), owner.pk))
    edit = TopicEdit(owner=owner, kind=kind, actor=actor, reason=reason, batch=batch, call=call)
    return exchange(edit, change.out, [topic.pk for topic in topics])


def put_in(edit: TopicEdit) -> list[Topic]:
    return _on_side(edit, EditedTopic.Side.IN)


def taken_out(edit: TopicEdit) -> list[Topic]:
    return _on_side(edit, EditedTopic.Side.OUT)


def first_taken_out(edit: TopicEdit) -> Topic | None:
    """The topic that the change named first: of a move the one that its messages came from. None for an archive."""
    named_first = EditedTopic.objects.filter(owner=edit.owner_id, edit=edit, side=EditedTopic.Side.OUT).order_by("pk")
    return Topic.objects.filter(pk__in=named_first.values("topic")[:1]).first()


def settled_by_hand(owner_id: int, ids: Collection[int]) -> tuple[int, ...]:
    """Those of ``ids`` that a person made or brought back: automatic runs suggest changes of them, but make none."""
    return tuple(number for (number,) in fetched(SETTLED, [owner_id, list(ids)]))


def lock_owner(owner: ChatUser) -> None:
    """Waits until nobody else changes the owner's topics, and keeps others from doing so until the transaction ends."""
    database.acquire_until_commit("topics", owner.pk)


def lock_live(owner: ChatUser, ids: Collection[int]) -> None:
    """Locks the rows of the topics, in the order that all processes use. Raises CurationError or Stale."""
    if not ids:
        return
    rows = Topic.objects.of(owner).filter(pk__in=ids).order_by("pk").select_for_update(no_key=True)
    check_live(owner, ids, dict(rows.values_list("pk", "is_live")))


def check_live(owner: ChatUser, ids: Collection[int], found: Mapping[int, bool]) -> None:
    """Checks that all exist and are live; ``found`` says so of those that exist. Raises CurationError or Stale."""
    unknown = [number for number in ids if number not in found]
    if unknown:
        raise CurationError(_("There is no topic %(topics)s in this memory.") % {"topics": named(unknown)})
    retired = [number for number in ids if not found[number]]
    if retired:
        now = successors(owner.pk, retired)
        sentence = _("Somebody changed this meanwhile: %(topics)s is retired.") % {"topics": named(retired)}
        holders = list(dict.fromkeys(live for number in retired for live in now.get(number, ())))
        if holders:
            sentence += " " + _("Its messages are in %(topics)s now.") % {"topics": named(holders)}
        raise Stale(sentence, now)


def exchange(edit: TopicEdit, out: Sequence[int], put: Sequence[int]) -> TopicEdit:
    """Retires ``out``, makes ``put`` live, points the messages at them, and stores ``edit``. Only ``swap`` and undo may
    call it: in a transaction, after ``lock_owner`` and all checks."""
    values: dict[str, Any] = {"owner": edit.owner_id, "out": list(out), "put": list(put)}
    execute(TURN, values)
    execute(POINT, values)
    if edit.kind in (TopicEdit.Kind.LABEL, TopicEdit.Kind.UNDO):
        _label(edit, values)
    if edit.batch_id or edit.kind == TopicEdit.Kind.WITHDRAW:
        left = Message.objects.of(edit.owner_id).filter(topic__in=out)
        left.update(topic=None, is_withdrawn=True)
    _store(edit, out, put)
    return edit


def _label(edit: TopicEdit, values: Mapping[str, Any]) -> None:
    """Gives what the topics hold their label. Raises Stale for the undo of another edit: since that one, the messages
    were given to another project."""
    first: TopicEdit | None = edit
    while first and first.undoes_id:
        first = first.undoes
    if first and first.kind != TopicEdit.Kind.LABEL:
        held = Message.objects.of(edit.owner_id).filter(topic__in=values["put"])
        if held.exclude(project=F("topic__project")).exists():
            raise Stale(_("Their messages were given to another project since. Give them back first."))
        return
    try:
        with transaction.atomic():
            for statement in LABELLED:
                execute(statement, values)
    except IntegrityError as error:
        sentence = _("The project has a fact or a file of these topics already. Delete one of the two first.")
        raise CurationError(sentence) from error


def _store(edit: TopicEdit, out: Sequence[int], put: Sequence[int]) -> None:
    if len(edit.reason) > MOST_REASON_CHARS:
        raise CurationError(_("The reason is too long."))
    edit.save(force_insert=True)
    sides = [(EditedTopic.Side.OUT, out), (EditedTopic.Side.IN, put)]
    EditedTopic.objects.bulk_create(
        EditedTopic(owner_id=edit.owner_id, edit=edit, topic_id=number, side=side)
        for side, numbers in sides
        for number in numbers
    )


def _check_drafts(change: Change, by_hand: bool) -> None:
    ids = _ids(change)
    if not all(draft.messages for draft in change.put):
        raise CurationError(_("A topic would hold no message."))
    if len(ids) != len(set(ids)):
        raise CurationError(_("Two topics would hold the same message."))
    if by_hand:
        for draft in change.put:
            check_summary(draft.summary)


def check_summary(summary: str) -> None:
    """Raises CurationError for a summary that is empty or too long."""
    if not summary.strip():
        raise CurationError(_("A topic needs a summary."))
    if len(summary) > MOST_SUMMARY_CHARS:
        raise too_long_a_summary(len(summary), MOST_SUMMARY_CHARS)


def _locked_messages(owner: ChatUser, change: Change, kind: TopicEdit.Kind) -> dict[int, _SwappedMessage]:
    """The messages of the change, locked until the transaction ends."""
    rows = Message.objects.of(owner)
    if kind == TopicEdit.Kind.ARCHIVE:
        rows = rows.active().filter(pk__in=_ids(change))
    elif kind == TopicEdit.Kind.REWORD:
        rows = rows.filter(Q(topic__in=change.out) | Q(pk__in=_ids(change), topic__isnull=True, is_withdrawn=False))
    else:
        rows = rows.filter(topic__in=change.out)
    columns = ("pk", "sent_at", Length("text"), "topic_id", "project")
    locked = rows.order_by("pk").select_for_update(no_key=True).values_list(*columns)
    return {row[0]: _SwappedMessage(*row) for row in locked}


def _ids(change: Change) -> list[int]:
    return [number for draft in change.put for number in draft.messages]


def _of_batch(messages: Mapping[int, _SwappedMessage], batch: ImportBatch | None) -> set[int]:
    if batch is None:
        return set()
    return set(Message.objects.filter(pk__in=list(messages), batch=batch).values_list("pk", flat=True))


def _check_partition(
    change: Change, messages: Mapping[int, _SwappedMessage], kind: TopicEdit.Kind, spare: set[int]
) -> None:
    ids = set(_ids(change))
    if kind == TopicEdit.Kind.ARCHIVE:
        if ids != set(messages):
            raise Stale(_("Some of these messages are in a topic already."))
    elif ids - set(messages):
        raise CurationError(_("A topic would get a message that is in none of the replaced topics."))
    elif set(messages) - ids - spare:
        raise CurationError(_("A message of the replaced topics would be in no topic."))


def _insert(
    owner: ChatUser,
    change: Change,
    messages: Mapping[int, _SwappedMessage],
    marks: Mapping[str, bool],
    recalls: Mapping[int, str],
) -> list[Topic]:
    """Inserts the drafts; ``marks`` are column values of all, ``recalls`` how the retired topics were recalled."""
    parts = [[messages[number] for number in draft.messages] for draft in change.put]
    topics = Topic.objects.bulk_create(
        _topic(owner, draft, part, {**marks, "recall": _inherited(recalls, part)}, change.project)
        for draft, part in zip(change.put, parts, strict=True)
    )
    listed = [(topic.pk, row.id) for topic, part in zip(topics, parts, strict=True) for row in part]
    execute(LIST, [owner.pk, [topic for topic, _row in listed], [row for _topic, row in listed]])
    return topics


def _inherited(recalls: Mapping[int, str], part: Sequence[_SwappedMessage]) -> str:
    """How a new topic is recalled: as most of its messages were, which came from replaced topics. Of two equally many,
    those that are never recalled decide."""
    counts = Counter(recalls[row.topic] for row in part if row.topic is not None and row.topic in recalls)
    return max(counts, key=lambda recall: (counts[recall], recall == RecallMode.NEVER), default="")


def _topic(
    owner: ChatUser, draft: TopicDraft, part: Sequence[_SwappedMessage], marks: Mapping[str, Any], project: str | None
) -> Topic:
    check_one_project(row.project for row in part)
    return Topic(
        owner=owner,
        summary=draft.summary.strip(),
        project=part[0].project if project is None else project,
        started_at=min(row.sent_at for row in part),
        ended_at=max(row.sent_at for row in part),
        message_count=len(part),
        size_chars=sum(row.size for row in part),
        **marks,
    )


def _on_side(edit: TopicEdit, side: EditedTopic.Side) -> list[Topic]:
    topics = Topic.objects.filter(owner=edit.owner_id, editedtopic__edit=edit, editedtopic__side=side)
    return list(topics.order_by("pk"))


# Summaries that nobody wrote: by default the first words of the messages, or their most telling sentences.
#
# Those need vectors, so plan with ``extractive`` outside of transactions.

OPENING_CHARS = 90
_MARKS = re.compile(r"[|*`#>]|-{3,}")

Summarise = Callable[[Sequence[MessageContent]], str]


def opening(messages: Sequence[MessageContent]) -> str:
    """The first words that the user says in the messages, without markup; if the user says nothing, of anybody."""
    by_user = sorted(messages, key=lambda message: message.role != "user")
    text = next((words for message in by_user if (words := plain(_MARKS.sub(" ", message.text)))), "")
    if len(text) <= OPENING_CHARS:
        return text or "…"
    return beginning(text, OPENING_CHARS) + "…"


def extractive(embedder: Embedder) -> Summarise:
    """Summaries of the most telling sentences; without vectors, of the first words. Not for an event loop."""

    return async_to_sync(extracted(embedder))


def extracted(embedder: Embedder, words: Callable[[], extracts.StemFrequencies] | None = None) -> extracts.Summarise:
    """``extractive`` for an event loop. ``words`` are those of the memory, read when they are needed first."""

    async def telling(messages: Sequence[MessageContent]) -> str:
        try:
            return await extracts.summary(messages, embedder, await sync_to_async(words)() if words else None)
        except EmbeddingError:
            return opening(messages)

    return telling
