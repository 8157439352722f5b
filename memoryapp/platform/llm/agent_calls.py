"""Calls of agents: each question to a chat model is stored with every event of its conversation.

A question is asked outside of transactions and event loops, and stored before its answer is used. Every answer is paid
for once: if the same question was asked of the same model for the same chat user, the stored answer is used, so a
killed process does not ask again. A process that is killed between the arrival of a reply and its row does ask again,
at most one question for each kill; only a provider that recognises repeated questions could prevent that."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from asgiref.sync import async_to_sync
from django.conf import settings

from memoryapp.engine.agents.ask import CUT_REASON, Agent, Ask
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.events import ModelReplied, raw_message, to_payload
from memoryapp.models import AgentCall, ChatUser, Topic
from memoryapp.platform import metrics
from memoryapp.platform.caps import check_cap

_Answer = TypeVar("_Answer")

# Opens the chat model of a name for the running event loop, see ``clients.open_chat``.
OpenChat = Callable[[str], AbstractAsyncContextManager[Chat]]


@dataclass(frozen=True, slots=True)
class AnsweredCall(Generic[_Answer]):
    """An answer, and the row of its question."""

    answer: _Answer
    call: AgentCall


@dataclass(frozen=True, slots=True)
class StoredAsk(Generic[_Answer]):
    """A question that was asked to its end, answered or not, and its row."""

    ask: Ask[_Answer]
    call: AgentCall


@dataclass(frozen=True, slots=True)
class AgentCaller:
    """Puts questions of an ``agent`` about ``owner``'s memory to the model of its setting. ``asked_by`` is the person
    who requested it, empty for none."""

    owner: ChatUser
    agent: Agent
    open_chat: OpenChat
    asked_by: str = ""

    @property
    def model(self) -> str:
        return str(getattr(settings, self.agent.model))

    def ask(self, question: Callable[[Chat], Ask[_Answer]], topics: Sequence[Topic] = ()) -> AnsweredCall[_Answer]:
        """Returns the answer to ``question`` about ``topics``; for a person the model is always asked again. Raises
        LLMError (LLMTimeout) when the model gave no answer, UnreadableAnswer when it could not be read; the question is
        stored either way."""
        asked = self.ask_and_keep(question, topics)
        return AnsweredCall(asked.ask.result(), asked.call)

    def ask_and_keep(
        self, question: Callable[[Chat], Ask[_Answer]], topics: Sequence[Topic] = ()
    ) -> StoredAsk[_Answer]:
        """``ask`` for callers who also need the row of a question without an answer. Both raise CapReached before a
        question that would pass a cap; then work of the background waits until the day turns."""
        check_cap(self.owner, self.agent.name)
        ask, kept = async_to_sync(self._complete)(question)
        return StoredAsk(ask, kept or self._keep(ask, topics))

    async def _complete(self, question: Callable[[Chat], Ask[_Answer]]) -> tuple[Ask[_Answer], AgentCall | None]:
        async with self.open_chat(self.model) as chat:
            ask = question(chat)
            asked = AgentCall.objects.filter(owner=self.owner, key=ask.key, outcome="", agent=self.agent.name)
            kept = None if self.asked_by else await asked.order_by("-pk").afirst()
            if kept and ask.reuse(_replies(kept)):
                return ask, kept
            return await ask.complete(), None

    def _keep(self, ask: Ask[Any], topics: Sequence[Topic]) -> AgentCall:
        replies = [event for event in ask.events if isinstance(event, ModelReplied)]
        for reply in replies:
            metrics.model_called(self.agent.name, "failed" if reply.error else "answered", reply.usage, self.owner.pk)
        return AgentCall.objects.create(
            owner=self.owner,
            agent=self.agent.name,
            topics=[topic.pk for topic in topics],
            key=ask.key,
            asked_by=self.asked_by[:150],
            model=(replies[-1].model if replies else ask.model)[:200],
            prompt_version=ask.prompt.label,
            outcome=ask.failure.cause if ask.failure else "",
            input_tokens=ask.usage.input_tokens,
            output_tokens=ask.usage.output_tokens,
            cost_usd=ask.usage.cost_usd,
            seconds=round(ask.spent_seconds, 6),
            events=[
                {"kind": event.kind, "payload": to_payload(event), **({"message": raw} if raw else {})}
                for event, raw in zip(ask.events, map(raw_message, ask.events), strict=True)
            ],
        )


def _replies(call: AgentCall) -> list[str]:
    """Returns the texts of the model's replies, without those that were cut off or failed."""
    replies = (event["payload"] for event in call.events if event["kind"] == ModelReplied.kind)
    return [str(each["text"]) for each in replies if each.get("finish_reason") != CUT_REASON and not each.get("error")]
