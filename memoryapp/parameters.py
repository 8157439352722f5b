"""What can be set on a run: defaults from the settings, overrides by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

STRATEGIES = ("flash", "vector")
RANKED = 200


class ParameterError(ValueError):
    """A parameter that no run takes, or a value out of its range; the text is for people."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """``seconds`` bounds the whole run, ``turn_seconds`` one model call of it.

    ``candidates`` is how many topics the model is shown.
    """

    candidates: int
    people_candidates: int
    artifact_candidates: int
    max_topics: int
    max_people: int
    max_artifacts: int
    max_tool_calls: int
    seconds: float
    turn_seconds: float
    read_chars: int
    tool_mode: str

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


BOUNDS: dict[str, tuple[float, float]] = {
    "candidates": (1, RANKED),
    "people_candidates": (0, RANKED),
    "artifact_candidates": (0, RANKED),
    "max_topics": (1, 50),
    "max_people": (0, 50),
    "max_artifacts": (0, 50),
    "max_tool_calls": (1, 20),
    "seconds": (0.05, 600),
    "turn_seconds": (0.05, 600),
    "read_chars": (1_000, 5_000_000),
}


TOOL_MODES = ("forced", "auto")
WHOLE = frozenset(BOUNDS) - {"seconds", "turn_seconds"}


def defaults() -> Parameters:
    return Parameters(
        candidates=settings.RERANKER_CANDIDATES,
        people_candidates=settings.RERANKER_PEOPLE_CANDIDATES,
        artifact_candidates=settings.RERANKER_ARTIFACT_CANDIDATES,
        max_topics=settings.RERANKER_MAX_TOPICS,
        max_people=settings.RERANKER_MAX_PEOPLE,
        max_artifacts=settings.RERANKER_MAX_ARTIFACTS,
        max_tool_calls=settings.RERANKER_MAX_TOOL_CALLS,
        seconds=settings.RERANKER_TIMEOUT,
        turn_seconds=settings.RERANKER_TURN_TIMEOUT,
        read_chars=settings.RERANKER_READ_CHARS,
        tool_mode=settings.RERANKER_TOOL_MODE,
    )


def with_defaults(stored: Mapping[str, Any]) -> Parameters:
    """What a run's row holds, checked when it was written; a parameter that came later has its default."""
    known = set(Parameters.__slots__)
    return replace(defaults(), **{name: value for name, value in stored.items() if name in known})


def overridden(given: Mapping[str, Any]) -> Parameters:
    """The defaults with ``given`` in place of some. Raises ParameterError with a sentence."""
    known = {field.name: type(getattr(defaults(), field.name)) for field in fields(Parameters)}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParameterError(
            _("There is no parameter “%(name)s”. A run takes: %(known)s.")
            % {"name": unknown[0], "known": ", ".join(known)}
        )
    return replace(defaults(), **{name: _value(name, known[name], raw) for name, raw in given.items()})


def strategy_named(name: str) -> str:
    """``name`` if there is such a strategy, else ParameterError."""
    if name not in STRATEGIES:
        raise ParameterError(
            _("There is no strategy “%(name)s”. Choose one of: %(known)s.")
            % {"name": name, "known": ", ".join(STRATEGIES)}
        )
    return name


def _value(name: str, kind: type, raw: Any) -> Any:
    if kind is str:
        return _tool_mode(raw)
    whole = isinstance(raw, float) and kind is int and raw.is_integer()
    try:
        value = kind(str(int(raw) if whole else raw))
    except ValueError:
        raise ParameterError(_("%(name)s must be a number, not “%(value)s”.") % {"name": name, "value": raw}) from None
    least, most = BOUNDS[name]
    if not least <= value <= most:
        raise ParameterError(
            _("%(name)s must be between %(least)s and %(most)s, not %(value)s.")
            % {"name": name, "least": least, "most": most, "value": raw}
        )
    return value


def _tool_mode(raw: Any) -> str:
    if raw not in TOOL_MODES:
        raise ParameterError(_("tool_mode must be forced or auto, not “%(value)s”.") % {"value": raw})
    return str(raw)
