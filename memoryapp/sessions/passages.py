"""Keeps the passages of messages: made when messages arrive, kept when they are archived.

A passage belongs to messages, so archiving changes none that lies within one topic, and its vector stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.contrib.postgres.aggregates import ArrayAgg
from django.contrib.postgres.search import SearchVector
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Subquery, TextField, Value

from memoryapp.content.reading import content
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lexical import count_terms, fold
from memoryapp.engine.text.passages import PassageDraft, cut_passages
from memoryapp.models import ChatUser, Message, Passage, PassageMessage
from memoryapp.operations import advisory_locks
from memoryapp.sessions.active import cut, limits

Parts = Sequence[Sequence[MessageContent]]


def bare() -> QuerySet[Message]:
    """The messages of active sessions that are in no passage yet."""
    return Message.objects.active().filter(~Exists(PassageMessage.objects.filter(message=OuterRef("pk"))))


def with_bare() -> QuerySet[ChatUser]:
    """The chat users with ``bare`` messages; those to whom something came last come first."""
    of_owner = bare().filter(owner=OuterRef("pk")).order_by("-pk").values("pk")[:1]
    return ChatUser.objects.annotate(latest=Subquery(of_owner)).filter(latest__isnull=False).order_by("-latest")


def renew(
    owner: ChatUser,
    labels: Collection[str] | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    waits: bool = True,
) -> None:
    """Makes the passages of active sessions with new messages, the latest session first; only in the streams with these
    labels, if given.

    A session is cut as a whole, in a transaction of its own: a reply belongs to the passage of its request. Passages
    that stay the same are kept. After ``until`` said that it is enough, and unless it ``waits``, while another process
    writes messages of this chat user, the rest is left to the next call.
    """
    active = Message.objects.of(owner).active()
    active = active if labels is None else active.filter(session__in=labels)
    new = set(bare().filter(pk__in=active).values_list("pk", flat=True))
    for session in reversed(cut(active, limits(owner)) if new else ()):
        if new & session.ids and (not _renew(owner, session.ids, waits) or until()):
            return


@transaction.atomic
def _renew(owner: ChatUser, ids: Collection[int], waits: bool) -> bool:
    """Whether nobody else holds the lock."""
    if not advisory_locks.acquire_until_commit("messages", owner.pk, waits=waits):
        return False
    messages = [content(row) for row in Message.objects.of(owner).active().filter(pk__in=ids).in_order()]
    if len(messages) < len(ids):
        return True
    known = {(each.text, each.messages): each.id for each in _known(owner, sorted(ids))}
    drafts = [draft for draft in cut_passages(messages) if known.pop(_key(draft), None) is None]
    Passage.objects.filter(pk__in=known.values()).delete()
    _put(owner, drafts)
    note_change(owner)
    return True


def note_change(owner: ChatUser) -> None:
    """Tells searches that the owner's active sessions are not what they were."""
    ChatUser.objects.filter(pk=owner.pk).update(talk=F("talk") + 1)


def _key(draft: PassageDraft) -> tuple[str, frozenset[int]]:
    return draft.text, frozenset(draft.messages)


def settle(owner: ChatUser, parts: Parts) -> None:
    """Makes the passages that are missing over new topics, whose messages are the ``parts``, in order.

    A passage that lies within one part stays as it is; one that lies across parts is made anew in each.
    """
    advisory_locks.acquire_until_commit("messages", owner.pk)
    part_of = {message.id: place for place, part in enumerate(parts) for message in part}
    known = _known(owner, list(part_of))
    within = [each for each in known if len({part_of.get(number) for number in each.messages}) == 1]
    across = {each.id for each in known} - {each.id for each in within}
    Passage.objects.filter(pk__in=across).delete()
    placed = {number for each in within for number in each.messages}
    put_passages(owner, [gap for part in parts for gap in _gaps(part, placed)])


def _gaps(part: Sequence[MessageContent], placed: Collection[int]) -> Iterator[list[MessageContent]]:
    """Runs of consecutive messages that are in no passage."""
    gap: list[MessageContent] = []
    for message in part:
        if message.id not in placed:
            gap.append(message)
        elif gap:
            yield gap
            gap = []
    if gap:
        yield gap


@dataclass(frozen=True, slots=True)
class _Known:
    """A stored passage and its messages."""

    id: int
    text: str
    messages: frozenset[int]


def _known(owner: ChatUser, messages: Sequence[int]) -> list[_Known]:
    """The passages with any of these messages."""
    holding = PassageMessage.objects.filter(owner=owner, message__in=messages).values("passage")
    rows = Passage.objects.filter(pk__in=holding).annotate(numbers=ArrayAgg("passagemessage__message"))
    return [_Known(id, text, frozenset(numbers)) for id, text, numbers in rows.values_list("pk", "text", "numbers")]


def put_passages(owner: ChatUser, parts: Iterable[Sequence[MessageContent]]) -> None:
    """Stores the passages of each of the ``parts``, whose messages are in order; vectors are made later."""
    _put(owner, [draft for part in parts for draft in cut_passages(part)])


def _put(owner: ChatUser, drafts: Sequence[PassageDraft]) -> None:
    passages = Passage.objects.bulk_create(
        Passage(
            owner=owner,
            text=draft.text,
            terms=SearchVector(Value(fold(draft.text), output_field=TextField()), config="russian"),
            term_count=count_terms(draft.text),
        )
        for draft in drafts
    )
    PassageMessage.objects.bulk_create(
        PassageMessage(owner=owner, passage=passage, message_id=number)
        for passage, draft in zip(passages, drafts, strict=True)
        for number in dict.fromkeys(draft.messages)
    )
