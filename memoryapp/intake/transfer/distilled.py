"""Imports what another program distilled from the messages of an import: topics, facts, people and artifacts.

Topics are made over messages that are in no topic yet, in one transaction with the messages themselves. Other items
become rows as if somebody had written them; each change names the import, so withdrawing the import undoes them. What
was imported once is not imported again, even if it was changed or deleted since. A rehearsal finds the same and writes
nothing."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp.curation import CurationError, knowledge
from memoryapp.curation.topic_writer import lock_owner
from memoryapp.engine.memory import TopicDraft
from memoryapp.importers import ChatFile, Distilled, LeftOut, MessageRecord, Rejected, record
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.imports import Addressee, NamedMessages
from memoryapp.memory import content
from memoryapp.models import Artifact, ChatUser, Fact, ImportBatch, KnowledgeEdit, Message, Person, Topic
from memoryapp.platform import database

KINDS = ("topic", "fact", "person", "artifact")
_AT_ONCE = 500
MOST_SAMPLES = 4
_KEYS: Mapping[str, tuple[str, ...]] = {
    "fact": ("relation", "content"),
    "person": ("display_name", "username", "circle"),
    "artifact": ("sha256",),
}
# The field of the key by which known rows are looked up.
_TELLING: Mapping[str, str] = {"fact": "content", "person": "display_name", "artifact": "sha256"}


@dataclass(frozen=True, slots=True)
class DistilledCounts:
    """How many items of each kind are new, and how many known; what was refused and what left out, with the reasons.
    ``users`` are the chat users with at least one item, ``samples`` the first new facts."""

    new: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    refused: NamedMessages = field(default_factory=NamedMessages)
    left_out: Counter[str] = field(default_factory=Counter)
    users: dict[str, None] = field(default_factory=dict)
    samples: list[Fact] = field(default_factory=list)


@contextmanager
def one_transaction(chat: ChatFile, addressee: Addressee) -> Iterator[Callable[[ChatUser], None]]:
    """If the file has distilled items, stores its messages and these items in one transaction.

    So no process archives messages before their topics are stored, even if the import is killed. Imports of files that
    name the same user wait for each other. Yields a function that must be called with each chat user before anything is
    stored for that user; it locks the user's topics until the block ends."""
    if not chat.is_distilled:
        yield lambda owner: None
        return
    with transaction.atomic():
        # All locks are taken first and in one order, because files name users in any order and some do not exist yet.
        for name in sorted({name for user in ("", *chat.users()) if (name := addressee(user))}):
            database.acquire_until_commit(f"distilled {name}", 0)
        yield lock_owner


def rehearse(chat: ChatFile, addressee: Addressee) -> DistilledCounts:
    """Returns what ``store`` would return after an import of the messages, and writes nothing."""
    coming: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for item in chat.records() if chat.is_distilled else ():
        if isinstance(item, MessageRecord) and "topic" in item.metadata and (name := addressee(item.user)):
            coming[name][str(item.metadata["topic"])] += 1
    found = DistilledCounts()
    for name, kind, items in _portions(chat, addressee, found):
        owner = ChatUser.objects.filter(name=name).first()
        if kind == "topic":
            _Topics(owner, found).sort_out(items, coming[name])
        else:
            list(_Rows(owner, kind, found).new(items))
    return found


def store(
    chat: ChatFile, addressee: Addressee, batch_of: Callable[[ChatUser], ImportBatch], *, actor: str
) -> DistilledCounts:
    """Stores what is new; ``batch_of`` returns the import of a chat user. Raises BeingErased."""
    found = DistilledCounts()
    for name, kind, items in _portions(chat, addressee, found):
        owner = content.found_or_made(name)
        with transaction.atomic():
            content.check_kept(owner)
            if kind == "topic":
                _Topics(owner, found).put(items, actor)
            else:
                _Rows(owner, kind, found).put(items, actor, batch_of(owner))
    return found


