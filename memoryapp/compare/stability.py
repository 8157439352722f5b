"""The same question again: forks of a run that change nothing, or only what should not matter, and how steady it is.

Each repetition is a fork, so it is stored like any run. What was begun and not ended is carried on by whichever process
finds it, and more repetitions join those that are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp.compare.comparison import ComparedTopic, CompareError
from memoryapp.compare.states import USED
from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.budget import Usage
from memoryapp.engine.events import Event
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.evaluation.bootstrap import Interval, interval
from memoryapp.models import Prompt, Run
from memoryapp.runs import forks, stops
from memoryapp.runs.replays import is_search_replayed, labels

# Of one kind at a time, and of all forks of a run that are shown.
MOST_TIMES = 20
MOST_SHOWN = 100
LONGEST_PARAPHRASES = 8_000
# By what they change; ``same`` changes nothing.
KINDS = ("same", "shuffled", "without_first", "unrewritten", "paraphrased", "prompted")
MOST_PROMPTS = 50


@dataclass(frozen=True, slots=True)
class WantedRepetitions:
    """``times`` of each kind; ``paraphrases`` are lines of a text, ``prompt`` is the label of another version."""

    kinds: Sequence[str]
    times: int
    paraphrases: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class PlannedRepetitions:
    """The changes of each fork that is to be made, and what they will probably cost."""

    changes: Sequence[Mapping[str, Any]]
    usage: Usage


def kinds_of(run: Run, events: Sequence[Event]) -> list[str]:
    """The kinds of repetitions that can tell something about this run."""
    strategy, line = STRATEGIES.get(run.strategy), Outline.of(events).enriched
    rewrites = strategy is not None and ENRICH in strategy.prompts and line is not None
    found = ["same", "paraphrased"]
    found += ["shuffled", "without_first"] if is_search_replayed(events) else []
    found += ["unrewritten"] if rewrites and line and line.enriched != run.query else []
    found += ["prompted"] if other_prompts(events) else []
    return [kind for kind in KINDS if kind in found]


def other_prompts(events: Sequence[Event]) -> list[str]:
    """The labels of the versions of the prompt that chose in this run, which it was not sent; the newest first."""
    sent = labels(events)
    used = next((label for label in reversed(sent) if label.startswith(f"{RERANK.name}-")), "")
    if not used:
        return []
    _name, language, _version = used.split("-")
    rows = Prompt.objects.filter(name=RERANK.name, language=language).order_by("-version")
    versions = [*map(str, rows[:MOST_PROMPTS]), f"{RERANK.name}-{language}-0"]
    return [label for label in versions if label not in sent]


def kind_of(fork: Run) -> str:
    """Which repetition a fork is; empty for a fork that somebody made for another purpose."""
    names = set(fork.changes)
    if not names:
        return "same" if fork.turn == 1 else ""
    by_change = {
        "order": "shuffled",
        "without": "without_first",
        "rewrite": "unrewritten",
        "query": "paraphrased",
        "prompt": "prompted",
    }
    if len(names) > 1:
        return ""
    kind = by_change.get(names.pop(), "")
    return "" if kind == "without_first" and len(fork.changes["without"]) > 1 else kind


def plan(run: Run, events: Sequence[Event], wanted: WantedRepetitions, begun: Sequence[Run]) -> PlannedRepetitions:
    """Orders continue after those that were ``begun``. Raises CompareError."""
    _check(run, events, wanted)
    changes = [change for kind in wanted.kinds for change in _changes(run, events, kind, wanted, begun)]
    if not changes:
        raise CompareError(_("Write the paraphrases, one a line."))
    usage = Usage()
    for change in changes:
        usage += forks.forecast(events, 0 if "query" in change else 1).usage
    return PlannedRepetitions(changes, usage)


def _check(run: Run, events: Sequence[Event], wanted: WantedRepetitions) -> None:
    if not wanted.kinds or not 1 <= wanted.times <= MOST_TIMES or not set(wanted.kinds) <= set(kinds_of(run, events)):
        raise CompareError(_("Choose what to repeat, 1 to %(most)d times.") % {"most": MOST_TIMES})
    if len(wanted.paraphrases) > LONGEST_PARAPHRASES:
        raise CompareError(_("The paraphrases have at most %(most)d characters.") % {"most": LONGEST_PARAPHRASES})
    if "prompted" in wanted.kinds and wanted.prompt not in other_prompts(events):
        raise CompareError(_("Choose another version of the prompt."))


def _changes(
    run: Run, events: Sequence[Event], kind: str, wanted: WantedRepetitions, begun: Sequence[Run]
) -> list[dict[str, Any]]:
    times = wanted.times
    if kind == "shuffled":
        first = max((int(fork.changes["order"]) for fork in begun if "order" in fork.changes), default=0) + 1
        return [{"order": seed} for seed in range(first, first + times)]
    if kind == "without_first":
        found = Outline.of(events).found
        shown = [candidate.id for candidate in found.shown] if found else []
        return [{"without": shown[:1]}] * times if shown else []
    if kind == "paraphrased":
        lines = dict.fromkeys(line.strip() for line in wanted.paraphrases.splitlines() if line.strip())
        return [{"query": line} for line in lines if line != run.query][:MOST_TIMES]
    changed = {"unrewritten": {"rewrite": run.query}, "prompted": {"prompt": wanted.prompt}}
    return [changed.get(kind, {})] * times


def begin(run: Run, planned: PlannedRepetitions, operator: User) -> list[Run]:
    """Makes the forks, which wait to be executed. Raises ForkError."""
    with transaction.atomic():
        return [forks.fork(run, turn=None if each else 1, changes=each, operator=operator) for each in planned.changes]


def repetitions(run: Run) -> list[Run]:
    """The forks of a run that repeat it, oldest first."""
    made = (
        Run.objects.of(run.owner_id).filter(parent=run).select_related("owner", "prompt").order_by("created_at", "id")
    )
    return [fork for fork in made[:MOST_SHOWN] if kind_of(fork)]


def stop(run: Run, by: str) -> int:
    """Ends the repetitions that go on; returns how many."""
    return sum(stops.stop(fork.pk, by) for fork in repetitions(run) if not fork.is_finished)


def position_bias(topics: Sequence[ComparedTopic], shuffled: Sequence[Run]) -> Interval | None:
    """How much nearer the top of a shuffled list the chosen topics stood than chance has it, as a share of the list:
    0.5 if always the first is chosen, 0 without a bias. None where fewer than two of the runs chose anything."""
    means = []
    for run in shuffled:
        placed = [topic for topic in topics if run.pk in topic.ranks and topic.states[run.pk] != "below"]
        chosen = [topic.ranks[run.pk] for topic in placed if topic.states[run.pk] in USED]
        if chosen and len(placed) > len(chosen):
            means.append(0.5 - (sum(chosen) / len(chosen) - 0.5) / len(placed))
    return interval(means) if len(means) > 1 else None


def steadiness(topics: Sequence[ComparedTopic], runs: Sequence[Run]) -> tuple[int, int]:
    """How many topics were chosen by each run that could choose them, and how many by some of them only."""
    always = sometimes = 0
    for topic in topics:
        able = [run for run in runs if topic.id not in run.changes.get("without", ())]
        times = sum(topic.states[run.pk] in USED for run in able)
        always += bool(times) and times == len(able)
        sometimes += 0 < times < len(able)
    return always, sometimes


def counted(forks_made: Sequence[Run]) -> Mapping[str, int]:
    """How many repetitions of each kind have ended."""
    return Counter(kind_of(fork) for fork in forks_made if fork.is_finished)
