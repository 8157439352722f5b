"""What somebody expected a run to find: a topic, a message, words, a person or a file; and where it was at the time.
Ids of other memories are as unknown as ids that never were."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from asgiref.sync import async_to_sync
from django.db.models import F, Q
from pgvector import HalfVector
from pgvector.django import CosineDistance

from memoryapp.curation import rescoring
from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import item_id, parse_item_id, topic_id
from memoryapp.engine.text.lexical import idf, rarities, words
from memoryapp.erasure.marks import Marks
from memoryapp.models import Artifact, Erasure, Fact, Message, PassageVector, Person, Topic, TopicMessage
from memoryapp.platform.llm import clients
from memoryapp.platform.statements import fetched
from memoryapp.search import profiles

# The live topics that say given words, in a message or in their summary; and those near to them in meaning.

# Of the weight of the words, so much has to be in one passage or summary; the rest may be a slip of memory.
LEAST_SHARE = 0.5
# Topics that say nearly as much as the best may be meant as well; so many are named, of so many passages.
_AS_MUCH, _MOST, _PASSAGES = 0.8, 6, 40
# For the vector of a text that shares no word with the memory.
_SECONDS = 4.0

_SQL = table_beside(__file__)
TOPICS_OF: str = _SQL["topics_of"]
SUMMARIES: str = _SQL["summaries"]


def topics_with_words(owner_id: int, text: str) -> dict[int, float]:
    """The live topics whose passage or summary says most of ``text``, by their numbers, each with the weight of its
    words by their rarity, the best first: that one, and others that say as much or nearly as much. Empty where none
    says half of it. Five statements."""
    passages = rescoring.passages(owner_id)
    (terms,) = rescoring.terms_of([text])
    if not terms or not len(passages.ids):
        return {}
    found = rescoring.term_matches(owner_id, passages.ids, [terms])
    matches = {term: found.get(term) for term in terms}
    spoken, whole = rarities(matches, len(passages.ids))
    weights = {term: idf(len(passages.ids), len(each.documents) if each else 0) for term, each in matches.items()}
    worth = _summaries(owner_id, terms, weights)
    first = np.argsort(-spoken, kind="stable")[:_PASSAGES]
    for topic, weight in _spoken(owner_id, {int(passages.ids[at]): float(spoken[at]) for at in first}):
        worth[topic] = max(worth[topic], weight)
    least = max(LEAST_SHARE * whole, _AS_MUCH * max(worth.values(), default=0.0))
    best = sorted((topic for topic in worth if worth[topic] >= least), key=lambda topic: (-worth[topic], topic))
    return {topic: round(worth[topic], 6) for topic in best[:_MOST]}


def topics_near(owner_id: int, text: str, *, is_sure: bool = True) -> list[int] | None:
    """The live topics with a passage near to ``text`` in meaning, the nearest first: as near as the best passage for a
    question usually is, or half way from there to what is only related unless it ``is_sure``, and nearly as near as the
    first. None where nothing can be compared, for want of a vector."""
    row = profiles.serving()
    profile = profiles.profile_of(row)
    try:
        vector = async_to_sync(embedded)(profile.as_queries([text]), profile)[0]
    except (EmbeddingError, TimeoutError):
        return None
    stored = PassageVector.objects.filter(owner=owner_id, profile=row)
    near = stored.annotate(distance=CosineDistance("vector", HalfVector(vector))).order_by("distance")
    rows = dict(near.values_list("passage", "distance")[:_PASSAGES])
    usual = profile.usual_best if is_sure else (profile.related + profile.usual_best) / 2
    least = max(profile.related, usual, _AS_MUCH * (1 - min(rows.values(), default=1.0)))
    cosines = {passage: 1 - distance for passage, distance in rows.items() if 1 - distance >= least}
    spoken = sorted(_spoken(owner_id, cosines), key=lambda each: -each[1])
    return list(dict.fromkeys(topic for topic, _cosine in spoken))[:_MOST] if rows else None


async def embedded(texts: Sequence[str], profile: Profile) -> Any:
    """A vector for each text. Raises EmbeddingError, and TimeoutError after four seconds."""
    async with asyncio.timeout(_SECONDS), clients.http_client() as http:
        return await clients.embedder_of(profile, http).embed(texts)


def _summaries(owner_id: int, terms: Sequence[str], weights: Mapping[str, float]) -> defaultdict[int, float]:
    """The weight of the words that the summary of each topic says."""
    spoken: defaultdict[int, float] = defaultdict(float)
    for topic, term in fetched(SUMMARIES, {"owner": owner_id, "terms": list(terms)}):
        spoken[topic] += weights.get(term, 0.0)
    return spoken


def _spoken(owner_id: int, passages: Mapping[int, float]) -> list[tuple[int, float]]:
    """Topics with the weight of the words that one of their passages says."""
    return [
        (topic, passages[passage])
        for passage, topic in fetched(TOPICS_OF, {"owner": owner_id, "passages": list(passages)})
    ]


# Which topics held messages at an earlier moment. Edits never change a topic, so each is either live then or not.

HOLDERS: str = _SQL["holders"]


@dataclass(frozen=True, slots=True)
class Holders:
    """Numbers of topics, those with most of the messages first: live ``then``, live ``now``, and ``every`` one."""

    then: tuple[int, ...]
    now: tuple[int, ...]
    every: tuple[int, ...]


def holders(owner_id: int, messages: Sequence[int], at: datetime) -> Holders:
    """The topics that contain any of the messages, at that moment and now; one statement."""
    rows = fetched(HOLDERS, {"owner": owner_id, "messages": list(messages), "at": at})
    return Holders(
        then=tuple(number for number, _now, was_live in rows if was_live),
        now=tuple(number for number, is_live, _then in rows if is_live),
        every=tuple(number for number, _now, _then in rows),
    )


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
    is ``meaning`` where no word of the text is in the memory and the topics are those nearest in meaning."""

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
    # The messages that say exactly this, those in topics and the latest first.
    rows = Message.objects.of(owner_id).filter(text=text).select_related("batch") if text else Message.objects.none()
    order = (F("topic").desc(nulls_last=True), "is_withdrawn", "-sent_at", "-pk")
    if saying := list(rows.order_by(*order)[:_MOST_MESSAGES]):
        numbers = [each.pk for each in saying]
        return _placed(owner_id, numbers, at, message=next(filter(at.had, saying), saying[0]))
    if item := _called(owner_id, text):
        return item
    # Before words: what was erased shares some with what is left.
    receipts = Erasure.objects.filter(owner_number=owner_id).order_by("-pk")[:100]
    if any(Marks.of(receipt).quoted(text) for receipt in receipts):
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
