"""Passes of the archivist over the unread topics of a chat user, the oldest first. The model is asked outside of any
transaction, and its answer is stored before it is used. One transaction stores the findings and marks the topic as
read. So after a process was killed, no question is asked again and no finding is stored twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from memoryapp.curation import CurationError, knowledge
from memoryapp.curation.extraction.evidence import TopicEvidence
from memoryapp.curation.extraction.facts import KnownFacts
from memoryapp.curation.extraction.findings import Reading
from memoryapp.curation.extraction.people import KnownPeople
from memoryapp.curation.extraction.statements import Meanings, folded
from memoryapp.curation.knowledge import MODELS
from memoryapp.engine.agents import archivist
from memoryapp.engine.agents.archivist import Extract
from memoryapp.engine.agents.ask import CutAnswer, UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.notes import NotedError
from memoryapp.engine.sight import EVERYTHING, Sight, looking
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, Fact, Finding, FindingMessage, KnowledgeEdit, Message, Topic, UnreadTopic, Work
from memoryapp.models.work import WorkKind
from memoryapp.platform import database, metrics, work
from memoryapp.platform.database import waiting
from memoryapp.platform.llm import prompt_versions
from memoryapp.platform.llm.agent_calls import AgentCaller, AnsweredCall, OpenChat
from memoryapp.platform.logs import cause

# Topics that the archivist could not read: those that are read again after a wait, and those that wait for a person.
#
# If a model cannot be reached or answers too late, the chat user's other topics wait as well, so an outage costs only
# one question every few minutes. A topic that failed more than ``PATIENCE`` times delays only itself. After an
# unreadable answer the question is asked once more at once; then the topic waits for a person, who may have it read
# again.

EXTRACT = WorkKind(
    "extract",
    gettext_lazy("Extraction"),
    ngettext_lazy("%(done)s topic (%(percent)s %%)", "%(done)s topics (%(percent)s %%)", "n"),
)
FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=1)
# After more attempts than this, the topic may be at fault.
PATIENCE = 3

State = UnreadTopic.State


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """How many live topics are not read yet, and how many of them failed."""

    unread: int
    failed: int


def backlog(owner: ChatUser) -> UnreadCounts:
    return UnreadCounts(_unread().filter(owner=owner).count(), failed(owner).count())


def unread() -> QuerySet[Topic]:
    """Live topics that wait for the archivist, without those that failed and those of chat users without extraction."""
    topics = _unread().exclude(owner__extraction=ChatUser.Extraction.OFF)
    return topics.exclude(pk__in=UnreadTopic.objects.filter(state=State.FAILED).values("topic"))


def failed(owner: ChatUser | None = None) -> QuerySet[UnreadTopic]:
    """Topics that could not be read and wait for a person, latest first."""
    rows = UnreadTopic.objects.filter(state=State.FAILED, topic__is_live=True).select_related("topic", "owner")
    return (rows if owner is None else rows.filter(owner=owner)).order_by("-at", "-pk")


def retry(rows: Iterable[UnreadTopic]) -> int:
    """Makes the failed ones of these topics due again; returns how many there were."""
    numbers = [row.pk for row in rows]
    failed = UnreadTopic.objects.filter(pk__in=numbers, state=State.FAILED)
    return failed.update(state=State.WAITING, attempts=0, due_at=timezone.now(), at=timezone.now())


def due(owner: ChatUser) -> QuerySet[Topic]:
    """The owner's live topics that are due, oldest first; none while all of them wait for the model."""
    rows = UnreadTopic.objects.filter(owner=owner)
    if rows.filter(_pauses()).exists():
        return Topic.objects.none()
    not_yet = rows.filter(Q(state=State.FAILED) | waiting("due_at", LONGEST_WAIT)).values("topic")
    return _unread().filter(owner=owner).exclude(pk__in=not_yet).order_by("ended_at", "pk")


def with_due() -> QuerySet[ChatUser]:
    """Chat users who may have topics that are due; those whose last pass is longest ago come first."""
    wanted = ChatUser.objects.filter(pk__in=unread().values("owner"))
    paused = UnreadTopic.objects.filter(_pauses()).values("owner")
    last = Work.objects.filter(owner=OuterRef("pk"), kind=EXTRACT).values("at")
    latest = Subquery(last.order_by("-at")[:1])
    return wanted.exclude(pk__in=paused).order_by(latest.asc(nulls_first=True), "pk")


def _unread() -> QuerySet[Topic]:
    return Topic.objects.live().filter(facts_extracted=False)


def _pauses() -> Q:
    return waiting("due_at", LONGEST_WAIT) & Q(state=State.WAITING, attempts__lte=PATIENCE)


