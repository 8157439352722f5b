"""Capabilities: what an OpenAI-compatible endpoint can do, as learnt from its refusals, and the requests that follow
from it.

Endpoints differ in forced tool choice, answer formats, reasoning effort and streaming; each may be missing or ignored.
Every ability is a ladder: after a refusal that names the ability, requests use the next lower rung for some hours. It
is then tried again, because endpoints and the providers behind them change. A model may ignore a forced tool choice, or
an endpoint the request to stream, by chance (a router uses several providers, and a model does not always answer
alike): the request that saw it steps down at once, all others only after three times in a row. Only a refusal of the
request itself counts: when a server fails, its words describe the failure, not a missing ability. The answer format has
a ladder of its own for turns with tools, because Gemini refuses the two only together. Media have no ladder: the caller
continues with the text alone, and later requests with media of that kind are not sent.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

from memoryapp.engine.chat.media import kinds_in, kinds_lacking
from memoryapp.engine.chat.protocol import ChatRequest
from memoryapp.engine.events import MediaType, SteppedDown

_Key = TypeVar("_Key", bound=str)

_FORCED = ("function", "required", "free")
# vLLM refuses "auto" without a parser for it, although it can force tools; no tool is offered then.
_FREE = ("auto", "unsaid", "none", "no tools")
_FORMAT = ("json_schema", "json_object", "none")
_EFFORT = ("reasoning", "reasoning_effort", "none")
# Most endpoints count the tokens of a stream only on request, and some refuse that request.
_STREAM = ("with usage", "without usage", "off")
_STREAMED: Mapping[str, Mapping[str, Any]] = {
    "with usage": {"stream": True, "stream_options": {"include_usage": True}},
    "without usage": {"stream": True},
    "off": {},
}

# Words by which endpoints name what they refuse (OpenRouter, OpenAI, vLLM, llama.cpp, Gemini, Mistral).
_NAMES_TOOL_CHOICE = re.compile(r"tool[_ ]?choice|forced? (?:tool|function)|function calling config", re.IGNORECASE)
_NAMES_FORMAT = re.compile(
    r"response[_ ]?(?:format|mime|schema)|json[_ ]?(?:schema|object|mode)|structured[_ ]output|grammar", re.IGNORECASE
)
# "Reasoning details" have to be sent back; they are not a parameter of the request.
_NAMES_EFFORT = re.compile(r"reasoning(?![ _]details)|thinking", re.IGNORECASE)
_NAMES_STREAM = re.compile(r"(?<![a-z])stream(?:ing|_options)?(?![a-z])", re.IGNORECASE)
# "Stream" also describes a broken connection; it names the ability only together with one of these words.
_REFUSES = re.compile(
    r"support|permit|allow|recogni[sz]ed|unknown|unexpected|invalid|extra|argument|parameter|must be|disabled",
    re.IGNORECASE,
)
# Statuses of a refused request. OpenRouter answers 404 when no provider accepts one of its parameters.
_REFUSALS = frozenset({400, 422})
_NO_PROVIDER = "no endpoints found that"
_WHY_CHARS = 200
_REMEMBERED_SECONDS = 6 * 3600.0
# If one in three requests is ignored by chance, so many in a row happen one time in 27.
_SURE_AFTER = 3


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The operator's options for an endpoint.

    An empty ``reasoning_effort`` is not sent. ``response_healing`` is OpenRouter's repair of broken JSON; it works only
    on whole answers, so turns with an answer format are then not streamed. ``provider`` is OpenRouter's routing object;
    ``fallback_models`` are asked in order when the model cannot answer.
    """

    stream: bool = False
    reasoning_effort: str = "low"
    response_healing: bool = False
    provider: Mapping[str, Any] = field(default_factory=dict)
    fallback_models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abilities:
    """The current rung of each ladder."""

    forced_choice: str = "function"
    free_choice: str = "auto"
    format_with_tools: str = "json_schema"
    format_alone: str = "json_schema"
    effort: str = "reasoning"
    stream: str = "with usage"
    declares_unused_tools: bool = True


def request_body(model: str, request: ChatRequest, can: Abilities, options: ChatOptions) -> dict[str, Any]:
    """The JSON body of POST /chat/completions."""
    body: dict[str, Any] = {"model": model, "messages": list(request.messages), **_tools(request, can)}
    if request.answer_schema is not None:
        body |= _response_format(request.answer_schema, can.format_with_tools if "tools" in body else can.format_alone)
    body |= _effort(options.reasoning_effort, can.effort)
    if options.response_healing and "response_format" in body:
        body["plugins"] = [{"id": "response-healing"}]
    elif options.stream:
        body |= _STREAMED[can.stream]
    return body | _routing(options)


