"""Stores findings: as waiting, or as confirmed in the archivist's name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from memoryapp.curation.extraction.evidence import TopicEvidence
from memoryapp.engine.agents import archivist
from memoryapp.models import AgentCall, ChatUser, Finding, FindingMessage, KnowledgeEdit, Message, Topic
from memoryapp.platform import metrics
from memoryapp.platform.webhooks.announcing import announce_waiting

# Finds what people decided about facts and people, because the archivist must not change it.
#
# A change was made by the machine if its actor is the archivist and it names the call that it carries out. Every
# other change was made or confirmed by a person, or by a program on a person's behalf.

ARCHIVIST = archivist.AGENT.name
BY_MACHINE = Q(actor=ARCHIVIST, call__isnull=False)


def is_machine_made(owner: ChatUser, noun: str, number: int) -> bool:
    """Whether the archivist made the row and only the archivist changed it since."""
    changes = KnowledgeEdit.objects.filter(owner=owner, noun=noun, after__has_key=str(number))
    return changes.filter(BY_MACHINE).exists() and not changes.exclude(BY_MACHINE).exists()


def withdrawn(owner: ChatUser, noun: str) -> Iterator[tuple[int, dict[str, Any], dict[str, Any] | None]]:
    """Yields a row's number, the values that a person removed, and the new values, None if the row was deleted."""
    changes: QuerySet[KnowledgeEdit] = KnowledgeEdit.objects.filter(owner=owner, noun=noun).exclude(BY_MACHINE)
    for before, after in changes.values_list("before", "after").iterator():
        for number, values in before.items():
            if values:
                yield int(number), values, after.get(number)


def rejected(owner: ChatUser, noun: str) -> QuerySet[Finding]:
    return Finding.objects.filter(owner=owner, noun=noun, state=Finding.State.REJECTED)


def reworded(owner: ChatUser, noun: str) -> QuerySet[Finding]:
    """Findings that a person confirmed, and whose words that person may have changed."""
    decided = Finding.objects.filter(owner=owner, noun=noun, state=Finding.State.CONFIRMED)
    return decided.exclude(decided_by=ARCHIVIST)


@dataclass(frozen=True, slots=True)
class Reading:
    """A topic that the archivist reads, and the call that returned its findings. ``evidence`` contains its messages. If
    ``is_automatic``, findings are used without a person."""

    owner: ChatUser
    topic: Topic
    call: AgentCall
    is_automatic: bool
    evidence: TopicEvidence

    def may_use_fact(self, values: Mapping[str, Any], messages: Iterable[int]) -> bool:
        """Whether a fact is used without a person."""
        return self.is_automatic and not self.evidence.doubt_about_fact(values, messages)[0]

    def may_use_person(self, values: Mapping[str, Any], messages: Iterable[int], known_as: Sequence[str] = ()) -> bool:
        """Whether a person, or what is added to one who is ``known_as`` these names, is used without asking."""
        return self.is_automatic and not self.evidence.doubt_about_person(values, messages, known_as)[0]

    def latest(self, messages: Iterable[int]) -> datetime:
        known = self.evidence.messages
        return max((known[number].sent_at for number in messages if number in known), default=self.topic.ended_at)


def put_waiting(
    reading: Reading, noun: str, values: Mapping[str, Any], messages: Iterable[int], **more: Any
) -> Finding:
    """Stores a finding that a person must decide about; ``more`` contains further fields, such as ``target``."""
    announce_waiting(reading.owner.pk)
    return _put(reading, noun, messages, values=dict(values), **more)


def put_confirmed(
    reading: Reading, noun: str, row: int, messages: Iterable[int], edit: KnowledgeEdit | None = None, **more: Any
) -> Finding:
    """Stores a finding that is in the memory, either by this ``edit`` or because it was known before."""
    decided = {"state": Finding.State.CONFIRMED, "decided_by": ARCHIVIST, "decided_at": timezone.now()}
    return _put(reading, noun, messages, row=row, edit=edit, **decided, **more)


def _put(reading: Reading, noun: str, messages: Iterable[int], **fields: Any) -> Finding:
    made = Finding.objects.create(owner=reading.owner, noun=noun, topic=reading.topic, call=reading.call, **fields)
    add_messages(made, messages)
    outcome = "waiting" if made.state == Finding.State.WAITING else "used" if made.edit_id else "known"
    transaction.on_commit(partial(metrics.found, noun, outcome, made.owner_id))
    return made


def add_messages(finding: Finding, messages: Iterable[int]) -> None:
    FindingMessage.objects.bulk_create(
        [FindingMessage(owner_id=finding.owner_id, finding=finding, message_id=number) for number in messages],
        ignore_conflicts=True,
    )


def last_time(finding: Finding) -> datetime:
    """The time of the latest message of the finding, or the time at which it was found."""
    last = Message.objects.filter(findingmessage__finding=finding).aggregate(at=Max("sent_at"))["at"]
    return last or finding.found_at
