"""Values that events contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memoryapp.engine.json_values import Code

PieceStatus = Literal["exact", "normalised", "altered", "absent"]


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of the context that a run assembles for the chat model, with its length and estimated tokens.

    ``name`` is profile, inner_circle, recent_topics, topics, unsure, people or artifacts. ``text`` is what was handed
    over; for ``topics`` and ``unsure`` it is empty, because that text is assembled from the messages whenever it is
    requested. ``items`` counts the entries of the part.
    """

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
    """A piece of an excerpt, located in a real message.

    ``start`` and ``end`` are character offsets in that message's text. For an ``absent`` piece ``message`` is None and
    the offsets are 0.
    """

    text: str
    status: PieceStatus
    message: int | None = None
    start: int = 0
    end: int = 0
