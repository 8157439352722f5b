"""What the chat model proposes to a curator, where one is connected: parts of a topic, a summary for a merge.

It is asked when a person presses a button, outside of any transaction, and writes nothing: the person sees the
proposal, changes it and commits it, as if they had typed it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext as _

from memoryapp import clients, metrics
from memoryapp.contents import content
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.llm import Chat, ChatRequest, LLMError, Progress, Reply, Usage
from memoryapp.engine.memory import MessageContent, TopicContent, TopicDraft
from memoryapp.engine.proposing import ProposalError, propose_summary, propose_topics
from memoryapp.models import ChatUser, Message, Topic

__all__ = ["ProposalError", "is_model_connected", "summary_proposed", "topics_proposed"]

_Step = Retried | SteppedDown | Progress | Reply
Proposal = TypeVar("Proposal")


class _Counted:
    """A chat whose calls count as those of ``agent``."""

    def __init__(self, chat: Chat, agent: str, owner: int) -> None:
        self.model = chat.model
        self._chat, self._agent, self._owner = chat, agent, owner

    async def converse(self, request: ChatRequest) -> AsyncIterator[_Step]:
        try:
            async with aclosing(cast("AsyncGenerator[_Step, None]", self._chat.converse(request))) as said:
                async for step in said:
                    if isinstance(step, Reply):
                        self._count("answered", Usage(step.input_tokens, step.output_tokens, step.cost_usd))
                    yield step
        except LLMError as error:
            self._count("failed", error.spent)
            raise

    def _count(self, outcome: str, spent: Usage) -> None:
        metrics.model_called(self._agent, outcome, spent, self._owner)


def is_model_connected() -> bool:
    """Whether there is a model that writes; the embedded one only chooses."""
    return bool(settings.LLM_BASE_URL)


def topics_proposed(owner: ChatUser, topic: Topic) -> list[TopicDraft]:
    """How the model would cut ``topic``: drafts in order, each a run of its messages, together all of them.

    Raises ProposalError with a sentence for people. May not be called in an event loop or a transaction.
    """
    _check_connected()
    messages = [content(row) for row in Message.objects.of(owner).filter(topic=topic).in_order()]
    with metrics.splitting(owner.pk):
        return _proposed(_topics(owner.pk, messages))


def summary_proposed(owner: ChatUser, topics: Sequence[Topic]) -> str:
    """What the model would call ``topics`` as one, in at most 500 characters.

    Raises ProposalError with a sentence for people. May not be called in an event loop or a transaction.
    """
    _check_connected()
    told = _contents(owner, topics)
    with metrics.merging(owner.pk):
        return _proposed(_summary(owner.pk, told))


def _check_connected() -> None:
    if not is_model_connected():
        raise ProposalError(_("No chat model is connected that could make a proposal."))


async def _topics(owner: int, messages: Sequence[MessageContent]) -> list[TopicDraft]:
    async with clients.open_chat(settings.SPLITTER_MODEL) as chat:
        counted = _Counted(chat, "splitter", owner)
        return await propose_topics(messages, chat=counted, seconds=settings.PROPOSAL_TIMEOUT)


async def _summary(owner: int, topics: Sequence[TopicContent]) -> str:
    async with clients.open_chat(settings.MERGER_MODEL) as chat:
        counted = _Counted(chat, "merger", owner)
        return await propose_summary(topics, chat=counted, seconds=settings.PROPOSAL_TIMEOUT)


def _proposed(asked: Coroutine[Any, Any, Proposal]) -> Proposal:
    async def answered() -> Proposal:
        return await asked

    try:
        return async_to_sync(answered)()
    except LLMError as error:
        raise ProposalError(_("The model made no proposal: %(why)s") % {"why": error}) from error
    except ProposalError as error:
        raise ProposalError(_("The model's answer cannot be used. It may do better when asked again.")) from error


def _contents(owner: ChatUser, topics: Sequence[Topic]) -> list[TopicContent]:
    said: dict[int | None, list[MessageContent]] = {topic.pk: [] for topic in topics}
    for row in Message.objects.of(owner).filter(topic__in=topics).in_order():
        said[row.topic_id].append(content(row))
    return [
        TopicContent(topic.pk, topic.summary, topic.started_at, topic.size_chars, tuple(said[topic.pk]))
        for topic in topics
    ]