def postpone(topic: Topic, fault: str) -> UnreadTopic:
    """Has the topic read again after a wait, which doubles with each attempt, up to ``LONGEST_WAIT``."""
    known = UnreadTopic.objects.filter(topic=topic).first()
    attempts = (known.attempts if known else 0) + 1
    wait = min(FIRST_WAIT * 2 ** min(attempts - 1, 10), LONGEST_WAIT)
    return _put(topic, state=State.WAITING, attempts=attempts, due_at=timezone.now() + wait, fault=fault)


def give_up(topic: Topic, fault: str) -> UnreadTopic:
    """Marks the topic as failed, so it waits for a person."""
    return _put(topic, state=State.FAILED, due_at=timezone.now(), fault=fault)


def _put(topic: Topic, **values: object) -> UnreadTopic:
    row, _made = UnreadTopic.objects.update_or_create(topic=topic, defaults={"owner_id": topic.owner_id, **values})
    return row


# The most topics of one chat user in a pass; then other chat users have their turn.
MOST_TOPICS = 200
# How often a part whose answer was cut off is halved: at most 15 questions for one part.
MOST_HALVINGS = 3
# After so many unreadable answers in a row, the model is at fault and not the topics.
MOST_UNREADABLE = 3


@dataclass(frozen=True, slots=True)
class Model:
    """The chat model to ask, and the seconds it has for a question."""

    seconds: float
    open_chat: OpenChat


@dataclass(frozen=True, slots=True)
class Extracted:
    """How many topics a pass read, and how many others it gave up."""

    topics: int = 0
    failed: int = 0


class ModelFailed(NotedError):
    """The model gives no answers or no readable ones, and is not asked for a while."""


def extract(
    owner: ChatUser,
    model: Model,
    embedder: Embedder,
    *,
    until: Callable[[], bool] = lambda: False,
    worker: str = work.WORKER,
) -> Extracted:
    """Reads the owner's topics that are due, until none is left or ``until`` returns True. Does nothing while another
    worker reads them, or if extraction is off for the chat user. Raises ModelFailed when the model is at fault; then
    this topic and the others wait."""
    with database.exclusive("extract", owner.pk) as alone:
        topics = list(due(owner)[:MOST_TOPICS]) if alone and owner.extraction != owner.Extraction.OFF else []
        if not topics:
            return Extracted()
        with work.tracked(owner, EXTRACT, worker) as steps:
            reader = _Archivist(owner, model, embedder)
            is_labelled = Topic.objects.of(owner).exclude(project="").exists()
            read = failed = in_a_row = 0
            for place, topic in enumerate(topics, start=1):
                if until():
                    break
                # What is known from another project is neither compared with it nor changed by it.
                seen = Sight(frozenset((topic.project,)), topic.project) if is_labelled else EVERYTHING
                with looking(seen):
                    is_read = reader.read(topic, may_give_up=in_a_row + 1 < MOST_UNREADABLE)
                in_a_row = 0 if is_read else in_a_row + 1
                read, failed = read + is_read, failed + (not is_read)
                steps.reached(place, place / len(topics))
            return Extracted(read, failed)


