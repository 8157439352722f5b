"""Capabilities: what an OpenAI-compatible endpoint can do, as learnt from its refusals (``lessons``).

Endpoints differ in tools, forced tool choice, answer formats, reasoning effort, streaming, and in what may stand in a
conversation; each may be missing or ignored.
Every ability is a ladder: after a refusal that names the ability, requests use the next lower rung for some hours. It
is then tried again, because endpoints and the providers behind them change. A model may ignore a forced tool choice, or
an endpoint the request to stream, by chance (a router uses several providers, and a model does not always answer
alike): the request that saw it steps down at once, all others only after three times in a row. Only a refusal of the
request itself counts: when a server fails, its words describe the failure, not a missing ability. The answer format has
a ladder of its own for turns with tools, because Gemini refuses the two only together. Media have no ladder: the caller
continues with the text alone, and later requests with media of that kind are not sent."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar

from memoryapp.engine.chat.media import kinds_in, kinds_lacking
from memoryapp.engine.chat.protocol import ChatRequest
from memoryapp.engine.chat.refusals import teaches
from memoryapp.engine.events import MediaType, SteppedDown

_Key = TypeVar("_Key", bound=str)
Rung = str | bool | frozenset[str]

_WHY_CHARS = 200
_REMEMBERED_SECONDS = 6 * 3600.0
# If one in three requests is ignored by chance, so many in a row happen one time in 27.
_SURE_AFTER = 3


@dataclass(frozen=True, slots=True)
class Abilities:
    """The current rung of each ladder.

    ``tools`` are declared, or described in words. ``owes_reasoning``: each message of the model has to come back with
    its reasoning. ``left_out`` are fields of its messages that must not come back. ``blank`` is the content of messages
    that only call tools. ``schemas`` are sent with or without the words that make them strict. ``must_stream``: whole
    answers are refused. ``short_ids``: ids of calls have nine letters and digits. ``named_results``: results of tools
    have the names of their tools."""

    forced_choice: str = "function"
    free_choice: str = "auto"
    format_with_tools: str = "json_schema"
    format_alone: str = "json_schema"
    effort: str = "reasoning"
    stream: str = "with usage"
    declares_unused_tools: bool = True
    tools: str = "declared"
    user_after_tool: bool = True
    system_role: bool = True
    owes_reasoning: bool = False
    left_out: frozenset[str] = frozenset()
    blank: str = "null"
    schemas: str = "strict"
    must_stream: bool = False
    short_ids: bool = False
    named_results: bool = False


def forces(request: ChatRequest, can: Abilities) -> bool:
    return bool(request.force_tool) and can.forced_choice != "free" and can.tools == "declared"


def step_down(capability: str, instead: str, why: str) -> SteppedDown:
    """The event that reports a step down, with the first of the endpoint's words."""
    return SteppedDown(capability, instead, why[:_WHY_CHARS])


@dataclass(frozen=True, slots=True)
class Lesson:
    """The next lower ``rung`` of one ability, learnt with a request that used the rung ``above``. Other abilities stay
    as they are, because another request may have learnt something about them meanwhile. A guess is learnt only once it
    helped."""

    ability: str
    above: Rung
    rung: Rung
    step: SteppedDown
    may_be_chance: bool = False
    is_guess: bool = False

    def applied(self, can: Abilities) -> Abilities:
        """``can`` with the lower rung; unchanged when it uses another rung than ``above``, about which this lesson says
        nothing."""
        if getattr(can, self.ability) != self.above:
            return can
        return replace(can, **{self.ability: self.rung})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Memo:
    """What was learnt: until the time ``until`` on the clock, an ability uses ``rung``, or media are refused."""

    rung: Rung
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
        self.ignored: Counter[Rung] = Counter()
        self._clock = clock
        self._rungs: dict[str, Memo] = {}
        self._refused: dict[MediaType, Memo] = {}
        self._taken: set[MediaType] = set()

    @property
    def can(self) -> Abilities:
        rungs: dict[str, Any] = {ability: memo.rung for ability, memo in self._fresh(self._rungs).items()}
        return replace(Abilities(), **rungs)

    def remembered(self) -> list[Remembered]:
        """What is known now, in the order of learning; a refusal of several kinds of media is listed once."""
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
        if lesson.is_guess:
            return lesson.step
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

    def helped(self, guess: Lesson) -> None:
        """The endpoint answered after this guess, so that the ones before it were wrong."""
        self.learn(replace(guess, above=getattr(self.can, guess.ability), is_guess=False))

    def honoured(self, request: ChatRequest, can: Abilities) -> None:
        """The model called a tool. If one was forced, the calls that were ignored before count as chance."""
        if forces(request, can):
            del self.ignored[can.forced_choice]

    def formatted(self, can: Abilities) -> None:
        """An answer came in the requested format, so the generations that failed before count as chance."""
        del self.ignored[can.format_alone]
        del self.ignored[can.format_with_tools]

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
        if status < 500 and teaches(status, why):
            memo = Memo(False, step_down("media", "the text alone", why), self._clock() + _REMEMBERED_SECONDS)
            self._refused = {**dict.fromkeys(lacking, memo), **self._fresh(self._refused)}
        return bool(lacking)
