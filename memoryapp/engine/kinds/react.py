"""Event kinds of strategies that use tools: their steps, the results of tools, and the answer with its sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memoryapp.engine.json_values import Code
from memoryapp.engine.kinds.kind import Activity, EventKind, ToolWork
from memoryapp.engine.notes import Notes

Phase = Literal["plan", "retrieve", "refine", "answer"]
ToolName = Literal["router_select", "query_plan", "search", "rerank", "fetch_docs", "compose_context", "verify"]
ToolOutcome = Literal["done", "late", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class StepStarted(EventKind, look="step", then="tools"):
    """A step begins; a run has at most ``most`` of them."""

    kind: ClassVar[str] = "step_started"
    step: int
    most: int
    phase: Phase

    def activity(self) -> Activity:
        return self.phase if self.phase in ("plan", "answer") else self.then

    def progress(self) -> Mapping[str, str]:
        return {"step": self.phase}


@dataclass(frozen=True, slots=True)
class ToolUsed(EventKind, look="tool", then="tools", told="tool"):
    """A call of a tool ended: it answered, was cancelled because it took too long (``late``), was ``refused``, or
    ``failed``. ``arguments`` and ``result`` summarise input and output as numbers, codes and short texts, never as
    whole documents. ``topics`` are those whose messages the tool returned; ``code`` says why there is no result."""

    kind: ClassVar[str] = "tool_used"
    step: int
    tool: Code
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    seconds: float
    outcome: ToolOutcome
    code: Code = ""
    topics: tuple[str, ...] = ()
    asked_by: Literal["agent", "model"] = "agent"

    def progress(self) -> Mapping[str, str]:
        return {"step": self.told, "tool": self.tool}

    def gap(self) -> str:
        return "tools"

    def tool_work(self) -> ToolWork:
        return ToolWork(self.tool, self.seconds, self.code)

    def marks(self) -> Mapping[str, str]:
        return dict.fromkeys(self.topics, "read")


@dataclass(frozen=True, slots=True)
class Citation:
    """The source of ``[n]``: a message of a topic, and the ``quote`` from it that supports the answer. ``passage`` are
    the messages of the passage that it belongs to, oldest first; runs of earlier versions do not say."""

    n: int
    topic: str
    message: int
    quote: str
    passage: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StatementCheck:
    """A statement of a model's answer beside the messages that it cites, with its ``numbers`` among the citations.

    ``support`` is what their words say of it: ``in_words``, ``differs``, ``contradicted``, or ``unchecked`` where words
    tell nothing. ``missing`` are its words that they lack, ``turned`` those of which they say something else.
    ``judged`` is whether a model says that the sources say it, None when none was asked. One that is not ``kept`` was
    left out of the answer."""

    text: str
    support: Literal["in_words", "differs", "contradicted", "unchecked"]
    numbers: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()
    judged: bool | None = None
    kept: bool = True

    @property
    def is_verified(self) -> bool:
        """Whether a model says that the sources say it, and no word of them contradicts that."""
        return bool(self.judged) and self.support != "contradicted"

    @property
    def verified(self) -> bool | None:
        """Whether it is verified; None where no model judged."""
        return None if self.judged is None else self.is_verified

    @property
    def is_supported(self) -> bool:
        return self.support == "in_words" if self.judged is None else self.is_verified


@dataclass(frozen=True, slots=True)
class Answered(EventKind, lane="result", look="answer", then="locate"):
    """The answer in words. Every statement of ``text`` ends with the numbers of its ``citations``, as in ``[1][3]``.

    ``outcome`` says whether the answer is kept as it is, was ``softened`` because little supports it, or was
    ``refused``; a refusal cites nothing. Where no model wrote one it is ``passages``: ``text`` is empty, and the
    citations are the passages nearest to the question, best first. ``coverage`` is the share of the question that the
    sources speak about, ``support`` the share of the model's statements that a model confirms, or of which every word
    stands in the messages, both in [0, 1]; ``support`` is None when nothing could be checked, and for refusals and
    passages. A model ``judged`` the statements, or else their words alone were compared: the ``judge``, or the model
    that wrote them where that is empty. ``statements`` has each with what was found; runs of earlier versions have
    none. ``unsupported`` statements were left out; ``misquoted`` counts those that cited a source that does not say so,
    while another one does, which is cited instead. ``dropped_numbers`` cited no source, ``dropped_statements`` cited
    nothing at all. ``notes`` are remarks for people; ``note`` is the same in English for programs, and empty in a row.
    ``cut``: the model ran into its limit of tokens."""

    kind: ClassVar[str] = "answered"
    text: str
    citations: tuple[Citation, ...]
    outcome: Literal["answered", "softened", "refused", "passages"]
    coverage: float
    by: Literal["model", "extracts"]
    support: float | None = None
    dropped_numbers: tuple[int, ...] = ()
    dropped_statements: int = 0
    note: str = ""
    notes: Notes = ()
    judged: bool = False
    unsupported: tuple[str, ...] = ()
    misquoted: int = 0
    cut: bool = False
    statements: tuple[StatementCheck, ...] = ()
    judge: str = ""
