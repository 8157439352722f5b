"""What each event kind declares about itself, so that its class and its partial are all that a new one needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

Lane = Literal["candidates", "turns", "result"]
Look = Literal["quiet", "candidates", "turn", "reply", "read", "step", "tool", "answer", "warning", "result"]
Activity = Literal[
    "enrich", "search", "tools", "read", "turn", "ask", "retry", "filter", "plan", "check", "answer", "locate", ""
]


class ToolWork(NamedTuple):
    """A tool that ran: seconds of wall time, and the code of its fault, empty without one."""

    name: str
    seconds: float
    fault: str


class EventKind:
    """The base of all kinds; each declares in its class statement what differs from the defaults.

    ``lane`` is the part of a run that the event belongs to, ``look`` what it resembles when it is drawn, ``then`` what
    the run does after it (nothing after the last event), ``told`` the step that somebody who waits for an answer is
    told of. A kind after which the run waits for a model, or ends, ``is_before_wait``, so it is stored at once.
    """

    __slots__ = ()

    kind: ClassVar[str]
    lane: ClassVar[Lane] = "turns"
    look: ClassVar[Look] = "quiet"
    then: ClassVar[Activity] = "turn"
    told: ClassVar[str] = ""
    is_before_wait: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        lane: Lane | None = None,
        look: Look | None = None,
        then: Activity | None = None,
        told: str | None = None,
        is_before_wait: bool | None = None,
    ) -> None:
        """A dataclass with slots is made again from the first class, which has the values already."""
        super().__init_subclass__()
        given = {"lane": lane, "look": look, "then": then, "told": told, "is_before_wait": is_before_wait}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)

    def activity(self) -> Activity:
        """What the run does after this very event."""
        return self.then

    def progress(self) -> Mapping[str, str]:
        """What ``POST /v1/agent/stream`` says of it; empty for nothing."""
        return {"step": self.told} if self.told else {}

    def tool_work(self) -> ToolWork | None:
        """The tool that this event is the end of, for a span of telemetry."""
        return None

    def marks(self) -> Mapping[str, str]:
        """What the event says of candidates, by id: ``requested``, ``read``, ``chosen``, ``instead`` of a choice,
        ``dropped``, or the stage of a filter that removed it.

        The marks of all events up to a step give every candidate's state at that step.
        """
        return {}
