"""Passes of the archivist over the unread topics of a chat user, the oldest first.

The model is asked outside of any transaction, and its answer is stored before it is used. One transaction stores the
findings and marks the topic as read. So after a process was killed, no question is asked again and no finding is stored
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp import knowledge, work
from memoryapp.content.reading import content
from memoryapp.curation import CurationError
from memoryapp.engine.agents import archivist
from memoryapp.engine.agents.archivist import Extract, FoundPerson
from memoryapp.engine.agents.ask import CutAnswer, UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.notes import NotedError
from memoryapp.extraction import unread
from memoryapp.extraction.evidence import TopicEvidence
from memoryapp.extraction.facts import KnownFacts
from memoryapp.extraction.findings import Reading
from memoryapp.extraction.meanings import Meanings, folded
from memoryapp.extraction.people import KnownPeople
from memoryapp.llm import prompt_versions
from memoryapp.llm.agent_calls import AgentCaller, AnsweredCall, OpenChat
from memoryapp.models import ChatUser, Message, Topic, UnreadTopic
from memoryapp.operations import advisory_locks, metrics
from memoryapp.operations.logs import cause

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
    """Reads the owner's topics that are due, until none is left or ``until`` returns True.

    Does nothing while another worker reads them, or if extraction is off for the chat user. Raises ModelFailed when the
    model is at fault; then this topic and the others wait.
    """
    with advisory_locks.exclusive("extract", owner.pk) as alone:
        topics = list(unread.due(owner)[:MOST_TOPICS]) if alone and owner.extraction != owner.Extraction.OFF else []
        if not topics:
            return Extracted()
        with work.tracked(owner, unread.EXTRACT, worker) as steps:
            return _read_each(_Archivist(owner, model, embedder), topics, until, steps)


def _read_each(reader: _Archivist, topics: Sequence[Topic], until: Callable[[], bool], steps: work.Steps) -> Extracted:
    read = failed = in_a_row = 0
    for place, topic in enumerate(topics, start=1):
        if until():
            break
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
        """Reads the topic and returns True, or gives it up and returns False, so that it waits for a person.

        Raises ModelFailed when the model is at fault, or instead of giving up an unreadable answer unless
        ``may_give_up``.
        """
        messages = [content(row) for row in Message.objects.of(self._owner).filter(topic=topic).in_order()]
        try:
            with metrics.extracting(self._owner.pk):
                parts = archivist.parts(messages)
                self._keep(topic, messages, [answered for part in parts for answered in self._asked(topic, part)])
        except (LLMError, EmbeddingError) as error:
            unread.postpone(topic, cause(error))
            raise ModelFailed(error.note or str(error)) from error
        except UnreadableAnswer as error:
            sentence = _("The model's answer cannot be read as facts and people.")
            if isinstance(error, CutAnswer):
                sentence = _("The model's answers were cut off before their end, even for small parts of the topic.")
            if not may_give_up:
                unread.postpone(topic, sentence)
                raise ModelFailed(sentence) from error
            unread.give_up(topic, sentence)
            return False
        except CurationError as error:
            unread.give_up(topic, str(error))
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
        selves = _selves(owner, messages)
        for answered in answers:
            is_automatic = owner.extraction == owner.Extraction.AUTOMATIC
            reading = Reading(owner, topic, answered.call, is_automatic, evidence)
            for fact in answered.answer.facts:
                known_facts.place(reading, fact)
            for person in answered.answer.people:
                if not _names(person) & selves:
                    known_people.place(reading, person)
        still.update(facts_extracted=True)
        UnreadTopic.objects.filter(topic=topic).delete()
        return True


def _selves(owner: ChatUser, messages: Sequence[MessageContent]) -> frozenset[str]:
    """The names of the chat user and of the assistant, who are not extracted as people."""
    authors = {message.author for message in messages if message.role != "peer"}
    return frozenset(folded(name) for name in (owner.name, owner.display_name, *authors)) - {""}


def _names(person: FoundPerson) -> frozenset[str]:
    return frozenset(map(folded, (person.name, person.username))) - {""}
