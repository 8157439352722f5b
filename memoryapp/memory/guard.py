"""What must not be stored, or handed over, as it is: the policies of a memory, and how a text fares under them.

In: a chat user with messages that arrive, or with what an assistant is handed. Out: the same with masks, and what was
found. Whatever reads a message reads its stored text, so a mask needs no other care; the text as it arrived is kept
apart. The settings ``GUARD`` and ``GUARD_OUT`` are the policies of all memories; each may have its own.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import QuerySet

from memoryapp.engine.text.guard import masked, spots
from memoryapp.importers.record import MessageRecord
from memoryapp.models import ChatUser, GuardPolicy, GuardSpot, Message, UnmaskedText

Policies = Mapping[str, str]
_STATES = {"mark": "marked", "mask": "masked", "hold": "held"}
_FROM_WEAKEST: list[str] = GuardPolicy.values


def policies(owner: ChatUser) -> Policies:
    """What happens to each kind that is not left as it is."""
    chosen = {**settings.GUARD, **owner.guard}
    return {kind: policy for kind, policy in chosen.items() if policy != GuardPolicy.OFF}


class GuardVerdict(NamedTuple):
    """How a message fares: its text and metadata as they are to be stored, how much of each kind was found, those that
    are only ``marked``, and the strongest policy of them all."""

    text: str
    metadata: Any
    kinds: Counter[str]
    marked: Collection[str]
    policy: str

    def spots(self, message: Message, state: str) -> list[GuardSpot]:
        states = {kind: "marked" if kind in self.marked else state for kind in self.kinds}
        return [GuardSpot(owner_id=message.owner_id, message=message, kind=each, state=states[each]) for each in states]


def verdict(text: str, metadata: Mapping[str, Any], chosen: Policies) -> GuardVerdict | None:
    """How a message fares under these policies; None when nothing was found."""
    kinds: Counter[str] = Counter()
    marked = [kind for kind, policy in chosen.items() if policy == GuardPolicy.MARK]

    def look(said: str) -> str:
        found = spots(said, chosen)
        kinds.update(spot.kind for spot in found)
        return masked(said, [spot for spot in found if spot.kind not in marked])

    new, beside = look(text), rewritten(metadata, look)
    policy = max((chosen[kind] for kind in kinds), key=_FROM_WEAKEST.index, default="")
    return GuardVerdict(new, beside, kinds, marked, policy) if kinds else None


def rewritten(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with each text in it changed; the names of fields stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [rewritten(item, change) for item in value]
    return {key: rewritten(item, change) for key, item in value.items()} if isinstance(value, Mapping) else value


@dataclass(slots=True)
class Arrivals:
    """Messages on their way into a memory: ``passed`` gives each as it is to be stored and whether it is held, ``note``
    stores what was found, in the transaction of the messages. Where none may be held (``may_hold``), they are masked.
    ``counts`` are messages that were ``marked``, ``masked`` or ``held``.
    """

    owner: ChatUser
    may_hold: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    _found: dict[str, tuple[MessageRecord, GuardVerdict, str]] = field(default_factory=dict)

    def passed(self, records: Iterable[MessageRecord]) -> Iterator[tuple[MessageRecord, bool]]:
        chosen = policies(self.owner)
        for record in records:
            found = verdict(record.text, record.metadata, chosen) if chosen else None
            if found:
                state = "masked" if found.policy == GuardPolicy.HOLD and not self.may_hold else _STATES[found.policy]
                self._found[record.external_id] = record, found, state
                self.counts[state] += 1
                yield (record if state == "marked" else record.masked(found.text, found.metadata)), state == "held"
            else:
                yield record, False

    def note(self) -> None:
        rows: list[GuardSpot] = []
        texts: list[UnmaskedText] = []
        named = Message.objects.of(self.owner).filter(external_id__in=list(self._found)) if self._found else ()
        for message in named:
            record, found, state = self._found[message.external_id]
            rows += found.spots(message, state)
            if state != "marked":
                text = UnmaskedText(owner=self.owner, message=message, text=record.text, metadata=record.metadata)
                texts.append(text)
        GuardSpot.objects.bulk_create(rows)
        UnmaskedText.objects.bulk_create(texts)


def policies_out(owner: ChatUser) -> list[str]:
    """The kinds that are masked in what is handed over."""
    return [kind for kind, policy in {**settings.GUARD_OUT, **owner.guard_out}.items() if policy != GuardPolicy.OFF]


def handed_over(kinds: Collection[str], value: Any) -> Any:
    """A text or a JSON value as an assistant may have it."""
    return rewritten(value, lambda text: masked(text, spots(text, kinds), defuses=True)) if kinds else value


def held(owner: ChatUser) -> QuerySet[Message]:
    """The messages that wait for a person, the earliest first."""
    found = GuardSpot.objects.filter(owner=owner, state=GuardSpot.State.HELD).values("message")
    return Message.objects.of(owner).filter(pk__in=found, is_withdrawn=True).order_by("pk")
