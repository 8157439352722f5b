"""One bounded question of an agent to a chat model, and the reading of its answer."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat, LLMError, LLMTimeout, Reply
from memoryapp.engine.conversation import Conversation, Failure, TurnLimits
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import Event, ModelProgress, ModelReplied
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.notes import Note
from memoryapp.engine.prompts.prompt import ANSWER_AGAIN, ANSWER_CUT, BuiltInPrompt, Language, PromptText, language_of
from memoryapp.engine.text.answers import breaks_off, clipped
from memoryapp.engine.text.lines import quoted
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
    at the start, the model is not asked."""

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


# An agent as a value: its name, its prompts, its model, and the stage that its costs belong to.


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that is asked outside of runs, so that each of its questions is stored as a call. ``name`` is stored
    with the call, ``label`` is the English word for people. ``model`` names the setting with its model. ``stage`` is
    the stage of background work that its costs belong to, or ``runs`` for those of recalls."""

    name: str
    label: str
    prompts: tuple[BuiltInPrompt, ...]
    model: str
    stage: str


# Messages as an agent's model reads them: one JSON object a line, within a number of characters.
#
# Long texts are clipped first, all of them to the same length. When even short texts are too many, one line
# represents several consecutive messages. The text begins with notes about both, so the model knows that something is
# left out.

MOST_CHARS = 60_000
# What the JSON around each text takes.
_LINE_CHARS = 100
# When texts would have to be clipped to less than this, a line represents several messages.
_LEAST_TEXT_CHARS = 100
# The language of messages is that of the beginnings of the first ones.
_OPENING_CHARS = 120
_OPENINGS = 200


class MessageLines:
    """The lines of ``messages``, oldest first, in about ``chars`` characters. Each line represents ``step`` consecutive
    messages and shows the first of them."""

    def __init__(self, messages: Sequence[MessageContent], chars: int) -> None:
        self._messages = messages
        most = max(chars // (_LINE_CHARS + _LEAST_TEXT_CHARS), 1)
        self.step = math.ceil(len(messages) / most) or 1
        self._shown = messages[:: self.step]
        lengths = [len(message.text) for message in self._shown]
        self._clip = _even(lengths, max(chars - _LINE_CHARS * len(self._shown), 0))

    def text(self) -> str:
        is_clipped = any(len(message.text) > self._clip for message in self._shown)
        notes = [
            f"Texts are clipped to {self._clip} characters." if is_clipped else "",
            f"There are {len(self._messages)} messages; a line stands for up to {self.step} of them and tells "
            "the first."
            if self.step > 1
            else "",
        ]
        return "\n".join([*filter(None, notes), *map(self._line, self._shown)])

    def _line(self, message: MessageContent) -> str:
        fields = {
            "id": message.id,
            "role": message.role,
            "date": f"{message.sent_at:%Y-%m-%d %H:%M}",
            "text": clipped(quoted(message.text), self._clip),
        }
        return json.dumps(fields, ensure_ascii=False)


def language_of_messages(messages: Sequence[MessageContent]) -> Language:
    """The language of most of the text."""
    return language_of(" ".join(message.text[:_OPENING_CHARS] for message in messages[:_OPENINGS]))


def _even(lengths: Sequence[int], chars: int) -> int:
    """The length to which texts must be clipped so that together they have at most ``chars`` characters."""
    for left, length in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
        if length * left > chars:
            return chars // left
        chars -= length
    return max(lengths, default=0)
