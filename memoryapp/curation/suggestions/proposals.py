"""Proposals of models for a curator: the parts of a topic, a summary, similar topics; and other wordings of a question.

A connected chat model is asked when a person presses a button, and for the summaries of parts when a person looks at a
change; always outside of any transaction. Each question is stored with its events as an ``AgentCall``. A proposal does
not change the memory: the person edits it and commits it like a text of their own. Proposals of the embedder and the
segmenter need no chat model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.engine.agents import merger, paraphraser, splitter
from memoryapp.engine.agents.ask import Ask, UnreadableAnswer
from memoryapp.engine.agents.merger import MergeVerdict, judge_merge, propose_summary
from memoryapp.engine.agents.paraphraser import paraphrase
from memoryapp.engine.agents.splitter import fitted, propose_topics
from memoryapp.engine.chat.protocol import Chat, LLMError
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicContent, TopicDraft
from memoryapp.engine.notes import Note
from memoryapp.engine.text.answers import clipped
from memoryapp.memory import content as reading
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, Message, Topic
from memoryapp.platform import metrics
from memoryapp.platform.llm import clients, prompt_versions
from memoryapp.platform.llm.agent_calls import AgentCaller, AnsweredCall, OpenChat
from memoryapp.search import profiles
from memoryapp.search.neighbours import NearestRows, Neighbour, nearest, nearest_rows

Proposal = TypeVar("Proposal")
# As many topics on each side are neighbours, whose summaries no other one has.
_BESIDE = 100


class ProposalError(Exception):
    """No proposal was made; the text is a sentence for people, ``note`` the model's part of it as a code, if any."""

    def __init__(self, sentence: str, note: Note | None = None) -> None:
        super().__init__(sentence)
        self.note = note


def is_model_connected() -> bool:
    """Whether a chat model that can write is connected; the embedded one only selects."""
    return bool(settings.LLM_BASE_URL)


def topics_proposed(owner: ChatUser, topic: Topic, asked_by: str) -> list[TopicDraft]:
    """The drafts into which the model would divide ``topic``: in order, each of consecutive messages, all of them
    together. Raises ProposalError with a sentence for people. May not be called in an event loop or a transaction."""
    _check_connected()
    messages = [content(row) for row in Message.objects.of(owner).filter(topic=topic).in_order()]
    agent = AgentCaller(owner, splitter.AGENT, clients.open_chat, asked_by)
    question = partial(
        propose_topics,
        messages,
        seconds=settings.PROPOSAL_TIMEOUT,
        prompts=prompt_versions.in_force_now(),
        profile=reading.profile(owner),
        least=owner.topic_messages or 1,
    )
    with metrics.splitting(owner.pk):
        division = _answer(agent, [topic], lambda chat: question(chat=chat))
    if division.is_scant:
        counts = {"left": division.left_out, "all": division.messages}
        sentence = _("The model left out %(left)d of %(all)d messages. It may do better when asked again.")
        raise ProposalError(sentence % counts)
    return async_to_sync(fitted)(division, messages, curation.extracted(_embedder()))


def summary_proposed(owner: ChatUser, topics: Sequence[Topic], asked_by: str) -> str:
    """Returns the model's summary of ``topics`` merged into one, at most 500 characters; the most telling sentences if
    the model wrote none that can be used. Raises ProposalError with a sentence for people. May not be called in an
    event loop or a transaction."""
    merged = _contents(owner, topics)
    return _summary_asked(owner, topics, merged, asked_by) or _extract_of(merged)


def summary_written(owner: ChatUser, topic: Topic, asked_by: str) -> str:
    """Returns the model's summary of one topic. Raises ProposalError, also where it wrote none that can be used."""
    summary = _summary_asked(owner, [topic], _contents(owner, [topic]), asked_by)
    if not summary:
        raise ProposalError(_("The model's answer cannot be used. It may do better when asked again."))
    return summary


def part_summary(owner: ChatUser, topics: Sequence[Topic], messages: Sequence[MessageContent]) -> str:
    """Returns the model's summary of ``messages`` of these topics, which are to become one topic. Nobody pressed a
    button for it, so a stored answer is used. Raises ProposalError, also where it wrote none that can be used."""
    size = sum(len(message.text) for message in messages)
    part = TopicContent(topics[0].pk, "", messages[0].sent_at, size, tuple(messages))
    summary = _summary_asked(owner, topics, [part], "")
    if not summary:
        raise ProposalError(_("The model's answer cannot be used. It may do better when asked again."))
    return summary


def _summary_asked(owner: ChatUser, topics: Sequence[Topic], merged: Sequence[TopicContent], asked_by: str) -> str:
    """Empty if the model wrote none that can be used."""
    _check_connected()
    prompts, seconds = prompt_versions.in_force_now(), settings.PROPOSAL_TIMEOUT
    agent = AgentCaller(owner, merger.AGENT, clients.open_chat, asked_by)
    with metrics.merging(owner.pk):
        others = _summaries_beside(owner, topics)
        question = partial(propose_summary, merged, seconds=seconds, prompts=prompts, others=others)
        return _answer(agent, topics, lambda chat: question(chat=chat))


