"""Cutters, which divide a session into topics: the splitter (an agent) and the embedded segmenter.

If a chat model is connected, it is asked about each session. Its answer is stored before it is used, so a process that
is killed in between asks nothing twice. Topics that are too small are joined to a neighbour. If the model fails or
leaves out most of the session, the segmenter divides it, so no session waits for a model; after several failures in a
row the model is not asked for a while."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from itertools import takewhile
from typing import Protocol

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext as _

from memoryapp.curation import extracted
from memoryapp.engine.agents.ask import Ask, UnreadableAnswer
from memoryapp.engine.agents.splitter import AGENT, Division, fitted, joined, propose_topics
from memoryapp.engine.chat.protocol import Chat, LLMError
from memoryapp.engine.embeddings import Embedder
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.engine.offline.segmenter import segment
from memoryapp.engine.text.summaries import StemFrequencies, Summarise, background
from memoryapp.memory import content
from memoryapp.memory.sessions import SessionLimits, is_between_people
from memoryapp.models import AgentCall, ChatUser, Message
from memoryapp.platform.database import waits
from memoryapp.platform.llm import prompt_versions
from memoryapp.platform.llm.agent_calls import AgentCaller, OpenChat

# How many messages are sampled for the words that are common in a memory.
SAMPLED = 4000
# After so many failures in a row the model rests; each further failure doubles the rest.
FAILURES = 3
REST = timedelta(minutes=5)
LONGEST_REST = timedelta(hours=6)
_LOOKED_AT = 12


@dataclass(frozen=True, slots=True)
class Cut:
    """A session divided into drafts that contain each message once. ``calls`` are the questions to a model that led to
    it. The first one is about the whole session; it may have failed. ``left_out`` counts messages that the model did
    not mention; ``reason`` says so, or why no model was asked, or what the segmenter cut in its place."""

    drafts: Sequence[TopicDraft]
    calls: tuple[AgentCall, ...] = ()
    left_out: int = 0
    reason: str = ""


class Cutter(Protocol):
    """Divides the messages of a session, oldest first. It is called outside of transactions and event loops."""

    def __call__(self, messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
        """Raises EmbeddingError."""


def cutter(owner: ChatUser, embedder: Embedder, open_chat: OpenChat | None) -> Cutter:
    """Returns the cutter of the chat model if one is connected, else the segmenter."""
    segmenter = Segmenter(owner, embedder)
    return ModelCutter(owner, open_chat, segmenter, embedder) if open_chat else segmenter


class OwnWords:
    """The words of the owner's messages, with which summaries leave out what is common there."""

    def __init__(self, owner: ChatUser) -> None:
        self._owner = owner

    @cached_property
    def background(self) -> StemFrequencies:
        """In a large memory, the words of a sample of some thousands."""
        ids = list(Message.objects.of(self._owner).order_by("pk").values_list("pk", flat=True))
        chosen = ids[:: len(ids) // SAMPLED + 1]
        return background(Message.objects.of(self._owner).filter(pk__in=chosen).values_list("text", flat=True))


class Segmenter:
    """The embedded cutter."""

    def __init__(self, owner: ChatUser, embedder: Embedder) -> None:
        self._words, self._embedder = OwnWords(owner), embedder

    def __call__(self, messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
        among_people = is_between_people({message.role for message in messages})
        sizes = limits.topic_chars, self._words.background, limits.least, limits.together if among_people else 1
        return Cut(async_to_sync(segment)(messages, self._embedder, *sizes))


class ModelCutter:
    """Cuts a session with a chat model, or with ``segmenter`` if the model fails."""

    def __init__(self, owner: ChatUser, open_chat: OpenChat, segmenter: Cutter, embedder: Embedder) -> None:
        self._owner, self._segmenter, self._embedder = owner, segmenter, embedder
        words = OwnWords(owner)
        self._summarise = extracted(embedder, lambda: words.background)
        self._agent = AgentCaller(owner, AGENT, open_chat)

    def __call__(self, messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
        if is_resting(self._owner):
            reason = _("Cut by the embedded segmenter: the chat model failed several times and is asked again later.")
            return replace(self._segmenter(messages, limits), reason=reason)
        question, summarise = self._question(limits), self._summarise
        return _Splitting(self._agent, self._segmenter, question, limits, summarise).cut(messages, self._embedder)

    def _question(self, limits: SessionLimits) -> Callable[[Sequence[MessageContent], Chat], Ask[Division]]:
        prompts, profile = prompt_versions.in_force_now(), content.profile(self._owner)

        def question(messages: Sequence[MessageContent], chat: Chat) -> Ask[Division]:
            return propose_topics(
                messages,
                chat=chat,
                seconds=settings.PROPOSAL_TIMEOUT,
                prompts=prompts,
                profile=profile,
                least=limits.wished,
                parts=math.ceil(_size(messages) / limits.topic_chars),
            )

        return question


@dataclass
class _Splitting:
    """The division of one session by the model."""

    agent: AgentCaller
    segmenter: Cutter
    question: Callable[[Sequence[MessageContent], Chat], Ask[Division]]
    limits: SessionLimits
    summarise: Summarise
    calls: list[AgentCall] = field(default_factory=list)
    left_out: int = 0
    reasons: dict[str, None] = field(default_factory=dict)

    def cut(self, messages: Sequence[MessageContent], embedder: Embedder) -> Cut:
        fitting = list(self._fitting(messages, self._asked(messages) or self.segmenter(messages, self.limits).drafts))
        bounds = {"least": self.limits.wished, "most_chars": self.limits.topic_chars}
        drafts = async_to_sync(joined)(fitting, messages, embedder, self.summarise, **bounds)
        return Cut(drafts, tuple(self.calls), self.left_out, " ".join(self.reasons))

    def _asked(self, messages: Sequence[MessageContent]) -> Sequence[TopicDraft]:
        """Returns the model's drafts; none if it fails or leaves out most of the messages."""
        asked = self.agent.ask_and_keep(lambda chat: self.question(messages, chat))
        self.calls.append(asked.call)
        try:
            division = asked.ask.result()
        except (LLMError, UnreadableAnswer):
            return ()
        self.left_out += division.left_out
        if division.left_out:
            self._note(left_out_words(division))
        if division.is_scant:
            return ()
        if division.unfit:
            self._note(_("Summaries of the model that could not be used were replaced by extracts."))
        return async_to_sync(fitted)(division, messages, self.summarise)

    def _note(self, reason: str) -> None:
        self.reasons[reason] = None

    def _fitting(self, messages: Sequence[MessageContent], drafts: Sequence[TopicDraft]) -> Iterator[TopicDraft]:
        """Yields the drafts. One that is too long is divided again, by the segmenter if the model did not divide."""
        for draft in drafts:
            part = _of(messages, draft)
            yield from (draft,) if self._fits(part) else self._cut_again(part, is_whole=len(part) == len(messages))

    def _cut_again(self, part: Sequence[MessageContent], *, is_whole: bool) -> Sequence[TopicDraft]:
        again = () if is_whole else self._asked(part)
        if again and all(self._fits(_of(part, small)) for small in again):
            return again
        self._note(_("What the chat model left too long for a topic was cut by the embedded segmenter."))
        return self.segmenter(part, self.limits).drafts

    def _fits(self, part: Sequence[MessageContent]) -> bool:
        return len(part) == 1 or _size(part) <= self.limits.topic_chars


def left_out_words(division: Division) -> str:
    """Says how much of a talk the model left out, and what became of it."""
    counts = {"left": division.left_out, "all": division.messages}
    if division.is_scant:
        return _("The model left out %(left)d of %(all)d messages, so the embedded segmenter cut.") % counts
    return _("The model left out %(left)d of %(all)d messages.") % counts


def _of(messages: Sequence[MessageContent], draft: TopicDraft) -> list[MessageContent]:
    chosen = set(draft.messages)
    return [message for message in messages if message.id in chosen]


def _size(messages: Sequence[MessageContent]) -> int:
    return sum(len(message.text) for message in messages)


def is_resting(owner: ChatUser) -> bool:
    """Whether the model failed so often in a row that it is not asked about the owner's sessions now."""
    calls = AgentCall.objects.filter(owner=owner, agent=AGENT.name).order_by("-pk")
    failed = list(takewhile(lambda call: call[0], calls.values_list("outcome", "at")[:_LOOKED_AT]))
    if len(failed) < FAILURES:
        return False
    rest: timedelta = min(REST * 2 ** (len(failed) - FAILURES), LONGEST_REST)
    return waits(failed[0][1] + rest, rest)
