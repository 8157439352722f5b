"""Changes under which a run would have kept what it lost, each tried before it is named.

What concerns the search is tried on the memory as it is now, where a fork searches too; what comes after it, on what
the run recorded. A change that does not help is not named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.engine.candidates import BASELINE, RANKED
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.parameters import declarations
from memoryapp.engine.strategies.cuts import DIGITS, Cuts, apply_cuts
from memoryapp.engine.strategies.cuts import Fate as CutFate
from memoryapp.engine.strategies.filter import similarities
from memoryapp.engine.strategies.operators import typed
from memoryapp.explain.fate import Fate
from memoryapp.explain.past_forks import from_forks
from memoryapp.explain.reading_again import would_read
from memoryapp.explain.research import Research
from memoryapp.explain.story import CHOSEN, SHOWN, Story, kind_of
from memoryapp.runs import forks
from memoryapp.runs.parameters import ParameterError, strategy_named
from memoryapp.runs.replays import ForkError, read_changes

MOST = 3
# Numbers of candidates are proposed in such steps.
STEP = 25
# A smaller difference of rank hardly matters.
FAR = 3
_WHERE = ("since", "until", "channel", "author")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A ``change`` and its ``result``, in words.

    ``turn`` and ``changes`` are the fork that makes it; ``merge`` are topics to merge instead. ``rank`` is that of the
    topic after a change of the search, ``shown`` whether the model would see it.
    """

    change: str
    result: str
    turn: int | None = None
    changes: Mapping[str, Any] | None = None
    merge: tuple[str, ...] = ()
    rank: int | None = None
    shown: bool | None = None

    @property
    def fork(self) -> dict[str, Any] | None:
        """The body of a request for the fork."""
        return None if self.changes is None else {"turn": self.turn, "changes": dict(self.changes)}


@dataclass(frozen=True, slots=True)
class LostItem:
    """What is tried for: a ``fate``, the number of the live topic ``now`` (0 without one), and the ``research``."""

    story: Story
    fate: Fate
    now: int
    research: Research | None

    @property
    def limit(self) -> int:
        """How many candidates of its kind the run shows."""
        return int(self.story.parameters[SHOWN[kind_of(self.fate.id)]])

    def standing(self, **how: Any) -> tuple[int, bool]:
        """The topic's rank, 0 for none, and whether it is shown, in an order of the research."""
        found = self.research.ranks(**{"shown": self.limit, **how}).get(self.now) if self.research else None
        return (found.rank, found.shown) if found else (0, False)


def counterfactuals(asked: LostItem) -> tuple[Counterfactual, ...]:
    """At most three, those of the stage itself first."""
    tried = (each for make in _OF_STAGE.get(asked.fate.stage, ()) for each in make(asked))
    return tuple(islice((each for each in tried if _can_be_forked(asked.story, each)), MOST))


def _can_be_forked(story: Story, tried: Counterfactual) -> bool:
    if tried.changes is None:
        return True
    try:
        forks.turn_of_fork(story.run, story.events, tried.turn, read_changes(tried.changes, story.events))
    except (ForkError, ParameterError):
        return False
    return True


def _ranked_words(rank: int, shown: bool) -> str:
    if shown:
        return _("it would be #%(rank)d, and the model would see it") % {"rank": rank}
    return _("it would be #%(rank)d") % {"rank": rank}


def _more_candidates(asked: LostItem) -> Iterator[Counterfactual]:
    name = SHOWN[kind_of(asked.fate.id)]
    rank = asked.standing(shown=RANKED)[0] if asked.now else int(asked.fate.numbers.get("rank", 0))
    least = STEP * math.ceil(max(rank, asked.limit + 1) / STEP)
    for wanted in range(least, min(least + 2 * STEP, RANKED) + 1, STEP):
        rank, shown = asked.standing(shown=wanted) if asked.now else (rank, rank <= wanted)
        if rank and shown:
            change = _("%(n)d candidates") % {"n": wanted}
            changes = {"parameters": {name: wanted}}
            yield Counterfactual(change, _ranked_words(rank, shown), 1, changes, rank=rank, shown=True)
            return


def _as_typed(asked: LostItem) -> Iterator[Counterfactual]:
    """Without what the enricher made of the query."""
    line = asked.story.outline.enriched
    if line is None or asked.research is None or asked.research.typed is None:
        return
    (before, was_shown), (rank, shown) = asked.standing(), asked.standing(typed=True)
    if rank and (not before or rank <= before - FAR or (shown and not was_shown)):
        changes = {"rewrite": line.query}
        result = _ranked_words(rank, shown)
        yield Counterfactual(_("without the enricher"), result, 1, changes, rank=rank, shown=shown)


def _merged(asked: LostItem) -> Iterator[Counterfactual]:
    if asked.research is None or not asked.now:
        return
    before, was_shown = asked.standing()
    for number, pair in asked.research.merged.items():
        found = asked.research.ranks_merged(number, shown=asked.limit).get(number)
        if found and (not before or found.rank < before) and (found.shown or not was_shown):
            names = tuple(map(topic_id, pair))
            change = _("merging %(one)s and %(other)s") % {"one": names[0], "other": names[1]}
            result = _("it would be #%(rank)d") % {"rank": found.rank}
            yield Counterfactual(change, result, merge=names, rank=found.rank, shown=found.shown)


