"""The toolbox of a run: which tools may be called, with what input and for how long, and the event that reports each
call. Every call is answered. A tool that is not allowed, or whose input is not valid, is refused; a tool that exceeds
its seconds is cancelled."""

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from memoryapp.engine.budget import Deadline
from memoryapp.engine.conversation import Tool, ToolResult
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import ToolCall
from memoryapp.engine.json_values import to_text
from memoryapp.engine.kinds.react import ToolName, ToolOutcome, ToolUsed
from memoryapp.engine.memory import LONGEST_PHRASE, MOST_PHRASES, Where
from memoryapp.engine.notes import Note, english
from memoryapp.engine.parameters import Parameters, choice, number
from memoryapp.engine.strategies.strategy import SearchTimeout
from memoryapp.engine.text.standing import Grade

# Input and output of the seven tools, with bounds for every parameter; values outside of them are refused.

LONGEST_QUESTION = 4_000
MOST_QUERIES = 8
_LONGEST_SHOWN = 200
# The context is part of the prompt of the answer; topics have a field of their own.
_UNTOLD = {"prompt", "topics"}

Question = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_QUESTION)]
Route = Literal["bm25", "dense", "hybrid"]


def _real(day: str) -> str:
    """Raises ValueError for a day that no calendar has."""
    return day and date.fromisoformat(day).isoformat()


Day = Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d\d-\d\d)?$"), AfterValidator(_real)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], Field(max_length=10)]
Phrases = Annotated[tuple[Annotated[str, Field(max_length=LONGEST_PHRASE)], ...], Field(max_length=MOST_PHRASES)]
PassageIds = Annotated[tuple[int, ...], Field(max_length=1_000)]
Hits = Annotated[int, Field(ge=1, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=10)]


class Shape(BaseModel):
    """A value that never changes and contains nothing beside its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def brief(self) -> dict[str, Any]:
        """The value in the short form of events: texts are cut, lists are counted, empty values are left out."""
        brief = {name: _brief(getattr(self, name)) for name in type(self).model_fields if name not in _UNTOLD}
        return {name: value for name, value in brief.items() if value not in ("", None, [], ()) and value is not False}


def _brief(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_SHOWN]
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping) or not isinstance(value, Sequence):
        return value
    return [_brief(each) for each in value] if all(isinstance(each, str) for each in value) else len(value)


class Filters(Shape):
    """Days as ``2023-05-01``, both included; empty is no bound; names, and the phrases that a topic must contain or for
    which it ranks higher. They are guesses, which a search may widen."""

    since: Day = ""
    until: Day = ""
    channels: Names = ()
    authors: Names = ()
    must_phrases: Phrases = ()
    should_phrases: Phrases = ()

    @property
    def where(self) -> Where:
        return Where(**{name: getattr(self, name) for name in Filters.model_fields})


class RouterInput(Shape):
    query: Question


class RouterOutput(Filters):
    """``meaning`` and ``words`` are the weights of the two orders: a route prefers one and excludes none."""

    route: Route
    meaning: Weight
    words: Weight
    reasons: Annotated[tuple[str, ...], Field(max_length=10)] = ()


class PlanInput(Shape):
    """``found_little`` asks for other words than those that were searched for."""

    query: Question
    most: Annotated[int, Field(ge=3, le=6)]
    found_little: bool = False


class PlanOutput(Filters):
    """The question itself is always the first of the ``queries``; the filters are those that the plan proposes, and
    ``k_per_query`` how many passages each query should bring; None leaves that to the run."""

    queries: Annotated[tuple[Question, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    by: Literal["model", "nobody"]
    why: str = ""
    k_per_query: Hits | None = None


class SearchInput(Filters):
    queries: Annotated[tuple[Question, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    k: Hits = 10
    route: Route = "hybrid"


class Hit(Shape):
    id: int
    score: float
    snippet: Annotated[str, StringConstraints(max_length=_LONGEST_SHOWN)]
    topics: tuple[str, ...]


class SearchOutput(Shape):
    """``new`` hits no earlier search has brought; ``relaxed``: guessed filters left too few and were widened."""

    hits: Annotated[tuple[Hit, ...], Field(max_length=1_000)]
    new: int
    by_meaning: int
    by_words: int
    relaxed: bool = False


class RerankInput(Shape):
    query: Question
    ids: Annotated[PassageIds, Field(min_length=1)]
    top_n: Annotated[int, Field(ge=1, le=200)] = 40


class Rescored(Shape):
    id: int
    score: float


class RerankOutput(Shape):
    """``by`` is the cross-encoder's model, or ``scorer``; ``failure`` why the scorer replaced it."""

    hits: Annotated[tuple[Rescored, ...], Field(max_length=1_000)]
    by: str
    moved: int
    failure: str = ""


