"""Masks what is in a memory already, and takes masks back.

In: a chat user whose policies say what must not be stored. Out: a receipt, which the worker carries to its end as it
does an erasure: the messages, their passages, and everything that quotes what was masked, in any table of the owner. A
masked message has nothing left to find, so the work may be killed at any moment and repeated. What was made of a
message that a person restores keeps its masks.

A message that is there already may be in topics, so it is masked where a new one would be held.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from memoryapp import models
from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.guard import MASKS, spots
from memoryapp.erasure.chat_user import deleted
from memoryapp.erasure.conversations import redact_rows, rows_of
from memoryapp.erasure.cutting import lock, name_erasure, remake_passages
from memoryapp.erasure.texts import strings
from memoryapp.memory import guard
from memoryapp.memory.content import erased
from memoryapp.memory.sessions import note_change, renew
from memoryapp.models import ChatUser, Erasure, GuardKind, GuardSpot, Message, UnmaskedText
from memoryapp.platform.statements import execute

AT_ONCE = 500
SIZES: str = table_beside(__file__)["sizes"]
# Messages and their passages are masked by their own texts.
_APART = (Message, UnmaskedText, GuardSpot, models.Passage)
State = GuardSpot.State


def ask(owner: ChatUser, actor: str) -> Erasure:
    """Asks the worker to look through a memory under its policies; while it does, the same receipt."""
    asked = Erasure.objects.filter(owner_number=owner.pk, kind=Erasure.Kind.MASK, cut_at__isnull=True).first()
    return asked or Erasure.objects.create(owner_number=owner.pk, kind=Erasure.Kind.MASK, actor=actor)


def go_on(receipt: Erasure) -> None:
    """Carries a receipt of masks to its end; one that has ended looks again at what was written meanwhile."""
    owner, last = ChatUser.objects.filter(pk=receipt.owner_number).first(), 0
    if owner is None or receipt.ended_at is not None:
        receipt.looked_again_at = timezone.now()
    if owner is not None:
        while receipt.cut_at is None and (numbers := list(_unkept(owner).filter(pk__gt=last)[:AT_ONCE])):
            _look_at(receipt, owner, numbers)
            last = numbers[-1]
        receipt.cut_at = receipt.cut_at or timezone.now()
        receipt.redacted = dict(Counter(receipt.redacted) + _redact(receipt, owner))
    receipt.ended_at = receipt.ended_at or timezone.now()
    receipt.save(update_fields=["cut_at", "ended_at", "looked_again_at", "redacted"])


def _unkept(owner: ChatUser) -> QuerySet[Message, int]:
    """The numbers of messages that the guard may change: not those that a person keeps as they are."""
    kept = GuardSpot.objects.filter(owner=owner, state=State.KEPT).values("message")
    return Message.objects.of(owner).present().exclude(pk__in=kept).order_by("pk").values_list("pk", flat=True)


@transaction.atomic
def _look_at(receipt: Erasure, owner: ChatUser, numbers: Sequence[int]) -> None:
    lock(owner)
    name_erasure(receipt)
    owner.refresh_from_db(fields=["guard"])
    chosen = guard.policies(owner, holds=False)
    GuardSpot.objects.filter(message__in=numbers, state=State.MARKED).delete()
    rows = Message.objects.of(owner).filter(pk__in=_unkept(owner).filter(pk__in=numbers))
    looked = [(row, each) for row in rows if (each := guard.verdict(row.text, row.metadata, chosen))]
    guard.note(looked)
    changed = [row for row, each in looked if each.state == State.MASKED]
    for row, each in looked:
        row.text, row.metadata = each.text, each.metadata
    _write(owner, changed)
    receipt.redacted = dict(Counter(receipt.redacted) + Counter({Message._meta.db_table: len(changed)}))
    receipt.save(update_fields=["redacted"])


def _write(owner: ChatUser, changed: Sequence[Message]) -> None:
    """Stores new texts of messages, with passages and sizes of topics; for a transaction that names a receipt."""
    numbers = [message.pk for message in changed]
    if numbers:
        Message.objects.bulk_update(changed, ["text", "metadata"], batch_size=AT_ONCE)
        execute(SIZES, {"owner": owner.pk, "messages": numbers})
        remake_passages(owner, numbers)
        note_change(owner)
        transaction.on_commit(lambda: erased.send(ChatUser, number=owner.pk))


class _Quoted:
    """What the masks of a memory hide, each with its mask; a number also without its blanks."""

    def __init__(self, owner: ChatUser) -> None:
        kinds, masks = defaultdict[int, set[str]](set), dict[str, str]()
        hidden = GuardSpot.objects.filter(owner=owner).exclude(state=State.MARKED)
        for number, kind in hidden.values_list("message", "kind"):
            kinds[number].add(kind)
        for row in UnmaskedText.objects.filter(owner=owner).iterator(AT_ONCE):
            for text in strings([row.text, row.metadata]):
                for spot in spots(text, kinds[row.message_id]):
                    said = text[spot.start : spot.end]
                    digits = "".join(filter(str.isalnum, said))
                    masks |= dict.fromkeys((said, digits if digits.isdigit() else said), MASKS[spot.kind])
        self.messages = set(kinds)
        # The longest first: one may be a part of another.
        self.masks = sorted(masks.items(), key=lambda each: -len(each[0]))

    def text(self, text: str) -> str:
        for said, mask in self.masks:
            text = text.replace(said, mask)
        return text

    def json(self, value: Any) -> Any:
        """A piece of an excerpt of a masked message has no place there any more."""
        if isinstance(value, Mapping):
            is_piece = value.keys() >= {"text", "status", "message"} and value["message"] in self.messages
            nowhere = {"status": "absent", "message": None, "start": 0, "end": 0} if is_piece else {}
            return {key: self.json(item) for key, item in value.items()} | nowhere
        if isinstance(value, list):
            return [self.json(item) for item in value]
        return self.text(value) if isinstance(value, str) else value


def _redact(receipt: Erasure, owner: ChatUser) -> Counter[str]:
    """Masks what quotes, in every table with rows of the owner; returns the number of changed rows by table."""
    quoted = _Quoted(owner)
    tables = rows_of(owner.pk, _APART) if quoted.masks else ()
    return +Counter({rows.model._meta.db_table: redact_rows(receipt, rows, quoted, _write_derived) for rows in tables})


def _write_derived(row: Any, new: dict[str, Any]) -> None:
    """Stores the masked columns of a row, and deletes what was made of it or says the same."""
    if isinstance(row, models.Topic):
        row.summary = new["summary"]
        row.save(update_fields=["summary", "terms"])
        deleted(models.TopicVector.objects.filter(topic=row))
    elif isinstance(row, models.Card):
        deleted(models.Card.objects.filter(pk=row.pk))
    elif isinstance(row, models.RunEvent):
        models.RawReply.objects.filter(event=row).delete()
    elif isinstance(row, models.Run):
        models.QueryVector.objects.filter(run=row).delete()
    elif isinstance(row, models.AgentCall):
        new["key"] = ""
    type(row)._base_manager.filter(pk=row.pk).update(**new)


# What people decide about single messages.


@transaction.atomic
def decide(message: Message, actor: str, decision: str) -> bool:
    """Decides about a message. One that is held comes into its session as it arrived (``release``) or with its masks
    (``mask``), or is deleted (``discard``); any other gets its text back (``restore``). With its text back, the guard
    leaves it as it is from then on. False if the message is not in such a state."""
    owner, found = ChatUser.objects.get(pk=message.owner_id), GuardSpot.objects.filter(message=message)
    lock(owner)
    is_held = guard.held(owner).filter(pk=message.pk).exists()
    if decision not in (("release", "mask", "discard") if is_held else ("restore",)):
        return False
    if decision == "discard":
        deleted(Message.objects.filter(pk=message.pk))
        return True
    if decision == "mask":
        found.filter(state=State.HELD).update(state=State.MASKED, by=actor[:150])
    else:
        found.update(state=State.KEPT, by=actor[:150])
    before = UnmaskedText.objects.filter(message=message).first()
    if before is not None and decision != "mask":
        receipt = Erasure.objects.create(owner_number=owner.pk, kind=Erasure.Kind.UNMASK, actor=actor)
        name_erasure(receipt)
        message.text, message.metadata = before.text, before.metadata
        before.delete()
        _write(owner, [message])
        now = timezone.now()
        Erasure.objects.filter(pk=receipt.pk).update(cut_at=now, ended_at=now, looked_again_at=now)
    if is_held:
        Message.objects.filter(pk=message.pk).update(is_withdrawn=False)
        renew(owner, {message.session})
    return True


@dataclass(slots=True)
class Rehearsal:
    """In which of the latest ``looked_at`` messages a look would find something of a kind, each with its time;
    ``is_whole`` if it came to the end in time."""

    looked_at: int = 0
    is_whole: bool = True
    found: dict[GuardKind, list[tuple[int, datetime]]] = field(default_factory=dict)


def rehearse(owner: ChatUser, is_enough: Callable[[], bool]) -> Rehearsal:
    """Looks and changes nothing, until that is enough."""
    made, chosen = Rehearsal(), guard.policies(owner)
    for message in Message.objects.filter(pk__in=_unkept(owner)).order_by("-pk").iterator(AT_ONCE) if chosen else ():
        if is_enough():
            made.is_whole = False
            break
        made.looked_at += 1
        looked = guard.verdict(message.text, message.metadata, chosen)
        for kind in looked.kinds if looked else ():
            made.found.setdefault(GuardKind(kind), []).append((message.pk, message.sent_at))
    return made
