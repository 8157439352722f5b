"""What each event kind declares about itself, so that its class and its partial are all that a new one needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

Lane = Literal["candidates", "turns", "result"]
Look = Literal["quiet", "candidates", "turn", "reply", "read", "step", "tool", "answer", "warning", "result"]
Activity = Literal["enrich", "search", "turn", "read", ""]


class EventKind:
    """The base of all kinds; each declares in its class statement what differs from the defaults.

    ``lane`` is the part of a run that the event belongs to, ``look`` what it resembles when it is drawn, ``then`` what
    the run does after it (nothing after the last event). A kind after which the run waits for a model, or ends,
    ``is_before_wait``, so it is stored at once.
    """

    __slots__ = ()

    kind: ClassVar[str]
    lane: ClassVar[Lane] = "turns"
    look: ClassVar[Look] = "quiet"
    then: ClassVar[Activity] = "turn"
    is_before_wait: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        lane: Lane | None = None,
        look: Look | None = None,
        then: Activity | None = None,
        is_before_wait: bool | None = None,
    ) -> None:
        """A dataclass with slots is made again from the first class, which has the values already."""
        super().__init_subclass__()
        given = {"lane": lane, "look": look, "then": then, "is_before_wait": is_before_wait}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)

    def marks(self) -> Mapping[str, str]:
        """What the event says of candidates, by id: ``requested``, ``read``, ``chosen``, ``instead`` of a choice,
        ``dropped``, or the stage of a filter that removed it.

        The marks of all events up to a step give every candidate's state at that step.
        """
        return {}
