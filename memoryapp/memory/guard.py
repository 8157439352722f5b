"""What must not be stored, or handed over, as it is: the policies of a memory, and how a text fares under them.
Whatever reads a message reads its stored text, so a mask needs no other care; the text as it arrived is kept apart. The
settings ``GUARD`` and ``GUARD_OUT`` are the policies of all memories; each may have its own."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import QuerySet

from memoryapp.engine.json_values import Change, rewritten
from memoryapp.engine.text.guard import masked, spots
from memoryapp.models import ChatUser, GuardPolicy, GuardSpot, Message, UnmaskedText

Policies = Mapping[str, str]
State = GuardSpot.State
_STATES = {"mark": State.MARKED, "mask": State.MASKED, "hold": State.HELD}


def policies(owner: ChatUser, *, holds: bool = True) -> Policies:
    """What happens to each kind that is not left as it is; unless it ``holds``, what would be held is masked."""
    weaker = {} if holds else {"hold": "mask"}
    chosen = {**settings.GUARD, **owner.guard}
    return {kind: weaker.get(policy, policy) for kind, policy in chosen.items() if policy != GuardPolicy.OFF}


class GuardVerdict(NamedTuple):
    """How a message fares: its text and metadata as they arrived and as they are to be stored, the kinds that were
    found, which of these are only marked, and the strongest state of them all."""

    before: tuple[str, Any]
    text: str
    metadata: Any
    kinds: Collection[str]
    marked: list[str]
    state: State


def verdict(text: str, metadata: Any, chosen: Policies) -> GuardVerdict | None:
    """How a message fares under these policies; None when nothing was found."""
    kinds: dict[str, str] = {}
    marked = [kind for kind, policy in chosen.items() if policy == GuardPolicy.MARK]

    def look(said: str, _path: object = ()) -> str:
        found = spots(said, chosen)
        kinds.update((spot.kind, chosen[spot.kind]) for spot in found)
        return masked(said, [spot for spot in found if spot.kind not in marked])

    new, beside = (look(text), rewritten(None, metadata, look)) if chosen else (text, metadata)
    strongest = max(kinds.values(), key=GuardPolicy.values.index, default="")
    return GuardVerdict((text, metadata), new, beside, list(kinds), marked, _STATES[strongest]) if kinds else None


def note(found: Iterable[tuple[Message, GuardVerdict]]) -> None:
    """Stores what was found in messages, and their texts as they arrived; one that is kept already stays."""
    rows, texts = list[GuardSpot](), list[UnmaskedText]()
    for message, each in found:
        named: Any = {"owner_id": message.owner_id, "message": message}
        rows += [
            GuardSpot(**named, kind=kind, state=State.MARKED if kind in each.marked else each.state)
            for kind in each.kinds
        ]
        if each.state != State.MARKED:
            texts.append(UnmaskedText(**named, text=each.before[0], metadata=each.before[1]))
    GuardSpot.objects.bulk_create(rows, ignore_conflicts=True)
    UnmaskedText.objects.bulk_create(texts, ignore_conflicts=True)


def as_stored(owner: ChatUser, value: Any) -> Any:
    """A JSON value that is written into the memory otherwise, with its masks; what was there is not kept."""
    found = verdict("", value, policies(owner))
    return found.metadata if found else value


def held(owner: ChatUser) -> QuerySet[Message]:
    """The messages that wait for a person, the earliest first."""
    found = GuardSpot.objects.filter(owner=owner, state=State.HELD).values("message")
    return Message.objects.of(owner).filter(pk__in=found, is_withdrawn=True).order_by("pk")


def handing_over(owner: ChatUser) -> Change | None:
    """What makes of a text what an assistant may have, where a policy says so; ids stay, by which it asks again."""
    chosen = {**settings.GUARD_OUT, **owner.guard_out}
    kinds = [kind for kind, policy in chosen.items() if policy != GuardPolicy.OFF]

    def change(text: str, path: tuple[str, ...] = ()) -> str:
        return text if path[-1:] == ("id",) else masked(text, spots(text, kinds), defuses=True)

    return change if kinds else None
