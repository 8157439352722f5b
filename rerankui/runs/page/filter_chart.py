"""The similarities of a run's candidates as a picture: a bar each, the cut lines, and the cliff."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.strategies.cuts import Cuts, Fate, FilteredItem, Filtering

WIDTH, HEIGHT = 960, 240
_LEFT, _TOP, _BOTTOM = 40, 14, 22
# More bars than this cannot be distinguished.
MOST_BARS = 80
# How many items are shown after those that passed the first stage, so that the threshold is visible.
_BEHIND = 10
# The upper edge of the picture is the first of these similarities that nothing shown is above, with how far its
# ticks are apart.
_TOPS: Mapping[float, float] = {0.3: 0.1, 0.5: 0.1, 0.75: 0.25, 1.0: 0.25}
# Names of lines that are nearer than this, in the picture's units, would overlap.
_NAME_HEIGHT = 20


@dataclass(frozen=True, slots=True)
class ThresholdLine:
    """A threshold: its height in the picture, and the similarity; ``is_under`` puts its name under the line."""

    name: str
    y: float
    value: float
    is_under: bool = False


def chart(filtering: Filtering) -> dict[str, Any]:
    """The most similar items, as many as passed the first stage and some behind them. ``cliff`` is where the gap cut,
    from left; None where it did not. ``ticks`` are similarities by height."""
    shown = filtering.items[: min(max(filtering.initial + _BEHIND, 20), MOST_BARS)]
    step = (WIDTH - _LEFT) / max(len(shown), 1)
    top = _top(shown, filtering.cuts)
    bars = tuple(_bar(item, place, step, top) for place, item in enumerate(shown))
    cliff = _LEFT + filtering.cliff * step if filtering.cliff else None
    return {
        "bars": bars,
        "lines": _lines(filtering.cuts, top),
        "ticks": _ticks(top),
        "cliff": cliff,
        "left": _LEFT,
        "base": HEIGHT - _BOTTOM,
        "width": WIDTH,
        "height": HEIGHT,
    }


def _top(shown: Sequence[FilteredItem], cuts: Cuts) -> float:
    """The similarity at the upper edge: small ones fill the picture too."""
    numbers = (item.similarity for item in shown if item.similarity == item.similarity)
    highest = max(cuts.initial_threshold, cuts.threshold, *numbers)
    return next((top for top in _TOPS if top >= highest), 1.0)


def _lines(cuts: Cuts, top: float) -> tuple[ThresholdLine, ...]:
    """The first stage's line, and that of the second where it cuts more."""
    first, second = (_y(value, top) for value in (cuts.initial_threshold, cuts.threshold))
    if cuts.threshold <= cuts.initial_threshold:
        return (ThresholdLine("initial", first, cuts.initial_threshold),)
    initial = ThresholdLine("initial", first, cuts.initial_threshold, is_under=first - second < _NAME_HEIGHT)
    return (initial, ThresholdLine("threshold", second, cuts.threshold))


def _bar(item: FilteredItem, place: int, step: float, top: float) -> dict[str, Any]:
    """``x`` and ``y`` are the upper left corner, in the picture's own units."""
    y, gap = _y(item.similarity, top), min(3.0, step * 0.2)
    left, height = round(_LEFT + place * step + gap / 2, 1), round(HEIGHT - _BOTTOM - y, 1)
    return {"item": item, "fate": item.fate, "x": left, "y": y, "width": round(step - gap, 1), "height": height}


def _y(similarity: float, top: float) -> float:
    """Returns the height of a similarity; a value that is no number or below zero is at the base."""
    inside = min(max(similarity / top, 0.0), 1.0) if similarity == similarity else 0.0
    return round(_TOP + (1 - inside) * (HEIGHT - _TOP - _BOTTOM), 1)


def _ticks(top: float) -> tuple[ThresholdLine, ...]:
    step = _TOPS[top]
    values = (step * place for place in range(round(top / step) + 1))
    return tuple(ThresholdLine("tick", _y(value, top), value) for value in values)


# The words of the filter: its cuts, and what became of each topic.

LABELS: Mapping[str, Promise] = {
    "initial_top_k": _("First stage: candidates at most"),
    "initial_threshold": _("First stage: similarity at least"),
    "threshold": _("Similarity at least"),
    "score_gap": _("Cut at a drop above"),
    "final_top_k": _("Topics at most"),
}
FATE_NAMES: Mapping[Fate, Promise] = {
    "kept": _("kept"),
    "below_initial": _("below the first stage"),
    "beyond_initial": _("beyond the first stage"),
    "below_threshold": _("below the threshold"),
    "after_gap": _("behind the gap"),
    "beyond_top_k": _("beyond the most"),
}
# By the stage of the event ``filtered``, which does not tell the two fates of the first stage apart.
STAGE_WORDS: Mapping[str, Promise] = {
    "initial": _("outside the first stage"),
    "threshold": FATE_NAMES["below_threshold"],
    "gap": FATE_NAMES["after_gap"],
    "top_k": FATE_NAMES["beyond_top_k"],
}
