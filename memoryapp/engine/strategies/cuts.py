"""Filters items by similarity in two stages, and records the fate of every item.

The first stage keeps the ``initial_top_k`` items with at least ``initial_threshold``. The second stage keeps, in this
order, those with at least ``threshold``, those before the first drop between neighbours above ``score_gap``, and the
first ``final_top_k``. The order of the items never changes. Similarities are cosines, whose scale differs from model to
model, so presets belong to an embedding profile."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

Fate = Literal["kept", "below_initial", "beyond_initial", "below_threshold", "after_gap", "beyond_top_k"]
FATES: tuple[Fate, ...] = get_args(Fate)
# Differences are compared after rounding: in floating point .85 - .70 is 0.15000000000000002.
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the filter cuts. Thresholds are inclusive, the gap is strict."""

    initial_top_k: int = 10
    initial_threshold: float = 0.30
    threshold: float = 0.50
    score_gap: float = 0.15
    final_top_k: int = 3


PRESETS: Mapping[str, Cuts] = {
    "precise": Cuts(threshold=0.60, final_top_k=2),
    "balanced": Cuts(),
    "broad": Cuts(initial_top_k=20, threshold=0.35, score_gap=0.10, final_top_k=5),
    "small": Cuts(initial_top_k=5, threshold=0.40, score_gap=0.20),
}


# Cosines of the embedded encoder are low: for the golden questions of the demo memory, topics with an answer have a
# median of .27, and half of all other topics are below .09. For that encoder these cuts reach a precision / recall /
# number of topics of .48/.55/1.2, .51/.76/2.0, .40/.85/3.7 and .43/.76/2.4; the common ones above keep almost nothing.
_EMBEDDED: Mapping[str, Cuts] = {
    "precise": Cuts(10, 0.10, 0.25, 0.06, 2),
    "balanced": Cuts(10, 0.10, 0.18, 0.08, 3),
    "broad": Cuts(20, 0.10, 0.15, 0.10, 5),
    "small": Cuts(5, 0.10, 0.15, 0.10, 3),
}
CALIBRATED: Mapping[str, Mapping[str, Cuts]] = {"embedded/use-multilingual-v3@512": _EMBEDDED}


def presets_of(profile: str) -> Mapping[str, Cuts]:
    """The built-in presets for an embedding profile: measured ones if there are any, otherwise the common ones."""
    return CALIBRATED.get(profile, PRESETS)


@dataclass(frozen=True, slots=True)
class FilteredItem:
    """``rank`` counts from 1 by similarity."""

    id: str
    similarity: float
    rank: int
    fate: Fate


@dataclass(frozen=True, slots=True)
class Filtering:
    """Every item with its fate, the most similar first. ``cliff`` is the rank of the last item before the gap, or 0."""

    items: tuple[FilteredItem, ...]
    cuts: Cuts
    cliff: int = 0

    @property
    def kept(self) -> tuple[FilteredItem, ...]:
        return self.of("kept")

    def of(self, *fates: Fate) -> tuple[FilteredItem, ...]:
        """The items with one of these fates."""
        return tuple(item for item in self.items if item.fate in fates)

    @property
    def counts(self) -> Mapping[Fate, int]:
        """How many items have each fate; the counts add up to the number of items."""
        found = Counter(item.fate for item in self.items)
        return {fate: found[fate] for fate in FATES}

    @property
    def initial(self) -> int:
        """How many passed the first stage."""
        return len(self.items) - len(self.of("below_initial", "beyond_initial"))

    @property
    def drop(self) -> tuple[float, float] | None:
        """The similarities before and after the gap."""
        if not self.cliff:
            return None
        return self.items[self.cliff - 1].similarity, self.items[self.cliff].similarity


def apply_cuts(similarities: Mapping[str, float], cuts: Cuts) -> Filtering:
    """The fate of each item. Equal items keep their order in ``similarities``; NaN passes no threshold."""
    ordered = sorted(similarities.items(), key=lambda pair: math.inf if math.isnan(pair[1]) else -pair[1])
    values = [value for _id, value in ordered]
    passing = _passing(values, cuts.initial_threshold)
    initial = min(passing, cuts.initial_top_k)
    above = min(initial, _passing(values, cuts.threshold))
    drops = [round(before - behind, DIGITS) for before, behind in pairwise(values[:above])]
    cliff = next((place for place, drop in enumerate(drops, start=1) if drop > round(cuts.score_gap, DIGITS)), 0)
    before = cliff or above
    kept = min(before, cuts.final_top_k)
    ends: list[tuple[int, Fate]] = [
        (kept, "kept"),
        (before, "beyond_top_k"),
        (above, "after_gap"),
        (initial, "below_threshold"),
        (passing, "beyond_initial"),
        (len(values), "below_initial"),
    ]
    items = [
        FilteredItem(id, value, rank, next(fate for end, fate in ends if rank <= end))
        for rank, (id, value) in enumerate(ordered, start=1)
    ]
    return Filtering(tuple(items), cuts, cliff)


def _passing(values: Sequence[float], threshold: float) -> int:
    """How many of ``values``, which are falling, are at least the threshold."""
    return sum(round(value, DIGITS) >= round(threshold, DIGITS) for value in values)
