"""One bounded question of an agent to a chat model, and the reading of its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, Self, TypeVar

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat, LLMError, LLMTimeout
from memoryapp.engine.conversation import Conversation, Failure, TurnLimits
from memoryapp.engine.events import Event, ModelProgress, ModelReplied
from memoryapp.engine.notes import Note
from memoryapp.engine.prompts import ANSWER_AGAIN, PromptText
from memoryapp.engine.threads import apart

_Answer = TypeVar("_Answer")


class UnreadableAnswer(Exception):
    """The model answered twice, and neither answer could be read."""


class Incomplete(Exception):
    """Raised by ``read`` for an answer that lacks something. ``request`` asks the model for what is missing; ``answer``
    is used when the model gives no better one."""

    def __init__(self, answer: Any, request: str) -> None:
        super().__init__(request)
        self.answer, self.request = answer, request


class Ask(Generic[_Answer]):
    """One question to a model; ``read`` turns its answer into a value, or returns None when it cannot.

    When the answer is unreadable or ``Incomplete``, the model is asked again, up to ``tries`` times in all, within
    ``seconds``. With ``needs_media`` the model is never asked without the media. ``events`` are those so far; at the
    end there is either an ``answer`` or a ``failure``. When an ``answer`` is given at the start, the model is not
    asked.
    """

    def __init__(
        self,
        chat: Chat,
        text: PromptText,
        variables: Mapping[str, str],
        *,
        read: Callable[[str], _Answer | None],
        seconds: float,
        schema: Mapping[str, Any] | None = None,
        media: Sequence[MediaContent] = (),
        needs_media: bool = False,
        tries: int = 2,
        answer: _Answer | None = None,
    ) -> None:
        self.answer = answer
        self.failure: Failure | None = None
        self.events: list[Event] = []
        self.prompt = text
        self.model = chat.model
        self._read = read
        self._schema = schema
        self._tries = tries
        self._seconds = seconds
        self._incomplete: Incomplete | None = None
        limits = TurnLimits(seconds, seconds, empty_replies=1, needs_media=needs_media)
        self._conversation = Conversation(chat, text, variables, limits=limits, media=media)

    @property
    def key(self) -> str:
        """The same text for the same question to the same model."""
        return self._conversation.fingerprint

    def reuse(self, replies: Sequence[str]) -> bool:
        """Takes the last of the earlier ``replies`` that can be read as the answer; False when none can."""
        for text in reversed(replies):
            try:
                self.answer = self._read(text)
            except Incomplete as incomplete:
                self.answer = incomplete.answer
            if self.answer is not None:
                return True
        return False

    @property
    def spent_seconds(self) -> float:
        """The seconds spent waiting for the model."""
        return self._conversation.budget.spent

    @property
    def usage(self) -> Usage:
        """The usage of all turns together."""
        replies = [event for event in self.events if isinstance(event, ModelReplied)]
        return sum((reply.usage for reply in replies), Usage())

    async def turns(self) -> AsyncGenerator[Event | ModelProgress, None]:
        """Asks the model, and yields the events."""
        async with aclosing(self._turns()) as events:
            async for event in events:
                yield event
        if self.answer is None and self._incomplete:
            self.answer, self.failure = self._incomplete.answer, None

    async def _turns(self) -> AsyncGenerator[Event | ModelProgress, None]:
        for attempt in range(self._tries):
            if self.answer is not None:
                return
            if attempt:
                self._ask_again()
            async with aclosing(self._conversation.turn(schema=self._schema)) as events:
                async for event in events:
                    if not isinstance(event, ModelProgress):
                        self.events.append(event)
                    yield event
            self.failure = self._conversation.failure
            reply = self._conversation.reply
            if reply and not self.failure:
                self.answer = await self._understood(reply.text)
                self.failure = None if self.answer is not None else Failure("parse_error", reply.text)
            elif self.failure and self.failure.cause != "empty_response":
                return

    async def _understood(self, text: str) -> _Answer | None:
        try:
            return await apart(self._read, text, size=len(text))
        except Incomplete as incomplete:
            self._incomplete = incomplete
            return None

    def _ask_again(self) -> None:
        """Adds to the conversation what was wrong, unless the reply was empty or called a tool that does not exist."""
        reply = self._conversation.reply
        if reply and not reply.tool_calls:
            self._conversation.keep_reply()
            incomplete = self._incomplete.request if self._incomplete else ""
            self._conversation.say(incomplete or ANSWER_AGAIN[self.prompt.language])

    async def complete(self) -> Self:
        """Asks the model to the end."""
        async with aclosing(self.turns()) as events:
            async for _ in events:
                pass
        return self

    def result(self) -> _Answer:
        """The answer. Raises LLMTimeout or LLMError when the model gave none, UnreadableAnswer when none
        could be read."""
        if self.answer is not None:
            return self.answer
        failure = self.failure or Failure("empty_response")
        match failure.cause:
            case "timeout" | "turn_timeout":
                late = Note("question_late", {"seconds": self._seconds})
                raise LLMTimeout(failure.note or failure.words or late)
            case "llm_error":
                raise LLMError(failure.note or failure.words)
            case "refused":
                raise LLMError(Note("model_refused", {"quoted": failure.words.rstrip(".")}))
            case "content_filter":
                raise LLMError(Note("answer_filtered", {"quoted": failure.words.rstrip(".")}))
        raise UnreadableAnswer("The model answered, and its answer could not be read.")