def paraphrases_proposed(owner: ChatUser, question: str, asked_by: str) -> list[str]:
    """Other wordings of ``question`` by the model, each one line, at least one. Raises ProposalError with a sentence
    for people. May not be called in an event loop or a transaction."""
    _check_connected()
    prompts, seconds = prompt_versions.in_force_now(), settings.PROPOSAL_TIMEOUT
    agent = AgentCaller(owner, paraphraser.AGENT, clients.open_chat, asked_by)
    today = timezone.localdate()
    return _answer(
        agent, [], lambda chat: paraphrase(question, chat=chat, today=today, seconds=seconds, prompts=prompts)
    )


def merge_judged(owner: ChatUser, topics: Sequence[Topic], asked_by: str) -> AnsweredCall[MergeVerdict]:
    """Whether the model judges that ``topics`` are one; it is asked again each time. Raises ProposalError with a
    sentence for people. May not be called in an event loop or a transaction."""
    _check_connected()
    with _failures_in_words():
        return merge_judged_by(clients.open_chat, owner, topics, asked_by)


def merge_judged_by(
    open_chat: OpenChat, owner: ChatUser, topics: Sequence[Topic], asked_by: str = ""
) -> AnsweredCall[MergeVerdict]:
    """``merge_judged`` with a model that the caller opens. Without a person who asks, a stored answer may be used. A
    summary that cannot be used is replaced by the most telling sentences; the verdict's ``fault`` says so. Raises
    LLMError, UnreadableAnswer."""
    judged = _contents(owner, topics)
    prompts, seconds = prompt_versions.in_force_now(), settings.PROPOSAL_TIMEOUT
    agent = AgentCaller(owner, merger.AGENT, open_chat, asked_by)
    with metrics.merging(owner.pk):
        others = _summaries_beside(owner, topics)
        question = partial(judge_merge, judged, seconds=seconds, prompts=prompts, others=others)
        answered = agent.ask(lambda chat: question(chat=chat), topics)
    if not answered.answer.fault:
        return answered
    return AnsweredCall(replace(answered.answer, summary=_extract_of(judged)), answered.call)


def _extract_of(topics: Sequence[TopicContent]) -> str:
    """The most telling sentences of all topics together, as long as a model's summary may be."""
    messages = sorted((m for topic in topics for m in topic.messages), key=lambda m: (m.sent_at, m.id))
    return clipped(summary_extracted(messages), LONGEST_SUMMARY)


def summariser() -> Callable[[Sequence[MessageContent]], str]:
    """Returns a function that extracts the most informative sentences; do not call it in an event loop."""
    return curation.extractive(_embedder())


def summary_extracted(messages: Sequence[MessageContent]) -> str:
    """Returns the most informative sentences of the messages; do not call it in an event loop."""
    return summariser()(messages)


def topics_segmented(owner: ChatUser, topic_id: int) -> list[TopicDraft]:
    """Returns the drafts into which the segmenter would divide the topic; see ``curation.propose_split``."""
    return curation.propose_split(owner, topic_id, _embedder(), settings.SPLIT_THRESHOLD_CHARS)


def topics_alike(owner: ChatUser, words: str, most: int) -> list[Neighbour]:
    """Returns the owner's live topics nearest in meaning to ``words``; none while the embedder does not answer."""
    embedder = _embedder()
    try:
        [vector] = async_to_sync(embedder.embed)([words])
    except EmbeddingError:
        return []
    return nearest(owner, vector.tolist(), embedder.profile, most)


def rows_alike(owner: ChatUser, words: str) -> NearestRows:
    """What is nearest to ``words``, as a recall would find it. Do not call it in an event loop."""
    row = profiles.serving()
    return nearest_rows(owner, words, clients.embedder_of(profiles.profile_of(row)), row.pk)


def _embedder() -> Embedder:
    """Returns the embedder of the serving profile, in which topics have vectors."""
    return clients.embedder_of(profiles.serving_profile())


def _check_connected() -> None:
    if not is_model_connected():
        raise ProposalError(_("No chat model is connected to make a proposal."))


def _answer(agent: AgentCaller, topics: Sequence[Topic], question: Callable[[Chat], Ask[Proposal]]) -> Proposal:
    """Asks and returns the proposal. Raises ProposalError."""
    with _failures_in_words():
        return agent.ask(question, topics).answer


@contextmanager
def _failures_in_words() -> Iterator[None]:
    """Turns the failures of a model into a ProposalError."""
    try:
        yield
    except LLMError as error:
        raise ProposalError(_("The model made no proposal: %(why)s") % {"why": error}, error.note) from error
    except UnreadableAnswer as error:
        raise ProposalError(_("The model's answer cannot be used. It may do better when asked again.")) from error


def _summaries_beside(owner: ChatUser, topics: Sequence[Topic]) -> list[str]:
    """The summaries of the topics before and after these, in time."""
    rest = Topic.objects.of(owner).live().exclude(pk__in=[topic.pk for topic in topics])
    last = max(topic.ended_at for topic in topics)
    earlier = rest.filter(ended_at__lt=last).order_by("-ended_at", "-pk")
    later = rest.filter(ended_at__gte=last).order_by("ended_at", "pk")
    return [summary for side in (earlier, later) for summary in side.values_list("summary", flat=True)[:_BESIDE]]


def _contents(owner: ChatUser, topics: Sequence[Topic]) -> list[TopicContent]:
    messages: dict[int | None, list[MessageContent]] = {topic.pk: [] for topic in topics}
    for row in Message.objects.of(owner).filter(topic__in=topics).in_order():
        messages[row.topic_id].append(content(row))
    return [
        TopicContent(topic.pk, topic.summary, topic.started_at, topic.size_chars, tuple(messages[topic.pk]))
        for topic in topics
    ]