class FetchInput(Shape):
    ids: Annotated[tuple[int, ...], Field(min_length=1, max_length=100)]


class FetchOutput(Shape):
    documents: Annotated[tuple[int, ...], Field(max_length=100)]
    messages: int
    missing: int
    topics: tuple[str, ...] = ()


class ComposeInput(Shape):
    """``beside`` keeps the citations that there are under their numbers."""

    ids: Annotated[tuple[int, ...], Field(max_length=100)]
    max_tokens_ctx: Annotated[int, Field(ge=200, le=8_000)] = 1_800
    beside: bool = False


class Numbered(Shape):
    id: int
    index: int


class ComposeOutput(Shape):
    """``prompt`` is what a model reads; ``coverage_est`` how much of the question the citations speak of.
    ``kept_earlier`` says that these are the citations of an earlier call, which speak of more of it."""

    prompt: str
    citations: tuple[Numbered, ...]
    coverage_est: Share
    tokens: int
    left_out: int
    kept_earlier: bool = False
    topics: tuple[str, ...] = ()


class VerifyInput(Shape):
    """``cited`` are the numbers of the sources that the claim refers to; without any, all sources are compared."""

    claim: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    top_k: Annotated[int, Field(ge=1, le=10)] = 3
    cited: Annotated[tuple[int, ...], Field(max_length=100)] = ()


class VerifyOutput(Shape):
    """``verified`` says whether the cited sources say what the claim states; if only others do, it is ``misquoted``.

    ``sources`` are the numbers of those that do, ``by`` whether a model judged or words decided. ``support``,
    ``missing`` and ``turned`` are what the words of the messages say, as in ``StatementCheck``; ``found`` of its words
    stand there. ``confidence`` is 1 or
    0; None where words differ, because no share of words proves anything."""

    verified: bool
    confidence: Share | None
    evidence: Annotated[tuple[str, ...], Field(max_length=10)]
    documents_found: int
    sources: tuple[int, ...] = ()
    misquoted: bool = False
    by: Literal["model", "words"] = "words"
    found: int = 0
    support: Grade = "unchecked"
    missing: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()


Output = TypeVar("Output", bound=Shape)
AskedBy = Literal["agent", "model"]
# The share of the run's remaining seconds that one call may take, so that a late one leaves time to do without it.
_SHARE = 1 / 2
# How many characters of an invalid call are stored.
_LONGEST_NAME = 80
_LONGEST_ARGUMENTS = 20_000


class ToolFailed(Exception):
    """The tool cannot answer; the text is a code."""


@dataclass(frozen=True, slots=True)
class AgentTool(Generic[Output]):
    """A tool as a value: ``run`` makes the output of a valid ``input``, and emits what a model is asked meanwhile.
    ``purpose`` describes it to a model; a tool without one is not offered to models."""

    name: ToolName
    input: type[Shape]
    run: Callable[[Any, Emit], Awaitable[Output]]
    purpose: str = ""