class _Archivist:
    """Reads topics of one chat user in one pass; each text is embedded once."""

    def __init__(self, owner: ChatUser, model: Model, embedder: Embedder) -> None:
        self._owner, self._seconds = owner, model.seconds
        self._agent = AgentCaller(owner, archivist.AGENT, model.open_chat)
        self._meanings = Meanings(embedder)
        self._prompts = prompt_versions.in_force_now()

    def read(self, topic: Topic, *, may_give_up: bool) -> bool:
        """Reads the topic and returns True, or gives it up and returns False, so that it waits for a person. Raises
        ModelFailed when the model is at fault, or instead of giving up an unreadable answer unless ``may_give_up``."""
        messages = [content(row) for row in Message.objects.of(self._owner).filter(topic=topic).in_order()]
        try:
            with metrics.extracting(self._owner.pk):
                parts = archivist.parts(messages)
                self._keep(topic, messages, [answered for part in parts for answered in self._asked(topic, part)])
        except (LLMError, EmbeddingError) as error:
            postpone(topic, cause(error))
            raise ModelFailed(error.note or str(error)) from error
        except UnreadableAnswer as error:
            sentence = _("The model's answer cannot be read as facts and people.")
            if isinstance(error, CutAnswer):
                sentence = _("The model's answers were cut off before their end, even for small parts of the topic.")
            if not may_give_up:
                postpone(topic, sentence)
                raise ModelFailed(sentence) from error
            give_up(topic, sentence)
            return False
        except CurationError as error:
            give_up(topic, str(error))
            return False
        return True

    def _asked(
        self, topic: Topic, part: Sequence[MessageContent], halvings: int = MOST_HALVINGS
    ) -> list[AnsweredCall[Extract]]:
        """Returns the answers about the part; where one was cut off, those about its halves. Raises CutAnswer when the
        part cannot be halved any more."""
        try:
            return [self._ask(topic, part)]
        except CutAnswer:
            halves = archivist.halves(part)
            if not halvings or len(halves) < 2:
                raise
        return [answered for half in halves for answered in self._asked(topic, half, halvings - 1)]

    def _ask(self, topic: Topic, part: Sequence[MessageContent]) -> AnsweredCall[Extract]:
        question = partial(archivist.extract, part, seconds=self._seconds, prompts=self._prompts)
        return self._agent.ask(lambda chat: question(chat=chat), [topic])

    def _keep(self, topic: Topic, messages: Sequence[MessageContent], answers: Sequence[AnsweredCall[Extract]]) -> None:
        """Stores the findings, after all facts with which they are compared have a vector."""
        facts = [fact for answered in answers for fact in answered.answer.facts]
        while not self._stored(topic, messages, answers):
            self._meanings.learn(KnownFacts(self._owner, self._meanings).texts(facts))

    @transaction.atomic
    def _stored(
        self, topic: Topic, messages: Sequence[MessageContent], answers: Sequence[AnsweredCall[Extract]]
    ) -> bool:
        """Returns False and stores nothing if a vector is missing."""
        knowledge.lock(self._owner)
        owner = ChatUser.objects.get(pk=self._owner.pk)
        still = Topic.objects.of(owner).live().filter(pk=topic.pk, facts_extracted=False)
        if owner.extraction == owner.Extraction.OFF or not still.select_for_update(no_key=True):
            return True
        known_facts, known_people = KnownFacts(owner, self._meanings), KnownPeople(owner)
        if self._meanings.lacks(known_facts.texts([f for answered in answers for f in answered.answer.facts])):
            return False
        evidence = TopicEvidence({message.id: message for message in messages})
        # The chat user and the assistant are not extracted as people.
        authors = {message.author for message in messages if message.role != "peer"}
        selves = frozenset(folded(name) for name in (owner.name, owner.display_name, *authors)) - {""}
        for answered in answers:
            is_automatic = owner.extraction == owner.Extraction.AUTOMATIC
            reading = Reading(owner, topic, answered.call, is_automatic, evidence)
            for fact in answered.answer.facts:
                known_facts.place(reading, fact)
            for person in answered.answer.people:
                if not (frozenset(map(folded, (person.name, person.username))) - {""}) & selves:
                    known_people.place(reading, person)
        still.update(facts_extracted=True)
        UnreadTopic.objects.filter(topic=topic).delete()
        return True


# The source messages of facts and people, for their pages.

MOST = 50


def sources(owner: ChatUser, noun: str, number: int, most: int = MOST) -> list[Message]:
    """Returns the messages of this fact or person, latest first, including those of people merged into it."""
    # Also the numbers of the rows that were merged into this one and no longer exist.
    merges = KnowledgeEdit.objects.filter(owner=owner, noun=noun, kind="merge", after__has_key=str(number))
    others = {int(other) for after in merges.values_list("after", flat=True) for other in after} - {number}
    there = MODELS[noun]._default_manager.filter(owner=owner, pk__in=others).values_list("pk", flat=True)
    rows = [number, *sorted(others - set(there))]
    listed = FindingMessage.objects.filter(
        owner=owner, finding__noun=noun, finding__row__in=rows, finding__state=Finding.State.CONFIRMED
    )
    found = Message.objects.of(owner).filter(pk__in=listed.values("message"), is_withdrawn=False)
    return list(found.select_related("topic").order_by("-sent_at", "-pk")[:most])


def succession(fact: Fact) -> dict[str, Any]:
    """Returns the fact that replaced this one (``replaced_by``), and the facts that it replaced (``replaces``)."""
    edits = KnowledgeEdit.objects.filter(owner=fact.owner_id, kind="replace", after__has_key=str(fact.pk))
    others = {int(number) for after in edits.values_list("after", flat=True) for number in after} - {fact.pk}
    found = Fact.objects.filter(owner=fact.owner_id, pk__in=others).order_by("pk")
    later = [other for other in found if other.pk > fact.pk]
    replaces = [other for other in found if other.pk < fact.pk and other.superseded_at is not None]
    return {"replaced_by": later[-1] if later and fact.superseded_at else None, "replaces": replaces}


def messages_of(findings: Sequence[Finding]) -> Mapping[int, list[Message]]:
    """Returns the messages of each finding, by its number, oldest first."""
    listed = FindingMessage.objects.filter(finding__in=findings).select_related("message__topic")
    found: dict[int, list[Message]] = defaultdict(list)
    for row in listed.order_by("message__sent_at", "message_id"):
        found[row.finding_id].append(row.message)
    return found