def _other_cuts(asked: LostItem) -> Iterator[Counterfactual]:
    """The smallest change of each cut that loses it, one after the other."""
    found = asked.story.found
    if found is None:
        return
    known = similarities(found)
    own = Cuts(**{name: asked.story.parameters[name] for name in asdict(Cuts())})
    cuts = own
    for _round in range(len(asdict(own))):
        filtering = apply_cuts(known, cuts)
        item = next((each for each in filtering.items if each.id == asked.fate.id), None)
        if item is None:
            return
        if item.fate == "kept":
            changed = {name: value for name, value in asdict(cuts).items() if value != asdict(own)[name]}
            words = ", ".join(f"{name} {value:g}" for name, value in changed.items())
            result = _("it would be chosen, as no. %(rank)d") % {"rank": item.rank}
            yield Counterfactual(words, result, 1, {"parameters": changed})
            return
        cuts = _repaired(cuts, item.fate, item.rank, item.similarity, filtering.drop)
        if not _allowed(asked.story, cuts):
            return


def _repaired(cuts: Cuts, fate: CutFate, rank: int, similarity: float, drop: tuple[float, float] | None) -> Cuts:
    lower = math.floor(round(similarity, DIGITS) * 100) / 100
    if fate == "below_initial":
        return replace(cuts, initial_threshold=lower)
    if fate == "beyond_initial":
        return replace(cuts, initial_top_k=rank)
    if fate == "below_threshold":
        return replace(cuts, threshold=lower)
    if fate == "after_gap" and drop:
        return replace(cuts, score_gap=math.ceil(round(drop[0] - drop[1], DIGITS) * 100) / 100)
    return replace(cuts, final_top_k=rank)


def _allowed(story: Story, cuts: Cuts) -> bool:
    declared = declarations(strategy_named(story.run.strategy).parameters)
    return all(declared[name].allows(value) for name, value in asdict(cuts).items())


def _more_nearest(asked: LostItem) -> Iterator[Counterfactual]:
    """More topics of the plain vector order."""
    baseline = asked.story.finished.baseline if asked.story.finished else ()
    if asked.story.chooses_nearest and asked.fate.id in baseline[:BASELINE]:
        place = baseline.index(asked.fate.id) + 1
        result = _("it would be chosen, as no. %(rank)d") % {"rank": place}
        yield Counterfactual(f"max_topics {place}", result, 1, {"parameters": {"max_topics": place}})


def _more_picks(asked: LostItem) -> Iterator[Counterfactual]:
    """The model's own last answer once more, with a higher limit; no model is asked."""
    replies, place = asked.story.outline.replies, int(asked.fate.numbers.get("place", 0))
    if asked.fate.case != "picked" or not replies:
        return
    name = CHOSEN[kind_of(asked.fate.id)]
    changes = {"reply": replies[-1].text, "parameters": {name: place}}
    result = _("it would be chosen, as no. %(rank)d, from the same answer") % {"rank": place}
    yield Counterfactual(f"{name} {place}", result, replies[-1].turn, changes)


def _more_room(asked: LostItem) -> Iterator[Counterfactual]:
    """More characters in one answer of the tool, for the same request."""
    if asked.fate.case != "size":
        return
    found = would_read(asked.story, asked.fate.id)
    if found is None:
        return
    chars, turn = found
    result = _("it would be read in turn %(turn)d") % {"turn": turn}
    # The recorded request is answered anew; the model is asked from the turn after it on.
    after = min(turn + 1, asked.story.outline.replies[-1].turn)
    yield Counterfactual(f"read_chars {chars}", result, after, {"parameters": {"read_chars": chars}})


def _unfiltered(asked: LostItem) -> Iterator[Counterfactual]:
    story = asked.story
    rank, shown = asked.standing(everywhere=True)
    if not rank or asked.fate.case == "never":
        return
    result = _ranked_words(rank, shown)
    given = {name: "" for name in _WHERE if story.parameters.get(name)}
    plain = typed(story.run.query)
    if given:
        yield Counterfactual(_("without its filters"), result, 1, {"parameters": given}, rank=rank, shown=shown)
    elif plain.where and plain.text:
        yield Counterfactual(_("without its filters"), result, 0, {"query": plain.text}, rank=rank, shown=shown)


def _earlier_forks(asked: LostItem) -> Iterator[Counterfactual]:
    """Forks of this run that chose it."""
    for fork in from_forks(asked.story.run, asked.fate.id):
        result = _("chosen in %(n)d of %(of)d forks") % {"n": fork.chosen, "of": fork.forks}
        yield Counterfactual(fork.words, result, fork.turn, fork.changes)


_Make = Callable[[LostItem], Iterator[Counterfactual]]
_OF_STAGE: Mapping[str, Sequence[_Make]] = {
    "filtered": (_unfiltered,),
    "below_threshold": (_as_typed, _merged, _more_nearest, _earlier_forks),
    "beyond_candidates": (_more_candidates, _more_nearest, _as_typed, _merged, _earlier_forks),
    "cut": (_other_cuts, _as_typed, _earlier_forks),
    "not_requested": (_earlier_forks, _as_typed),
    "did_not_fit": (_more_room, _earlier_forks),
    "not_chosen": (_earlier_forks,),
    "beyond_limit": (_more_nearest, _more_picks, _earlier_forks),
    "not_used": (_earlier_forks,),
}


def needs_search(stage: str) -> bool:
    """Whether changes of the search are tried at this stage."""
    return bool({_more_candidates, _as_typed, _merged, _unfiltered} & set(_OF_STAGE.get(stage, ())))


def tries_merges(stage: str) -> bool:
    return _merged in _OF_STAGE.get(stage, ())


def live_number(now: Sequence[str]) -> int:
    """The number of the first of these topics; 0 without one."""
    return next((parse_topic_id(id) or 0 for id in now), 0)