def _effort(effort: str, rung: str) -> dict[str, Any]:
    if not effort or rung == "none":
        return {}
    return {"reasoning": {"effort": effort}} if rung == "reasoning" else {"reasoning_effort": effort}


def _routing(options: ChatOptions) -> dict[str, Any]:
    wanted = {"provider": dict(options.provider), "models": list(options.fallback_models)}
    return {name: value for name, value in wanted.items() if value}


def _tools(request: ChatRequest, can: Abilities) -> dict[str, Any]:
    if request.tools_off and not request.tools:
        # Where tools and an answer format do not work together, the last turn asks for the format.
        costs_format = request.answer_schema is not None and can.format_with_tools == "none"
        declared = can.declares_unused_tools and not costs_format
        return {"tools": list(request.tools_off), "tool_choice": "none"} if declared else {}
    choice = _tool_choice(request, can)
    if not request.tools or choice == "no tools":
        return {}
    tools = list(request.tools)
    return {"tools": tools} if choice == "unsaid" else {"tools": tools, "tool_choice": choice}


def _tool_choice(request: ChatRequest, can: Abilities) -> str | dict[str, Any]:
    if not _forces(request, can):
        return can.free_choice
    if can.forced_choice == "function":
        return {"type": "function", "function": {"name": request.force_tool}}
    return can.forced_choice


def _forces(request: ChatRequest, can: Abilities) -> bool:
    return bool(request.force_tool) and can.forced_choice != "free"


