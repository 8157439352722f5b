"""The parameters of runs, each declared once. The parameters of a strategy are a frozen dataclass; each field carries
its bounds and the environment variable that sets its default. The form, the API, the commands, the settings and the
stored row all read these declarations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any

from memoryapp.engine.candidates import RANKED
from memoryapp.engine.memory import LONGEST_PHRASE, MOST_PHRASES, Where, phrases_in
from memoryapp.engine.text.lexical import stems

LONGEST = 600
LONGEST_NAME = 200
# How the selected topics enter the context: as passages around what answers, or whole.
CONTEXTS = ("passages", "topics")
# What is handed over where the embedded scorer chooses nothing: the nearest passages as possibly related, or nothing.
WHEN_UNSURE = ("passages", "nothing")
# The certainty, in percent, from which the embedded scorer chooses something.
USUAL_CERTAINTY = 50
# The options of a switch; true and false mean the same.
SWITCH = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a rerank: items selected, tool calls, seconds, characters read, and the certainty in percent from
    which the embedded scorer chooses. ``seconds`` bounds the whole run, ``turn_seconds`` one call of the model with its
    retries."""

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
    least_certainty: int = USUAL_CERTAINTY

    @property
    def stand_ins(self) -> int:
        """How many topics a fallback selects."""
        return min(self.fallback_topics, self.max_topics)


DEFAULTS = Limits()


@dataclass(frozen=True, slots=True)
class Declaration:
    """One parameter: a number from ``least`` to ``most``, one of ``options``, or a text of at most ``most`` characters.

    A text that ``is_day`` is a day such as ``2023-05-01``, one that ``is_phrases`` a few phrases between commas; any
    text may be empty. ``kind`` is int, float or str. ``setting`` names the environment variable with the default of all
    runs, if there is one, ``also`` another name that callers may use."""

    name: str
    kind: type
    default: Any
    setting: str = ""
    least: float = 0
    most: float = 0
    options: tuple[str, ...] = ()
    is_day: bool = False
    is_phrases: bool = False
    also: str = ""

    @property
    def is_number(self) -> bool:
        return self.kind is not str

    @property
    def is_switch(self) -> bool:
        return self.options == SWITCH

    def allows(self, value: Any) -> bool:
        """Whether a value of the parameter's kind is within its bounds; NaN never is."""
        if self.options:
            return value in self.options
        if self.is_number:
            return bool(self.least <= value <= self.most)
        if self.is_phrases:
            phrases = phrases_in(value)
            return len(phrases) <= MOST_PHRASES and all(len(each) <= self.most and stems(each) for each in phrases)
        return len(value) <= self.most and (not self.is_day or not value or _is_day(value))


def _is_day(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def number(default: float, least: float, most: float, setting: str = "", also: str = "") -> Any:
    """A field for a number; it is an integer when ``default`` is one. Both bounds are allowed."""
    return field(default=default, metadata={"setting": setting, "least": least, "most": most, "also": also})


def choice(default: str, options: tuple[str, ...], setting: str = "") -> Any:
    return field(default=default, metadata={"setting": setting, "options": options})


def text(most: int) -> Any:
    """A field for a text of at most ``most`` characters, which may be empty."""
    return field(default="", metadata={"most": most})


def phrases() -> Any:
    """A field for a few phrases between commas, which may be empty."""
    return field(default="", metadata={"most": LONGEST_PHRASE, "is_phrases": True})


def day() -> Any:
    """A field for a day, which may be empty."""
    return field(default="", metadata={"most": len("2023-05-01"), "is_day": True})


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of every run: how many candidates of each kind are shown, and how long it may take.

    ``seconds`` bounds the whole run, ``turn_seconds`` one call of the model. ``context`` says how the selected topics
    are handed over: as passages around what answers, or whole. ``fresh`` says whether the active sessions are
    searched, ``when_unsure`` what is handed over where the embedded scorer chooses nothing. ``since``, ``until``,
    ``channel`` and ``author`` restrict the messages that may be found, see ``Where``; so do the phrases that a topic
    must contain, and those for which it ranks higher."""

    candidates: int = number(50, 1, RANKED, "RERANKER_CANDIDATES", also="k_per_query")
    people_candidates: int = number(20, 0, RANKED, "RERANKER_PEOPLE_CANDIDATES")
    artifact_candidates: int = number(20, 0, RANKED, "RERANKER_ARTIFACT_CANDIDATES")
    seconds: float = number(DEFAULTS.seconds, 0.05, LONGEST, "RERANKER_TIMEOUT")
    turn_seconds: float = number(DEFAULTS.turn_seconds, 0.05, LONGEST, "RERANKER_TURN_TIMEOUT")
    context: str = choice(CONTEXTS[0], CONTEXTS, "RERANKER_CONTEXT")
    fresh: str = choice(SWITCH[0], SWITCH)
    when_unsure: str = choice(WHEN_UNSURE[0], WHEN_UNSURE)
    since: str = day()
    until: str = day()
    channel: str = text(LONGEST_NAME)
    author: str = text(LONGEST_NAME)
    must_phrases: str = phrases()
    should_phrases: str = phrases()

    @property
    def where(self) -> Where:
        return Where(
            self.since,
            self.until,
            (self.channel,) if self.channel else (),
            (self.author,) if self.author else (),
            must_phrases=phrases_in(self.must_phrases),
            should_phrases=phrases_in(self.should_phrases),
        )

    def as_dict(self) -> dict[str, Any]:
        return {declared.name: getattr(self, declared.name) for declared in fields(self)}


@dataclass(frozen=True, slots=True)
class RerankParameters(Parameters):
    """The parameters of a run in which a model reads topics and selects; see ``Limits``. The embedded scorer selects
    from the ``least_certainty`` on, in percent; a memory may have a default of its own."""

    max_topics: int = number(DEFAULTS.max_topics, 1, 50, "RERANKER_MAX_TOPICS")
    max_people: int = number(DEFAULTS.max_people, 0, 50, "RERANKER_MAX_PEOPLE")
    max_artifacts: int = number(DEFAULTS.max_artifacts, 0, 50, "RERANKER_MAX_ARTIFACTS")
    max_tool_calls: int = number(DEFAULTS.max_tool_calls, 1, 20, "RERANKER_MAX_TOOL_CALLS")
    read_chars: int = number(DEFAULTS.read_chars, 1_000, 5_000_000, "RERANKER_READ_CHARS")
    tool_mode: str = choice(DEFAULTS.tool_mode, ("forced", "auto"), "RERANKER_TOOL_MODE")
    least_certainty: int = number(DEFAULTS.least_certainty, 0, 100)

    def limits(self, seconds: float) -> Limits:
        return Limits(
            max_topics=self.max_topics,
            max_people=self.max_people,
            max_artifacts=self.max_artifacts,
            max_tool_calls=self.max_tool_calls,
            seconds=max(seconds, 0.0),
            turn_seconds=self.turn_seconds,
            read_chars=self.read_chars,
            tool_mode=self.tool_mode,
            least_certainty=self.least_certainty,
        )


def declarations(parameters: type[Parameters]) -> Mapping[str, Declaration]:
    """The parameters of a strategy by name, in the order in which they are declared."""
    return {
        declared.name: Declaration(declared.name, type(declared.default), declared.default, **declared.metadata)
        for declared in fields(parameters)
    }
