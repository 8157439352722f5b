"""One bounded question of an agent to a chat model, and the reading of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat, LLMError, LLMTimeout, Reply
from memoryapp.engine.conversation import Conversation, Failure, TurnLimits
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import Event, ModelProgress, ModelReplied
from memoryapp.engine.notes import Note
from memoryapp.engine.prompts.language import ANSWER_AGAIN, ANSWER_CUT
from memoryapp.engine.prompts.prompt import PromptText
from memoryapp.engine.text.json_answers import breaks_off
from memoryapp.engine.threads import in_thread_if_long

# What a chat endpoint says when the model reached its limit of tokens.
CUT_REASON = "length"

_Answer = TypeVar("_Answer")


class UnreadableAnswer(Exception):
    """The model answered twice, and neither answer could be read."""


class CutAnswer(UnreadableAnswer):
    """The answer ended before it was complete: at the model's limit of tokens, or in the middle of its JSON."""


class Incomplete(Exception):
    """Raised by ``read`` for an answer that lacks something. ``request`` asks the model for what is missing; ``answer``
    is used when the model gives no better one."""

    def __init__(self, answer: Any, request: str) -> None:
        super().__init__(request)
        self.answer, self.request = answer, request


class Ask(Generic[_Answer]):
    """One question to a model; ``read`` turns its answer into a value, or returns None when it cannot.

    When the answer is unreadable, cut off or ``Incomplete``, the model is asked again, up to ``tries`` times in all,
    within ``seconds``. A cut answer is never read. With ``is_listing``, one that reached the model's limit is not asked
    for again: a complete list would be as long the next time. With ``is_covering``, ``read`` itself sees by what the
    answer covers whether its JSON broke off. With ``needs_media`` the model is never asked without the media.
    ``events`` are those so far; at the end there is either an ``answer`` or a ``failure``. When an ``answer`` is given
    at the start, the model is not asked.
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
        is_listing: bool = False,
        is_covering: bool = False,
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
        self._is_listing = is_listing
        self._has_end = schema is not None and not is_covering
        self._seconds = seconds
        self._outcome: Reply | Failure | None = None
        self._incomplete: Incomplete | None = None
        limits = TurnLimits(seconds, seconds, empty_replies=1, needs_media=needs_media)
        self._conversation = Conversation(chat, text, variables, limits=limits, media=media)

    @property
    def key(self) -> str:
        """The same text for the same question to the same model."""
        return self._conversation.fingerprint

    def reuse(self, replies: Sequence[str]) -> bool:
        """Takes the last of the earlier ``replies`` that can be read as the answer; False when none can."""
        for text in reversed([text for text in replies if not self._is_cut(text)]):
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
        return self._conversation.waited

    @property
    def usage(self) -> Usage:
        """The usage of all turns together."""
        replies = [event for event in self.events if isinstance(event, ModelReplied)]
        return sum((reply.usage for reply in replies), Usage())

    async def complete(self, emit: Emit = unheard) -> Self:
        """Asks the model to the end."""

        def heard(event: Event | ModelProgress) -> None:
            if not isinstance(event, ModelProgress):
                self.events.append(event)
            emit(event)

        await self._complete(heard)
        if self.answer is None and self._incomplete:
            self.answer, self.failure = self._incomplete.answer, None
        return self

    async def _complete(self, emit: Emit) -> None:
        for attempt in range(self._tries):
            if self.answer is not None:
                return
            if attempt:
                self._ask_again()
            self._outcome = await self._conversation.turn(emit, schema=self._schema)
            if isinstance(self._outcome, Reply):
                self.failure = await self._failure_of(self._outcome)
                if self._is_listing and self._outcome.finish_reason == CUT_REASON:
                    return
            else:
                self.failure = self._outcome
                if self.failure.cause != "empty_response":
                    return

    async def _failure_of(self, reply: Reply) -> Failure | None:
        """Reads the reply; returns why it is no answer, None if it is one."""
        if self._is_cut(reply.text, reply.finish_reason):
            return Failure("cut", reply.text)
        try:
            self.answer = await self._understood(reply.text)
        except CutAnswer:
            return Failure("cut", reply.text)
        return None if self.answer is not None else Failure("parse_error", reply.text)

    def _is_cut(self, text: str, finish_reason: str = "") -> bool:
        return finish_reason == CUT_REASON or self._has_end and breaks_off(text)

    async def _understood(self, text: str) -> _Answer | None:
        try:
            return await in_thread_if_long(self._read, text, size=len(text))
        except Incomplete as incomplete:
            self._incomplete = incomplete
            return None

    def _ask_again(self) -> None:
        """Adds to the conversation what was wrong, unless the reply was empty or called a tool that does not exist."""
        if isinstance(self._outcome, Reply) and not self._outcome.tool_calls:
            self._conversation.keep(self._outcome)
            incomplete = self._incomplete.request if self._incomplete else ""
            again = ANSWER_CUT if self.failure and self.failure.cause == "cut" else ANSWER_AGAIN
            self._conversation.say(incomplete or again[self.prompt.language])

    def result(self) -> _Answer:
        """The answer. Raises LLMTimeout or LLMError when the model gave none, UnreadableAnswer when none
        could be read, CutAnswer when it was cut off."""
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
            case "cut":
                raise CutAnswer("The model's answer was cut off before its end, so it could not be read.")
        raise UnreadableAnswer("The model answered, and its answer could not be read.")