def _response_format(schema: Mapping[str, Any], rung: str) -> dict[str, Any]:
    if rung == "json_schema":
        named = {"name": "answer", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if rung == "json_object" else {}


@dataclass(frozen=True, slots=True)
class Lesson:
    """The next lower ``rung`` of one ability, learnt with a request that used the rung ``above``. Other abilities stay
    as they are, because another request may have learnt something about them meanwhile."""

    ability: str
    above: str | bool
    rung: str | bool
    step: SteppedDown
    may_be_chance: bool = False

    def applied(self, can: Abilities) -> Abilities:
        """``can`` with the lower rung; unchanged when it uses another rung than ``above``, about which this lesson says
        nothing."""
        if getattr(can, self.ability) != self.above:
            return can
        return replace(can, **{self.ability: self.rung})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Memo:
    """What was learnt: until the time ``until`` on the clock, an ability uses ``rung``, or media are refused."""

    rung: str | bool
    step: SteppedDown
    until: float


@dataclass(frozen=True, slots=True)
class Remembered:
    """A step down that every request begins with, and the seconds until it is tried again."""

    step: SteppedDown
    seconds_left: float


class Learnt:
    """What was learnt about one model at one endpoint, by all runs together; every request to it begins with this.

    ``ignored`` counts, by rung, how often in a row a forced tool choice or a request to stream was ignored; one that is
    obeyed resets it.
    What was learnt is forgotten after six hours by ``clock`` (monotonic seconds), and learnt again if it still holds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ignored: Counter[str | bool] = Counter()
        self._clock = clock
        self._rungs: dict[str, Memo] = {}
        self._refused: dict[MediaType, Memo] = {}
        self._taken: set[MediaType] = set()

    @property
    def can(self) -> Abilities:
        rungs: dict[str, Any] = {ability: memo.rung for ability, memo in self._fresh(self._rungs).items()}
        return replace(Abilities(), **rungs)

    def remembered(self) -> list[Remembered]:
        """What is known now, in the order in which it was learnt; a refusal of several kinds of media is
        listed once."""
        memos = {memo.step: memo for memo in (*self._fresh(self._rungs).values(), *self._fresh(self._refused).values())}
        now = self._clock()
        return [Remembered(memo.step, memo.until - now) for memo in sorted(memos.values(), key=attrgetter("until"))]

    def _fresh(self, memos: Mapping[_Key, Memo]) -> dict[_Key, Memo]:
        now = self._clock()
        return {key: memo for key, memo in memos.items() if memo.until > now}

    def _keep(self, lesson: Lesson) -> None:
        if lesson.applied(can := self.can) != can:
            until = self._clock() + _REMEMBERED_SECONDS
            self._rungs = {**self._fresh(self._rungs), lesson.ability: Memo(lesson.rung, lesson.step, until)}

    def learn(self, lesson: Lesson) -> SteppedDown:
        """Learns the lesson of one request, and returns the step down that this request reports."""
        if not lesson.may_be_chance:
            self._keep(lesson)
            return lesson.step
        self.ignored[lesson.above] += 1
        times = self.ignored[lesson.above]
        if times < _SURE_AFTER:
            return lesson.step
        self._keep(lesson)
        why = f"{lesson.step.why} It did so {times} times in a row; for some hours no run asks for it again."
        return replace(lesson.step, why=why)

    def honoured(self, request: ChatRequest, can: Abilities) -> None:
        """The model called a tool. If one was forced, the calls that were ignored before count as chance."""
        if _forces(request, can):
            del self.ignored[can.forced_choice]

    def streamed(self, can: Abilities) -> None:
        """The endpoint streamed an answer, so the whole ones before count as chance."""
        del self.ignored[can.stream]

    def refusal_of_media(self, request: ChatRequest) -> str:
        """The words with which the endpoint refused media like those of the request; empty when no refusal is known."""
        known = self._fresh(self._refused)
        return next((known[kind].step.why for kind in kinds_in(request.messages) if kind in known), "")

    def media_taken(self, request: ChatRequest) -> None:
        kinds = kinds_in(request.messages)
        self._taken |= kinds
        self._refused = {kind: memo for kind, memo in self._refused.items() if kind not in kinds}

    def media_refused(self, request: ChatRequest, status: int, why: str) -> bool:
        """Whether ``why`` says that the model accepts no media like those of the request, and it never accepted any."""
        lacking = kinds_in(request.messages) & kinds_lacking(why) - self._taken
        if teaches(status, why):
            memo = Memo(False, _step("media", "the text alone", why), self._clock() + _REMEMBERED_SECONDS)
            self._refused = {**dict.fromkeys(lacking, memo), **self._fresh(self._refused)}
        return bool(lacking)


def teaches(status: int, why: str) -> bool:
    """Whether an answer with that status refuses what the request asks for, so that its words name a
    missing ability."""
    return status in _REFUSALS or (status == 404 and _NO_PROVIDER in why.lower())


def refused(body: Mapping[str, Any], request: ChatRequest, can: Abilities, why: str) -> Lesson | None:
    """The lesson of a refusal of a request's ``body``; None when ``why`` names nothing that could be left out."""
    if "tools" in body and not request.tools and "tool" in why.lower():
        return Lesson("declares_unused_tools", True, False, _step("declaring unused tools", "no tools", why))
    if "tools" in body and _NAMES_TOOL_CHOICE.search(why):
        return _without_tool_choice(request, can, why)
    if "response_format" in body and _NAMES_FORMAT.search(why):
        if "tools" in body:
            return _down("format_with_tools", _FORMAT, can.format_with_tools, "answer format with tools", why)
        return _down("format_alone", _FORMAT, can.format_alone, "answer format", why)
    if ("reasoning" in body or "reasoning_effort" in body) and _NAMES_EFFORT.search(why):
        return _down("effort", _EFFORT, can.effort, "reasoning effort", why)
    if "stream" in body and _NAMES_STREAM.search(why) and _REFUSES.search(why):
        return _down("stream", _STREAM, can.stream, "streaming", why)
    return None


def unstreamed(can: Abilities) -> Lesson:
    """The lesson of a whole answer where a stream was requested: the next request asks for a whole answer."""
    why = "The endpoint answered at once instead of streaming."
    return Lesson("stream", can.stream, "off", _step("streaming", "off", why), may_be_chance=True)


def ignored(request: ChatRequest, can: Abilities) -> Lesson | None:
    """The lesson of an answer without a tool call where a tool was forced; None when none was forced."""
    if not _forces(request, can):
        return None
    lesson = _without_tool_choice(request, can, "The endpoint ignored the forced tool choice.")
    return replace(lesson, may_be_chance=True)


def _without_tool_choice(request: ChatRequest, can: Abilities, why: str) -> Lesson:
    if _forces(request, can):
        return _down("forced_choice", _FORCED, can.forced_choice, "forced tool choice", why)
    return _down("free_choice", _FREE, can.free_choice, "free tool choice", why)


def _down(ability: str, ladder: tuple[str, ...], rung: str, capability: str, why: str) -> Lesson:
    lower = ladder[ladder.index(rung) + 1]
    return Lesson(ability, rung, lower, _step(capability, lower, why))


def _step(capability: str, instead: str, why: str) -> SteppedDown:
    return SteppedDown(capability, instead, why[:_WHY_CHARS])
