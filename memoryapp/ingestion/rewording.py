"""Stores changed texts of messages from a file, and replaces the old texts by them in one edit.

The new texts are messages of a batch of their own, which is withdrawn until the edit. So an import that is killed and
repeated takes each text once. Their passages, and those of their neighbours, are made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from django.db import transaction

from memoryapp import curation
from memoryapp.content import chat_users
from memoryapp.content.reading import content
from memoryapp.curation.rewording import REPLACES, hand_over
from memoryapp.engine.memory import MessageContent
from memoryapp.importers.record import MessageRecord
from memoryapp.ingestion.messages import store, wording_id
from memoryapp.models import ChatUser, ImportBatch, Message, PassageMessage, TopicMessage
from memoryapp.operations import advisory_locks
from memoryapp.sessions.passages import put_passages


def keep(owner: ChatUser, batch: ImportBatch, records: Sequence[MessageRecord]) -> None:
    """Stores new texts of messages as withdrawn messages, unless they are known. Raises BeingErased."""
    with transaction.atomic():
        advisory_locks.acquire_until_commit("messages", owner.pk)
        chat_users.check_kept(owner)
        ids = [wording_id(record) for record in records]
        known = set(Message.objects.of(owner).filter(external_id__in=ids).values_list("external_id", flat=True))
        current = _current(owner, [record.external_id for record in records])
        new = {
            wording_id(record): replace(
                record,
                external_id=wording_id(record),
                metadata={
                    **record.metadata,
                    "wording_of": record.external_id,
                    REPLACES: current.get(record.external_id, record.external_id),
                },
            )
            for record in records
            if wording_id(record) not in known
        }
        store(owner, new.values(), batch, is_withdrawn=True)


def _current(owner: ChatUser, ids: Sequence[str]) -> dict[str, str]:
    """Returns the ids of the current texts of messages whose text was replaced before, by the original id."""
    rows = Message.objects.of(owner).filter(is_withdrawn=False, metadata__wording_of__in=ids)
    return dict(rows.values_list("metadata__wording_of", "external_id"))


@transaction.atomic
def take(owner: ChatUser, batch: ImportBatch, *, actor: str) -> int:
    """Replaces the old texts by those of the batch. Returns how many messages have a new text."""
    edit = curation.reword(owner, batch, actor=actor)
    if edit is None:
        return 0
    taken = Message.objects.of(owner).filter(batch=batch, is_withdrawn=False)
    replaced = dict(taken.values_list(f"metadata__{REPLACES}", "pk"))
    olds = dict(Message.objects.of(owner).filter(external_id__in=replaced).values_list("pk", "external_id"))
    pairs = {number: replaced[name] for number, name in olds.items()}
    beside = set(
        PassageMessage.objects.filter(passage__passagemessage__message__in=olds).values_list("message", flat=True)
    )
    put_passages(owner, _parts([topic.pk for topic in curation.put_in(edit)], beside | set(pairs.values())))
    hand_over(pairs.items())
    return len(replaced)


def _parts(topics: Sequence[int], chosen: set[int]) -> Iterator[list[MessageContent]]:
    """Yields runs of consecutive chosen messages of each topic."""
    for topic in topics:
        part: list[MessageContent] = []
        listed = TopicMessage.objects.filter(topic=topic).values("message")
        for row in Message.objects.filter(pk__in=listed).in_order():
            if row.pk in chosen:
                part.append(content(row))
            elif part:
                yield part
                part = []
        if part:
            yield part
