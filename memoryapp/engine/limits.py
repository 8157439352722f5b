"""The limits of a rerank: items selected, tool calls, seconds, characters read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """``seconds`` bounds the whole run, ``turn_seconds`` one call of the model with its retries."""

    max_topics: int = 15
    max_people: int = 10
    max_artifacts: int = 10
    max_tool_calls: int = 3
    seconds: float = 10.0
    turn_seconds: float = 10.0
    read_chars: int = 200_000
    tool_mode: str = "forced"
    fallback_topics: int = 5
    excerpt_over_chars: int = 25_000

    @property
    def stand_ins(self) -> int:
        """How many topics a fallback selects."""
        return min(self.fallback_topics, self.max_topics)


DEFAULTS = Limits()
