"""The event kind of what people decided about recall."""

from dataclasses import dataclass
from typing import ClassVar

from memoryapp.engine.kinds.kind import EventKind


@dataclass(frozen=True, slots=True)
class DecisionsApplied(EventKind, then="enrich"):
    """What people decided about the recall of topics, people and facts: ids such as ``Fact:7`` that are handed over
    with every recall, and those that are left out of every one. Only where there is any such decision."""

    kind: ClassVar[str] = "decisions_applied"
    pinned: tuple[str, ...]
    never: tuple[str, ...]