def _portions(
    chat: ChatFile, addressee: Addressee, found: DistilledCounts
) -> Iterator[tuple[str, str, Sequence[Distilled]]]:
    """Yields the items of each chat user, one kind at a time, in portions; adds rejected ones to ``found``."""
    for (name, kind), items in groupby(_addressed(chat, addressee, found), key=lambda pair: (pair[0], pair[1].kind)):
        while part := [item for _name, item in islice(items, _AT_ONCE)]:
            yield name, kind, part


def _addressed(chat: ChatFile, addressee: Addressee, found: DistilledCounts) -> Iterator[tuple[str, Distilled]]:
    for item in chat.distilled():
        name = addressee(item.user)
        if name is None:
            found.left_out[str(record.OTHER_USER)] += 1
        elif isinstance(item, LeftOut):
            found.left_out[item.reason] += 1
        elif isinstance(item, Rejected):
            found.refused.add([item])
        elif not name:
            found.refused.add([Rejected(item.line, _("it names no user: say whose memory this is with --user"))])
        else:
            found.users[name] = None
            yield name, item


@dataclass(slots=True)
class _Place:
    """The messages of an imported topic that are in no topic here yet, and how many are in one or withdrawn."""

    free: list[int] = field(default_factory=list)
    settled: int = 0


@dataclass(frozen=True, slots=True)
class _Topics:
    owner: ChatUser | None
    found: DistilledCounts

    def put(self, items: Sequence[Distilled], actor: str) -> None:
        assert self.owner
        lock_owner(self.owner)
        places = _places(self.owner, items)
        new = self.sort_out(items, {topic: len(place.free) for topic, place in places.items()})
        drafts = [TopicDraft(item.values["summary"], tuple(places[_number(item)].free)) for item in new]
        made = put_topics(self.owner, drafts, actor=actor, reason=_("from the imported file"))
        read = [topic.pk for topic, item in zip(made, new, strict=True) if item.values["facts_extracted"]]
        Topic.objects.filter(pk__in=read).update(facts_extracted=True)

    def sort_out(self, items: Sequence[Distilled], coming: Mapping[str, int]) -> list[Distilled]:
        """Returns the topics that can be stored; ``coming`` counts each topic's messages that are in no topic."""
        places = _places(self.owner, items) if self.owner else {}
        new = []
        for item in items:
            place, count = places.get(_number(item), _Place()), coming.get(_number(item), 0)
            if not place.settled and count:
                new.append(item)
            elif place.settled and not place.free:
                self.found.known["topic"] += 1
            else:
                reason = (
                    _("some of its messages are in other topics already") if place.settled else _("it has no messages")
                )
                self.found.refused.add([Rejected(item.line, reason, item.user)])
        self.found.new.update(item.kind for item in new)
        return new


def _number(item: Distilled) -> str:
    return str(item.values["number"])


def _places(owner: ChatUser, items: Sequence[Distilled]) -> dict[str, _Place]:
    """Returns the places of the messages of these topics, by the topics' numbers in the file."""
    found: defaultdict[str, _Place] = defaultdict(_Place)
    for number, pk, topic, is_withdrawn in _messages(owner, [item.values["number"] for item in items]):
        if topic or is_withdrawn:
            found[number].settled += 1
        else:
            found[number].free.append(pk)
    return found


def _messages(owner: ChatUser, numbers: Sequence[Any]) -> Iterator[tuple[str, int, int | None, bool]]:
    """Yields for each message: its topic in the file, its number, its topic here, and whether it is withdrawn."""
    rows = Message.objects.of(owner).filter(external_id__startswith="laplaced:", metadata__topic__in=numbers)
    listed = rows.in_order().values_list("metadata__topic", "pk", "topic", "is_withdrawn")
    for number, pk, topic, is_withdrawn in listed.iterator():
        yield str(number), pk, topic, is_withdrawn


