"""A chat model that answers its first requests as another run's model did, and then asks for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, PartialReply, Reply
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.notes import Note


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """How a model answered once. ``system`` is the system message of the conversation that it opened; it is empty where
    that was another one, or may differ now."""

    outcome: Reply | LLMError
    system: str = ""


class RecordedChat:
    """Answers with the ``replies``, in order, and then asks ``chat``."""

    def __init__(self, chat: Chat, replies: Sequence[RecordedReply]) -> None:
        self.model = chat.model
        self._chat = chat
        self._left = list(replies)

    def beside(self, chat: Chat) -> RecordedChat:
        """The same replies in the same order, before another model is asked."""
        other = RecordedChat(chat, ())
        other._left = self._left
        return other

    def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]:
        return _recorded(self._left.pop(0), request) if self._left else self._chat.converse(request)


async def _recorded(reply: RecordedReply, request: ChatRequest) -> AsyncIterator[Reply]:
    """Raises what the model raised, and LLMError when the request belongs to another conversation."""
    if reply.system and reply.system != request.messages[0]["content"]:
        raise LLMError(Note("not_replayable"))
    if isinstance(reply.outcome, LLMError):
        raise reply.outcome
    yield reply.outcome