class Toolbox:
    """The ``allowed`` of the tools, each for ``seconds`` at most, and no longer than half of what is left until the
    ``deadline`` of the run. ``step`` is that of the run."""

    def __init__(
        self, tools: Sequence[AgentTool[Any]], *, allowed: Collection[str], seconds: float, deadline: Deadline
    ) -> None:
        self.step = 0
        self._tools: Mapping[str, AgentTool[Any]] = {tool.name: tool for tool in tools if tool.name in allowed}
        self._seconds = seconds
        self._deadline = deadline

    async def use(self, tool: AgentTool[Output], arguments: Mapping[str, Any], emit: Emit) -> Output | None:
        """Calls a tool and returns its output, None where there is none. Its ``ToolUsed`` is emitted last."""
        used, output = await self._called(tool, arguments, "agent", emit)
        emit(used)
        return output

    async def _called(
        self, tool: AgentTool[Output], arguments: Mapping[str, Any], asked_by: AskedBy, emit: Emit
    ) -> tuple[ToolUsed, Output | None]:
        began, code = time.monotonic(), ""
        outcome: ToolOutcome = "done"
        given: Mapping[str, Any] = {}
        output: Output | None = None
        try:
            input = self._checked(tool, arguments)
            given = input.brief()
            async with self._deadline.timeout(min(self._seconds, self._deadline.left * _SHARE)):
                output = await tool.run(input, emit)
        except _Refused as refused:
            outcome, code = "refused", str(refused)
        except (TimeoutError, SearchTimeout):
            outcome, code = "late", "out_of_time"
        except ToolFailed as failed:
            outcome, code = "failed", str(failed)
        return self._used(tool.name, given, outcome, code, time.monotonic() - began, asked_by, output), output

    def _checked(self, tool: AgentTool[Any], arguments: Mapping[str, Any]) -> Shape:
        """Raises _Refused for a tool that is not allowed, and for input that is not valid."""
        if tool.name not in self._tools:
            raise _Refused("not_allowed")
        try:
            return tool.input.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise _Refused(f"bad_input: {'.'.join(map(str, first['loc']))} {first['type']}") from None

    def _used(
        self,
        name: str,
        given: Mapping[str, Any],
        outcome: ToolOutcome,
        code: str,
        seconds: float,
        asked_by: AskedBy,
        output: Shape | None = None,
    ) -> ToolUsed:
        return ToolUsed(
            step=self.step,
            tool=name[:_LONGEST_NAME],
            arguments=given,
            result=output.brief() if output else {},
            seconds=round(seconds, 6),
            outcome=outcome,
            code=code,
            topics=getattr(output, "topics", ()),
            asked_by=asked_by,
        )

    def model_tools(self) -> tuple[Tool, ...]:
        """The allowed tools that a model may call, in the form that a conversation takes."""
        declared = (
            {"name": tool.name, "description": tool.purpose, "parameters": tool.input.model_json_schema()}
            for tool in self._tools.values()
            if tool.purpose
        )
        return tuple(Tool({"type": "function", "function": each}, self._run, self._refuse) for each in declared)

    async def _run(self, call: ToolCall, turn: int) -> ToolResult:
        used, output = await self._called(self._tools[call.name], _arguments(call), "model", unheard)
        content = {"outcome": used.outcome, **({"code": used.code} if used.code else {}), "result": used.result}
        if output:
            content["result"] = output.model_dump()
        return ToolResult(to_text(content), used)

    def _refuse(self, call: ToolCall, turn: int, why: Note) -> ToolResult:
        late = why.code == "out_of_time"
        used = self._used(call.name, {}, "late" if late else "refused", why.code, 0.0, "model")
        return ToolResult(english([why]), used)


class _Refused(Exception):
    """The call is not valid; the text is a code."""


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call; empty for a value that is no object, which no tool accepts."""
    try:
        read = json.loads(call.arguments[:_LONGEST_ARGUMENTS])
    except (ValueError, RecursionError):
        return {"": None}
    return read if isinstance(read, dict) else {"": None}


# The parameters of *react*; each of them changes what a run does.

SWITCH = ("auto", "always", "never")
ON_OFF = ("on", "off")
FUSIONS = ("zsum", "rrf")
# The largest number of steps: plan, retrieve, refine, answer.
STEPS = 4


@dataclass(frozen=True, slots=True)
class ReactParameters(Parameters):
    """Seconds are of one tool, ``hits`` passages that a query brings, coverage and support shares in [0, 1].

    ``planner`` auto skips short questions; ``rerank`` auto scores again where more than 20 passages were found or their
    scores hardly differ. ``rrf_k`` and ``rank_depth`` belong to the fusion ``rrf``; ``mmr`` on puts passages that say
    something new before others, of which ``mmr_hits`` are left. Below ``enough_coverage`` it looks once more for
    ``wider_hits``; below ``least_coverage`` or ``least_support`` it refuses or says that it is not sure. ``claims``
    statements of an answer are checked."""

    max_steps: int = number(STEPS, 2, STEPS, "AGENT_MAX_STEPS")
    tool_seconds: float = number(5.0, 0.05, 30, "TOOL_TIMEOUT_S")
    planner: str = choice("auto", SWITCH)
    subqueries: int = number(5, 3, 6)
    hits: int = number(10, 1, 50, also="k_per_query")
    wider_hits: int = number(30, 1, 100)
    fusion: str = choice("zsum", FUSIONS, "AGENT_FUSION")
    rrf_k: int = number(60, 1, 1000, "RRF_K")
    rank_depth: int = number(50, 1, 500)
    mmr: str = choice("off", ON_OFF, "AGENT_MMR")
    mmr_lambda: float = number(0.5, 0.0, 1.0, "MMR_LAMBDA")
    mmr_hits: int = number(40, 1, 100, "MMR_OUTPUT_K")
    date_filter: str = choice("on", ON_OFF)
    rerank: str = choice("auto", SWITCH, "RERANK_ENABLE")
    rerank_hits: int = number(40, 1, 200, "RERANK_TOP_N")
    context_tokens: int = number(1_800, 200, 8_000)
    refine: str = choice("on", ON_OFF)
    enough_coverage: float = number(0.8, 0.0, 1.0)
    least_coverage: float = number(0.5, 0.0, 1.0)
    verify: str = choice("on", ON_OFF)
    claims: int = number(12, 1, 20)
    claim_evidence: int = number(3, 1, 10)
    least_support: float = number(0.5, 0.0, 1.0)
