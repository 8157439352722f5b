"""What somebody expected a run to find: a topic, a message, words, a person or a file; and where it was at the time.

Ids of other memories are as unknown as ids that never were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import F, Q

from memoryapp.engine.memory import item_id, parse_item_id, topic_id
from memoryapp.engine.storable import storable
from memoryapp.engine.text.lexical import words
from memoryapp.erasure.marks import Marks
from memoryapp.explain.holders import holders
from memoryapp.explain.words_in_memory import topics_near, topics_with_words
from memoryapp.models import Artifact, Erasure, Fact, Message, Person, Topic, TopicMessage

LONGEST = 4_000
_LARGEST = 2**63 - 1
# Of a text that is looked for word by word.
_MOST_WORDS = 8
# Of messages that say the same.
_MOST_MESSAGES = 50
_NAMED = re.compile(r"\[?(topic|session|person|artifact|fact|message) ?: ?(\d{1,19})\]?", re.I)


@dataclass(frozen=True, slots=True)
class Searched:
    """The moment whose memory a run searched, and the number of the ``newest`` message then; 0 if unknown."""

    at: datetime
    newest: int = 0

    def had(self, message: Message) -> bool:
        """Whether the message had arrived; where no number tells, by its import or else by when it was said."""
        if self.newest:
            return message.pk <= self.newest
        return max(message.batch.started_at if message.batch else message.sent_at, message.sent_at) <= self.at


@dataclass(frozen=True, slots=True)
class Wanted:
    """``ids`` are the topics, the person or the file under which the run may have met it, best first.

    It is empty where the run could not meet it, and ``stage`` says why: ``unknown``, ``erased`` or ``in_session``.
    ``asked`` is the id that was asked about, ``message`` the message that was meant, ``messages`` the numbers of all
    that were meant, ``now`` the topics that hold them now; ``is_later`` means that they came into the memory after the
    run had searched, ``is_withdrawn`` that their import was withdrawn. ``holders`` are the topics that hold
    exactly what was asked for, ``others`` those that say nearly as much of it. ``case`` says why it is ``unknown``, or
    is ``meaning`` where no word of the text is in the memory and the topics are those nearest in meaning.
    """

    ids: tuple[str, ...] = ()
    stage: str = ""
    asked: str = ""
    message: Message | None = None
    messages: tuple[int, ...] = ()
    now: tuple[str, ...] = ()
    is_later: bool = False
    is_withdrawn: bool = False
    others: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    case: str = ""


UNKNOWN = Wanted(stage="unknown", case="id")


def wanted_topic(owner_id: int, name: str, at: Searched) -> Wanted:
    """The topic, active session, person or artifact of that id."""
    parsed = parse_item_id(name)
    if parsed is None or parsed[1] > _LARGEST:
        return UNKNOWN
    kind, number = parsed
    if kind == "Session":
        found = wanted_message(owner_id, f"Message:{number}", at)
        return replace(found, asked=item_id(kind, number), message=None)
    if kind != "Topic":
        rows = Person.objects.all() if kind == "Person" else Artifact.objects.all()
        is_there = rows.filter(owner=owner_id, pk=number).exists()
        return Wanted(ids=(item_id(kind, number),), asked=item_id(kind, number)) if is_there else UNKNOWN
    if not Topic.objects.of(owner_id).filter(pk=number).exists():
        touched = Erasure.objects.filter(owner_number=owner_id, touched__contains=[topic_id(number)]).exists()
        return replace(Wanted(stage="erased") if touched else UNKNOWN, asked=topic_id(number))
    messages = TopicMessage.objects.filter(owner=owner_id, topic=number).values_list("message", flat=True)
    return _placed(owner_id, list(messages), at, asked=number)


def wanted_message(owner_id: int, id: str, at: Searched) -> Wanted:
    """The message of that id, as it was imported; ``Message:17`` or a bare number is also its number here."""
    named = _NAMED.fullmatch(id.strip())
    number = named[2] if named and named[1].lower() == "message" else id if id.isdecimal() else ""
    rows = Message.objects.of(owner_id)
    found = rows.filter(external_id=storable(id)[:300]).first()
    known = int(number) if number and len(number) < 19 else None
    if found is None and known is not None:
        found = rows.filter(pk=known).first()
    if found is not None:
        return _message(found, at)
    is_erased = known is not None and Erasure.objects.filter(owner_number=owner_id, messages__contains=[known]).exists()
    return replace(Wanted(stage="erased") if is_erased else UNKNOWN, asked=id[:60])


def wanted_text(owner_id: int, text: str, at: Searched) -> Wanted:
    """What the text names or says: an id, a name, a whole message, words of a topic, of a fact or of a session."""
    text = storable(text).strip()[:LONGEST]
    if named := _NAMED.fullmatch(text):
        return _named(owner_id, named[1].lower(), int(named[2]), text, at)
    if saying := _saying(owner_id, text):
        numbers = [each.pk for each in saying]
        return _placed(owner_id, numbers, at, message=next(filter(at.had, saying), saying[0]))
    if item := _called(owner_id, text):
        return item
    # Before words: what was erased shares some with what is left.
    if _was_erased(owner_id, text):
        return Wanted(stage="erased")
    spoken = words(text)[:_MOST_WORDS]
    if not spoken:
        return Wanted(stage="unknown", case="words")
    if worth := topics_with_words(owner_id, text):
        return _of_topics(owner_id, [number for number in worth if worth[number] == max(worth.values())], worth, at)
    if fact := Fact.objects.filter(_all(spoken, "content"), owner=owner_id, topic__isnull=False).first():
        return wanted_topic(owner_id, topic_id(fact.topic_id or 0), at)
    if message := Message.objects.of(owner_id).filter(_all(spoken, "text"), topic__isnull=True).first():
        return _message(message, at)
    near = topics_near(owner_id, text)
    if near is None:
        return Wanted(stage="unknown", case="words")
    return replace(_of_topics(owner_id, near[:1], near, at), case="meaning") if near else Wanted(stage="unknown")


def _of_topics(owner_id: int, best: Sequence[int], found: Iterable[int], at: Searched) -> Wanted:
    """The ``best`` of the found topics, which say the same of it, as one; the others may have been meant as well."""
    wanted = [wanted_topic(owner_id, topic_id(number), at) for number in best]
    first = next((each for each in wanted if each.ids), wanted[0])
    return replace(
        first,
        ids=tuple(dict.fromkeys(id for each in wanted for id in each.ids)),
        now=tuple(dict.fromkeys(id for each in wanted for id in each.now)),
        others=tuple(topic_id(number) for number in found if number not in best),
        holders=tuple(map(topic_id, best)) if len(best) > 1 else (),
        asked="" if len(best) > 1 and first.ids else first.asked,
    )


def _named(owner_id: int, kind: str, number: int, text: str, at: Searched) -> Wanted:
    if kind == "message":
        return wanted_message(owner_id, text, at)
    if kind == "fact":
        fact = Fact.objects.filter(owner=owner_id, pk=min(number, _LARGEST)).first()
        return wanted_topic(owner_id, topic_id(fact.topic_id), at) if fact and fact.topic_id else UNKNOWN
    return wanted_topic(owner_id, text, at)


def _saying(owner_id: int, text: str) -> list[Message]:
    """The messages that say exactly this, those in topics and the latest first."""
    rows = Message.objects.of(owner_id).filter(text=text).select_related("batch") if text else Message.objects.none()
    order = (F("topic").desc(nulls_last=True), "is_withdrawn", "-sent_at", "-pk")
    return list(rows.order_by(*order)[:_MOST_MESSAGES])


def _called(owner_id: int, name: str) -> Wanted | None:
    person = Person.objects.filter(Q(display_name__iexact=name) | Q(username__iexact=name), owner=owner_id).first()
    if person:
        return wanted_topic(owner_id, item_id("Person", person.pk), Searched(person.updated_at))
    artifact = Artifact.objects.filter(owner=owner_id, name__iexact=name).order_by("-pk").first()
    return wanted_topic(owner_id, item_id("Artifact", artifact.pk), Searched(artifact.created_at)) if artifact else None


def _all(spoken: Sequence[str], column: str) -> Q:
    wanted = Q()
    for word in spoken:
        wanted &= Q(**{f"{column}__icontains": word})
    return wanted


def _was_erased(owner_id: int, text: str) -> bool:
    receipts = Erasure.objects.filter(owner_number=owner_id).order_by("-pk")[:100]
    return any(Marks.of(receipt).quoted(text) for receipt in receipts)


def _message(message: Message, at: Searched) -> Wanted:
    return _placed(message.owner_id, [message.pk], at, message=message)


def _placed(
    owner_id: int, messages: Sequence[int], at: Searched, *, asked: int = 0, message: Message | None = None
) -> Wanted:
    """Where these messages were when the run searched."""
    found = holders(owner_id, messages, at.at)
    then = (asked,) if asked in found.then else found.then
    name = topic_id(asked) if asked else f"Message:{message.external_id}" if message else ""
    now = tuple(map(topic_id, found.now))
    if then:
        ids = tuple(map(topic_id, then))
        return Wanted(ids, asked=name, message=message, now=now, holders=ids if len(messages) > 1 and message else ())
    first = message or Message.objects.of(owner_id).filter(pk__in=messages).select_related("batch").in_order().first()
    if first is None:
        return Wanted(stage="erased", asked=name)
    if first.is_withdrawn:
        return Wanted(stage="erased", asked=name, message=message, is_withdrawn=True)
    is_later = not at.had(first)
    stage = "unknown" if is_later else "in_session"
    return Wanted(
        stage=stage,
        asked=name,
        message=message,
        messages=tuple(messages),
        now=now,
        is_later=is_later,
        holders=now if len(now) > 1 and message else (),
    )
