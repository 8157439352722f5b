"""The event kind of the strategy ``filter``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from memoryapp.engine.kinds.kind import EventKind


@dataclass(frozen=True, slots=True)
class Filtered(EventKind, then="filter"):
    """What one stage of a filter ``removed``, as topic ids by falling similarity, and how many topics it ``kept``.
    ``bound`` is the value at which the stage cuts: a similarity for ``initial`` and ``threshold``, a difference for
    ``gap``, a count for ``top_k``. ``drop`` holds the similarities before and after the gap, if there is one."""

    kind: ClassVar[str] = "filtered"
    stage: Literal["initial", "threshold", "gap", "top_k"]
    removed: tuple[str, ...]
    kept: int
    bound: float
    drop: tuple[float, ...] = ()

    def marks(self) -> Mapping[str, str]:
        return dict.fromkeys(self.removed, self.stage)