@dataclass(frozen=True, slots=True)
class _Rows:
    """Facts, people or artifacts of one chat user, who may not exist yet."""

    owner: ChatUser | None
    kind: str
    found: DistilledCounts

    def put(self, items: Sequence[Distilled], actor: str, batch: ImportBatch) -> None:
        assert self.owner
        knowledge.lock(self.owner)
        for row in self.new(items):
            knowledge.add(row, KnowledgeEdit(owner=self.owner, actor=actor, batch=batch))

    def new(self, items: Sequence[Distilled]) -> Iterator[knowledge.Row]:
        """Yields the rows that are not known yet and valid; counts the others."""
        known, linked = self._known(items), self._linked(items)
        for item in items:
            key = self._key(item.values)
            if self._is_among(key, known):
                self.found.known[self.kind] += 1
                continue
            try:
                row = _row(self.owner, item, linked)
                knowledge.check(row)
            except CurationError as error:
                self.found.refused.add([Rejected(item.line, str(error), item.user)])
                continue
            known.add(key)
            self.found.new[self.kind] += 1
            if isinstance(row, Fact) and len(self.found.samples) < MOST_SAMPLES:
                self.found.samples.append(row)
            yield row

    def _key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(values.get(name) for name in _KEYS[self.kind])

    def _is_among(self, key: tuple[Any, ...], known: Collection[tuple[Any, ...]]) -> bool:
        """Whether the key is known; of people, also with another username or circle that does not contradict."""
        if self.kind != "person" or key in known:
            return key in known
        name, *_rest = key
        return any(name == other[0] and not _are_namesakes(key, other) for other in known)

    def _known(self, items: Sequence[Distilled]) -> set[tuple[Any, ...]]:
        """Returns the keys of rows that exist, or that an earlier import brought."""
        if self.owner is None:
            return set()
        names, name = _KEYS[self.kind], _TELLING[self.kind]
        there = {"owner": self.owner, f"{name}__in": [item.values[name] for item in items]}
        if self.kind == "fact":
            there["superseded_at"] = None
        known = set(knowledge.MODELS[self.kind]._default_manager.filter(**there).values_list(*names))
        came = KnowledgeEdit.objects.filter(owner=self.owner, noun=self.kind, kind="create", batch__isnull=False)
        for after in came.values_list("after", flat=True).iterator():
            known |= {self._key(row) for row in after.values() if row}
        return known

    def _linked(self, items: Sequence[Distilled]) -> Mapping[Any, Any]:
        """Returns what the rows refer to: topics by their number in the file, for artifacts messages by external id."""
        if self.owner is None:
            return {}
        if self.kind == "artifact":
            messages = Message.objects.of(self.owner).filter(external_id__in=[item.values["message"] for item in items])
            return {row.external_id: row for row in messages}
        numbers = [item.topic for item in items if item.topic is not None]
        found = {number: topic for number, _pk, topic, _gone in _messages(self.owner, numbers) if topic}
        topics = Topic.objects.in_bulk(found.values())
        return {number: topics[topic] for number, topic in found.items()}


def _are_namesakes(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the usernames of two people of one name, or else their circles, contradict each other."""
    (_name, username, circle), (_same, other_username, other_circle) = one, other
    if username and other_username:
        return username.casefold() != other_username.casefold()
    return circle != other_circle and Person.Circle.OTHER not in (circle, other_circle)


def _row(owner: ChatUser | None, item: Distilled, linked: Mapping[Any, Any]) -> knowledge.Row:
    """Returns the unsaved row. Raises CurationError if it cannot have these values."""
    noun = KnowledgeEdit.Noun(item.kind)
    values = {**item.values}
    values |= knowledge.cleaned(
        owner, noun, {name: values[name] for name in knowledge.EDITABLE[noun] if name != "project"}
    )
    if item.kind == "fact":
        return Fact(owner=owner, topic=linked.get(str(item.topic)), **values)
    if item.kind == "person":
        return Person(owner=owner, **values)
    message = linked.get(values.pop("message"))
    return Artifact(owner=owner, message=message, state=Artifact.State.READY, **values)
