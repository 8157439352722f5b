"""Masks what is in a memory already, and takes masks back.

In: a chat user whose policies say what must not be stored. Out: a receipt, which the worker carries to its end as it
does an erasure: the messages, their passages, and everything that quotes what was masked, in any table of the owner. A
masked message has nothing left to find, so the work may be killed at any moment and repeated. The text as it was is
kept with the message (``UnmaskedText``), and a person can restore it; what was made of the message keeps its masks.

A message that is there already may be in topics, so it is masked where a new one would be held.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from memoryapp import models
from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.guard import MASKS, spots
from memoryapp.erasure.chat_user import deleted
from memoryapp.erasure.conversations import fitting, texts_of
from memoryapp.erasure.cutting import lock, name_erasure, put_rest
from memoryapp.erasure.texts import strings
from memoryapp.memory import guard
from memoryapp.memory.content import erased
from memoryapp.memory.sessions import note_change, renew
from memoryapp.models import ChatUser, Erasure, GuardPolicy, GuardSpot, Message, UnmaskedText
from memoryapp.models.user import Owned
from memoryapp.platform.statements import execute

AT_ONCE = 500
MOST_FIRST = 3
SIZES: str = table_beside(__file__)["sizes"]
State = GuardSpot.State


def ask(owner: ChatUser, actor: str) -> Erasure:
    """Asks the worker to look through a memory under its policies; while it does, the same receipt."""
    asked = Erasure.objects.filter(owner_number=owner.pk, kind=Erasure.Kind.MASK, cut_at__isnull=True).first()
    return asked or Erasure.objects.create(owner_number=owner.pk, kind=Erasure.Kind.MASK, actor=actor)


def go_on(receipt: Erasure) -> None:
    """Carries a receipt of masks to its end; one that has ended looks again at what was written meanwhile."""
    owner, last = ChatUser.objects.filter(pk=receipt.owner_number).first(), 0
    if owner is not None:
        while receipt.cut_at is None and (numbers := list(_unkept(owner).filter(pk__gt=last)[:AT_ONCE])):
            _look_at(receipt, owner, numbers)
            last = numbers[-1]
        receipt.cut_at = receipt.cut_at or timezone.now()
        receipt.redacted = dict(Counter(receipt.redacted) + _redact(receipt, owner))
    if receipt.ended_at is not None or owner is None:
        receipt.looked_again_at = timezone.now()
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
    chosen, rows, before, changed = guard.policies(owner), list[GuardSpot](), list[UnmaskedText](), list[Message]()
    GuardSpot.objects.filter(message__in=numbers, state=State.MARKED).delete()
    for message in Message.objects.of(owner).filter(pk__in=_unkept(owner).filter(pk__in=numbers)):
        found = guard.verdict(message.text, message.metadata, chosen)
        if found and found.policy != GuardPolicy.MARK:
            before.append(UnmaskedText(owner=owner, message=message, text=message.text, metadata=message.metadata))
            message.text, message.metadata = found.text, found.metadata
            changed.append(message)
        if found:
            rows += found.spots(message, State.MASKED)
    # Of what was masked before for another kind, the text as it arrived stays.
    UnmaskedText.objects.bulk_create(before, ignore_conflicts=True)
    GuardSpot.objects.bulk_create(rows, ignore_conflicts=True)
    _write(owner, changed)
    receipt.redacted = dict(Counter(receipt.redacted) + Counter({Message._meta.db_table: len(changed)}))
    receipt.save(update_fields=["redacted"])


def _write(owner: ChatUser, changed: Sequence[Message]) -> None:
    """Stores new texts of messages, with passages and sizes of topics; for a transaction that names a receipt."""
    numbers = [message.pk for message in changed]
    if not numbers:
        return
    Message.objects.bulk_update(changed, ["text", "metadata"], batch_size=AT_ONCE)
    execute(SIZES, {"owner": owner.pk, "messages": numbers})
    holding = models.PassageMessage.objects.filter(message__in=numbers).values("passage")
    groups: defaultdict[int, set[int]] = defaultdict(set)
    for passage, number in models.PassageMessage.objects.filter(passage__in=holding).values_list("passage", "message"):
        groups[passage].add(number)
    deleted(models.Passage.objects.filter(pk__in=list(groups)))
    put_rest(owner, [groups[passage] for passage in sorted(groups)])
    note_change(owner)
    transaction.on_commit(lambda: erased.send(ChatUser, number=owner.pk))


class _Quoted:
    """What the masks of a memory hide, each with its mask; a number also without its blanks."""

    def __init__(self, owner: ChatUser) -> None:
        kinds, self.masks, self.messages = defaultdict[int, set[str]](set), dict[str, str](), set[int]()
        for number, kind in (
            GuardSpot.objects.filter(owner=owner).exclude(state=State.MARKED).values_list("message", "kind")
        ):
            kinds[number].add(kind)
        for row in UnmaskedText.objects.filter(owner=owner).iterator(AT_ONCE):
            self.messages.add(row.message_id)
            for text in strings([row.text, row.metadata]):
                for spot in spots(text, kinds[row.message_id]):
                    said = text[spot.start : spot.end]
                    digits = "".join(filter(str.isalnum, said))
                    self.masks |= dict.fromkeys((said, digits if digits.isdigit() else said), MASKS[spot.kind])

    def text(self, text: str) -> str:
        # The longest first: one may be a part of another.
        for said, mask in sorted(self.masks.items(), key=lambda each: -len(each[0])):
            text = text.replace(said, mask) if said in text else text
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
    quoted, counts = _Quoted(owner), Counter[str]()
    # Messages and their passages are masked by their own texts.
    apart = (Message, UnmaskedText, GuardSpot, models.Passage)
    for model in apps.get_app_config("memoryapp").get_models() if quoted.masks else ():
        is_read = model is ChatUser or (issubclass(model, Owned) and model not in apart)
        names = list(texts_of(model)) if is_read else []
        named = {"pk" if model is ChatUser else "owner": owner.pk}
        for row in model._base_manager.filter(**named).order_by("pk").iterator(50) if names else ():
            new = {name: fitting(model, name, row, quoted) for name in names}
            if any(value != getattr(row, name) for name, value in new.items()):
                _write_derived(receipt, row, new)
                counts[model._meta.db_table] += 1
    return counts


@transaction.atomic
def _write_derived(receipt: Erasure, row: Any, new: Mapping[str, Any]) -> None:
    """Stores the masked columns of a row, and deletes what was made of it or says the same."""
    name_erasure(receipt)
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
        new = {**new, "key": ""}
    type(row)._base_manager.filter(pk=row.pk).update(**new)


# What people decide about single messages.


@transaction.atomic
def restore(message: Message, actor: str) -> None:
    """Gives a message the text back with which it arrived. From then on the guard leaves it as it is."""
    owner = ChatUser.objects.get(pk=message.owner_id)
    lock(owner)
    before = UnmaskedText.objects.filter(message=message).first()
    GuardSpot.objects.filter(message=message).update(state=State.KEPT, by=actor[:150])
    if before is not None:
        receipt = Erasure.objects.create(owner_number=owner.pk, kind=Erasure.Kind.UNMASK, actor=actor)
        name_erasure(receipt)
        message.text, message.metadata = before.text, before.metadata
        before.delete()
        _write(owner, [message])
        receipt.cut_at = receipt.ended_at = receipt.looked_again_at = timezone.now()
        receipt.save(update_fields=["cut_at", "ended_at", "looked_again_at"])


@transaction.atomic
def decide(message: Message, actor: str, decision: str) -> bool:
    """Decides about a held message: ``release`` lets it into its session as it arrived, ``mask`` with its masks,
    ``discard`` deletes it. False if it is not held."""
    owner = ChatUser.objects.get(pk=message.owner_id)
    lock(owner)
    rows = guard.held(owner).filter(pk=message.pk)
    if not rows.exists():
        return False
    if decision == "discard":
        deleted(rows)
        return True
    if decision == "release":
        restore(message, actor)
    GuardSpot.objects.filter(message=message, state=State.HELD).update(state=State.MASKED, by=actor[:150])
    Message.objects.filter(pk=message.pk).update(is_withdrawn=False)
    renew(owner, {message.session})
    return True


@dataclass(slots=True)
class Rehearsal:
    """What a look through the memory would find in the latest ``looked_at`` messages: how much of each kind, and its
    first messages. ``is_whole`` if it came to the end in time."""

    looked_at: int = 0
    is_whole: bool = True
    kinds: Counter[str] = field(default_factory=Counter)
    first: defaultdict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))


def rehearse(owner: ChatUser, is_enough: Callable[[], bool]) -> Rehearsal:
    """Looks and changes nothing, until that is enough."""
    found, chosen = Rehearsal(), guard.policies(owner)
    for message in Message.objects.filter(pk__in=_unkept(owner)).order_by("-pk").iterator(AT_ONCE) if chosen else ():
        if is_enough():
            found.is_whole = False
            break
        found.looked_at += 1
        if verdict := guard.verdict(message.text, message.metadata, chosen):
            found.kinds += verdict.kinds
            for kind in verdict.kinds:
                found.first[kind] = [*found.first[kind], message][:MOST_FIRST]
    return found
