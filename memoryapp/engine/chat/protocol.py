"""The chat model as the engine sees it: one protocol, two kinds of peer.

``Chat.converse`` is an async generator: what the client does on the way (a retry, a capability given
up) is yielded as events, the text that the model has sent so far as ``PartialReply``, and at last the ``Reply``.
``client.HttpChat`` speaks to any OpenAI-compatible endpoint over one shared httpx client; the embedded model
implements the same protocol in ``offline.scorer``.

    LLMError
    ├── LLMTimeout       no answer within the time given
    ├── LLMRefused       the endpoint says no: 400, 401, 402, 403, 404 (never tried again)
    └── LLMUnavailable   408, 429, 5xx, a broken line, HTTP 200 that carries an error"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from memoryapp.engine.budget import Usage
from memoryapp.engine.events import Retried, SteppedDown, ToolCall
from memoryapp.engine.notes import Note, NotedError, Notes
from memoryapp.engine.text.answers import breaks_off


class LLMError(NotedError):
    """The chat model gave no answer. ``spent`` holds what the failed tries were billed, where the endpoint reported it;
    ``status`` is HTTP's, 0 where the endpoint answered with none."""

    def __init__(self, sentence: str | Note, *, spent: Usage | None = None, status: int = 0) -> None:
        super().__init__(sentence)
        self.spent = spent or Usage()
        self.status = status


class LLMTimeout(LLMError):
    """No answer within the given time."""


class LLMRefused(LLMError):
    """The endpoint refuses this request and would refuse it again."""


class LLMUnavailable(LLMError):
    """The endpoint cannot answer at the moment."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One turn. ``messages`` and ``tools`` are in OpenAI's chat format.

    ``force_tool`` names the tool that must be called. ``tools_off`` holds tools that the conversation has used and that
    may not be called in this turn; some providers require them to be declared anyway. ``answer_schema`` is the JSON
    schema of the answer (None asks for no format). ``seconds`` bounds all attempts together."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    force_tool: str = ""
    tools_off: Sequence[Mapping[str, Any]] = ()
    answer_schema: Mapping[str, Any] | None = None
    seconds: float = 10.0


# The reasons of OpenAI, Google and Anthropic for an answer that ran into its limit.
_AT_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
# OpenAI's reason, Zhipu's, and Google's own, which gateways hand through.
_FILTERED = ("content_filter", "sensitive", "safety", "prohibited_content", "recitation", "blocklist", "spii")


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's reply. ``message`` is the assistant message to send back unmodified; the ids in ``tool_calls`` may
    differ.

    ``refusal`` holds the words with which the model refused to answer. An empty ``text`` without tool calls is
    possible: the reply is empty. ``usage`` counts all attempts; ``provider`` is who served the request, if a router
    says so. ``notes`` say where the reply was read in another way than it came."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    message: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()
    model: str = ""
    finish_reason: str = ""
    provider: str = ""
    refusal: str = ""
    notes: Notes = ()

    def noted(self, code: str, **values: Any) -> Reply:
        return replace(self, notes=(*self.notes, Note(code, values)))

    @property
    def is_at_limit(self) -> bool:
        """Whether the model reached its limit of tokens."""
        return self.finish_reason.lower() in _AT_LIMIT

    @property
    def breaks_off(self) -> bool:
        """Whether the text is JSON that lacks its end."""
        is_json = not self.tool_calls and self.text.lstrip().startswith(("{", "[", "```"))
        return is_json and breaks_off(self.text)

    @property
    def declined(self) -> Literal["refused", "content_filter", ""]:
        """The reason why a reply contains no answer; empty when it contains one."""
        if self.finish_reason.lower().startswith(_FILTERED):
            return "content_filter"
        return "refused" if self.refusal or self.finish_reason == "refusal" else ""


@dataclass(frozen=True, slots=True)
class PartialReply:
    """The text that the model has sent so far in a streamed reply, from the beginning."""

    text: str
    reasoning: str


class Chat(Protocol):
    """A chat model. Raises LLMError from ``converse`` when no reply can be had."""

    model: str

    def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]: ...


# A chat model that answers its first requests as another run's model did, and then asks for itself.


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
