"""What each event kind declares about itself, so that its class and its partial are all that a new one needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from memoryapp.engine.json_values import Code

Lane = Literal["candidates", "turns", "result"]
Look = Literal["quiet", "candidates", "turn", "reply", "read", "step", "tool", "answer", "warning", "result"]
Activity = Literal[
    "enrich", "search", "tools", "read", "turn", "ask", "retry", "filter", "plan", "check", "answer", "locate", ""
]
Stage = Literal["enrich", "search", "turn", "read", ""]


class ToolWork(NamedTuple):
    """A tool that ran: seconds of wall time, and the code of its fault, empty without one."""

    name: str
    seconds: float
    fault: str


class EventKind:
    """The base of all kinds; each declares in its class statement what differs from the defaults.

    ``lane`` is the part of a run that the event belongs to, ``look`` what it resembles when it is drawn, ``then`` what
    the run does after it (nothing after the last event), ``told`` the step that somebody who waits for an answer is
    told of, ``ends`` the stage of a run that ends with it. A kind after which the run waits for a model, or ends,
    ``is_before_wait``, so it is stored at once."""

    __slots__ = ()

    kind: ClassVar[str]
    lane: ClassVar[Lane] = "turns"
    look: ClassVar[Look] = "quiet"
    then: ClassVar[Activity] = "turn"
    told: ClassVar[str] = ""
    ends: ClassVar[Stage] = ""
    is_before_wait: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        lane: Lane | None = None,
        look: Look | None = None,
        then: Activity | None = None,
        told: str | None = None,
        ends: Stage | None = None,
        is_before_wait: bool | None = None,
    ) -> None:
        """A dataclass with slots is made again from the first class, which has the values already."""
        super().__init_subclass__()
        given = {"lane": lane, "look": look, "then": then, "told": told, "ends": ends}
        for name, value in {**given, "is_before_wait": is_before_wait}.items():
            if value is not None:
                setattr(cls, name, value)

    def activity(self) -> Activity:
        """What the run does after this very event."""
        return self.then

    def progress(self) -> Mapping[str, str]:
        """What ``POST /v1/agent/stream`` says of it; empty for nothing."""
        return {"step": self.told} if self.told else {}

    def gap(self) -> str:
        """What the run did before this event or its stage, where that took long: ``wait``, ``tools`` or ``check``."""
        return "wait" if self.ends else ""

    def tool_work(self) -> ToolWork | None:
        """The tool that this event is the end of, for a span of telemetry."""
        return None

    def marks(self) -> Mapping[str, str]:
        """What the event says of candidates, by id: ``requested``, ``read``, ``chosen``, ``instead`` of a choice,
        ``dropped``, or the stage of a filter that removed it. The marks of all events up to a step give every
        candidate's state at that step."""
        return {}


# Values that events contain.

PieceStatus = Literal["exact", "normalised", "altered", "absent"]


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of the context that a run assembles for the chat model, with its length and estimated tokens.

    ``name`` is profile, inner_circle, recent_topics, topics, unsure, people or artifacts. ``text`` is what was handed
    over; for ``topics`` and ``unsure`` it is empty, because that text is assembled from the messages whenever it is
    requested. ``items`` counts the entries of the part."""

    name: Code
    chars: int
    tokens: int
    items: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic that was given to the model: its size in characters and its number of messages."""

    id: str
    size_chars: int
    message_count: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run cost: tokens as billed, US dollars, wall seconds."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an excerpt, located in a real message. ``start`` and ``end`` are character offsets in that message's
    text. For an ``absent`` piece ``message`` is None and the offsets are 0."""

    text: str
    status: PieceStatus
    message: int | None = None
    start: int = 0
    end: int = 0
