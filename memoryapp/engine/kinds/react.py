"""What a strategy that works with tools reports: its steps, what each tool brought, and the answer with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memoryapp.engine.notes import Notes

Phase = Literal["plan", "retrieve", "refine", "answer"]
ToolName = Literal["router_select", "query_plan", "search", "rerank", "fetch_docs", "compose_context", "verify"]
ToolOutcome = Literal["done", "late", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step begins, of at most ``most``."""

    kind: ClassVar[str] = "step_started"
    step: int
    most: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class ToolUsed:
    """A tool has answered, or was cancelled because it came too ``late``, or the call was ``refused``, or ``failed``.

    ``arguments`` and ``result`` are the tool's input and output as numbers, codes and short texts, never whole
    documents. ``topics`` are those whose messages it handed over, ``code`` says why there is no result.
    """

    kind: ClassVar[str] = "tool_used"
    step: int
    tool: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    seconds: float
    outcome: ToolOutcome
    code: str = ""
    topics: tuple[str, ...] = ()
    asked_by: Literal["agent", "model"] = "agent"


@dataclass(frozen=True, slots=True)
class Citation:
    """What stands behind ``[n]``: a message of a topic, and the ``quote`` of it that supports the answer."""

    n: int
    topic: str
    message: int
    quote: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer in words. Every statement of ``text`` ends in the numbers of its ``citations``, as ``[1][3]``.

    ``outcome`` tells whether it stands as it is, was ``softened`` because little supports it, or ``refused``; a
    refusal cites nothing. ``coverage`` is how much of the question the sources speak of, ``support`` how many of the
    checked claims they bear out, both in [0, 1]; ``support`` is None where nothing was checked. ``dropped_numbers``
    cited nothing that was found, ``dropped_statements`` cited nothing at all. ``notes`` say what people should know;
    ``note`` is the same in English for programs, empty in a row.
    """

    kind: ClassVar[str] = "answered"
    text: str
    citations: tuple[Citation, ...]
    outcome: Literal["answered", "softened", "refused"]
    coverage: float
    by: Literal["model", "extracts"]
    support: float | None = None
    dropped_numbers: tuple[int, ...] = ()
    dropped_statements: int = 0
    note: str = ""
    notes: Notes = ()
