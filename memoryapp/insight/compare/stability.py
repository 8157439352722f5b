"""The same question again: forks of a run that change nothing, or only what should not matter, and how steady it is.
Each repetition is a fork, so it is stored like any run. What was begun and not ended is carried on by whichever process
finds it, and more repetitions join those that are there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.budget import Usage
from memoryapp.engine.events import Event, TurnStarted
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.insight.compare.comparison import USED, ComparedTopic, CompareError, RunStates, lined_up, states_of_runs
from memoryapp.insight.evaluation.scores import Interval, interval
from memoryapp.insight.explain.why_not import searched_at_of
from memoryapp.models import ChatUser, EditedTopic, Prompt, Run, TopicEdit
from memoryapp.platform.llm import prompt_versions
from memoryapp.runs import endings, forks, lifecycle
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
    return sum(endings.stop(fork.pk, by) for fork in repetitions(run) if not fork.is_finished)


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


# Which of the two changed an answer: the memory, or the model with its prompt.
#
# The question of a run is asked again over the memory of then and of now, by the model and prompt of then and of now:
# four forks that differ in nothing else, because the rewritten query is replayed. Where the model and the prompt are
# the same as then there are two. Topics that an edit made of others count as the same matter.

When = Literal["then", "now"]
Cause = Literal["none", "memory", "model", "either", "both", "luck", "failed", "unknown"]
# Of the memory, then of the model and its prompt.
CELLS: tuple[tuple[When, When], ...] = (("then", "then"), ("then", "now"), ("now", "then"), ("now", "now"))
MOST_SOUGHT = 100
# Outcomes in which no model failed; after others something else was chosen in its place.
_MEANT = ("", "disabled", "no_candidates")


@dataclass(frozen=True, slots=True)
class AskedModel:
    """What a run is asked by: ``changes`` are those of its fork; with a ``fault`` it cannot be asked again."""

    name: str
    prompt: str
    changes: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A cell of the table: the memory of ``memory`` asked by the model of ``model``. ``run`` is None until it is asked;
    ``chosen`` are the topics that it chose, ``named`` the same under the ids by which it met them, ``gone`` those of
    the run that it did not."""

    memory: When
    model: When
    run: Run | None
    chosen: Sequence[ComparedTopic] = ()
    gone: Sequence[ComparedTopic] = ()
    named: Sequence[tuple[str, ComparedTopic]] = ()

    @property
    def has_failed(self) -> bool:
        return self.run is not None and self.run.is_finished and self.run.fallback not in _MEANT


@dataclass(frozen=True, slots=True)
class Causes:
    """``chosen`` are the ids of what the run itself chose; ``lost`` what the memory of now loses of it,
    each with the edit that took it out since, if one did."""

    run: Run
    then: datetime
    models: Mapping[When, AskedModel]
    cells: Sequence[Crossing]
    cause: Cause = "unknown"
    chosen: frozenset[str] = frozenset()
    lost: Sequence[tuple[ComparedTopic, TopicEdit | None]] = ()

    @property
    def is_one_model(self) -> bool:
        """Whether model and prompt are the same as then."""
        then, now = self.models["then"], self.models["now"]
        return (then.name, then.prompt) == (now.name, now.prompt)

    @property
    def going(self) -> int:
        return sum(cell.run is not None and not cell.run.is_finished for cell in self.cells)

    @property
    def missing(self) -> list[Crossing]:
        """The cells that can be asked and were not, or in which the model failed."""
        lacking = [cell for cell in self.cells if cell.run is None or cell.has_failed]
        return [cell for cell in lacking if not self.models[cell.model].fault]


def check(run: Run, events: Sequence[Event]) -> None:
    """Raises CompareError for a run of which nothing can be said."""
    if not run.is_finished:
        raise CompareError(_("Run %(run)s has not ended; compare it then.") % {"run": run.short_id})
    if not is_search_replayed(events) or Outline.of(events).found is None:
        raise CompareError(_("Runs that answer in words search the memory of today only."))


def causes(run: Run, events: Sequence[Event]) -> Causes:
    """What was asked of the four so far, and what it says. Raises CompareError."""
    check(run, events)
    then, models = searched_at_of(run), models_of(run, events)
    cells = _cells(run, then, models)
    found = Causes(run, then, models, cells)
    ended = {cell.run.pk: cell.run for cell in cells if cell.run is not None and cell.run.is_finished}
    if not ended:
        return found
    topics = lined_up([run, *(each for pk, each in ended.items() if pk != run.pk)]).topics
    own = frozenset(topic.id for topic in topics if topic.states[run.pk] in USED)
    known = states_of_runs(run.owner_id, list(ended))
    filled = [_filled(cell, topics, own, known) for cell in cells]
    lost = [] if found.going or found.missing else _lost(run, filled, then)
    return Causes(run, then, models, filled, _cause(filled, own, is_whole=not found.going), own, lost)


def models_of(run: Run, events: Sequence[Event]) -> Mapping[When, AskedModel]:
    """The model and the prompt that chose then, and those that would choose now."""
    started, opened = Outline.of(events).started, [e for e in events if isinstance(e, TurnStarted)]
    label = opened[0].prompt_version if opened else ""
    then = AskedModel(started.model if started and label else "", label)
    if not then.name:
        return {"then": then, "now": then}
    name, _dash, rest = label.partition("-")
    text = prompt_versions.in_force_now().get((name, rest.partition("-")[0]))
    prompt = text.label if text else label
    now = AskedModel(_model_now(run), prompt, {"prompt": prompt} if prompt != label else {})
    if then.name == now.name:
        return {"then": then, "now": now}
    if not settings.LLM_BASE_URL:
        fault = _("No chat model is connected, so that of then cannot be asked again.")
        return {"then": AskedModel(then.name, label, fault=fault), "now": now}
    if then.name == EMBEDDED_MODEL:
        fault = _("Then the embedded scorer chose, which is not asked while a chat model is connected.")
        return {"then": AskedModel(then.name, label, fault=fault), "now": now}
    return {"then": AskedModel(then.name, label, {"model": then.name}), "now": now}


def _model_now(run: Run) -> str:
    strategy = STRATEGIES.get(run.strategy)
    if strategy is None or not strategy.needs_model:
        return ""
    return settings.RERANKER_MODEL if settings.LLM_BASE_URL else EMBEDDED_MODEL


def forecast(asked: Causes, events: Sequence[Event]) -> Usage:
    """What the cells that are missing will probably cost: as much as the run did, each."""
    one = forks.forecast(events, 1).usage
    return sum((one for _cell in distinct(asked)), Usage())


def distinct(asked: Causes) -> list[Crossing]:
    """The missing cells, one of those that would be asked the same."""
    return [cell for cell in asked.missing if cell.model == "then" or not asked.is_one_model]


def begin_causes(run: Run, events: Sequence[Event], operator: User, *, again: bool = False) -> list[Run]:
    """Forks of the missing cells, or of all once more, which wait to be executed. Raises CompareError, ForkError."""
    check(run, events)
    then, models = searched_at_of(run), models_of(run, events)
    asked = Causes(run, then, models, _cells(run, then, models, is_empty=again))
    moments = {"then": then.isoformat(), "now": timezone.now().isoformat()}
    with transaction.atomic():
        return [
            forks.fork(
                run, turn=1, changes={"as_of": moments[cell.memory], **models[cell.model].changes}, operator=operator
            )
            for cell in distinct(asked)
        ]


def _cells(run: Run, then: datetime, models: Mapping[When, AskedModel], *, is_empty: bool = False) -> list[Crossing]:
    """Each cell with its last fork; the run itself stands for a model of then that cannot be asked."""
    made = Run.objects.of(run.owner_id).filter(parent=run, turn=1, changes__has_key="as_of").order_by("-created_at")
    known: dict[tuple[When, tuple[tuple[str, Any], ...]], Run] = {}
    for fork in made.select_related("owner", "prompt")[:MOST_SOUGHT] if not is_empty else ():
        moment = fork.changes["as_of"]
        memory: When = "then" if datetime.fromisoformat(moment) == then else "now"
        rest = {name: value for name, value in fork.changes.items() if name != "as_of"}
        known.setdefault((memory, tuple(sorted(rest.items()))), fork)
    cells = []
    for memory, model in CELLS:
        fork_of = known.get((memory, tuple(sorted(models[model].changes.items()))))
        stands_itself = bool(models[model].fault)
        itself = run if stands_itself and memory == "then" else None
        cells.append(Crossing(memory, model, itself if stands_itself else fork_of))
    return cells


def _filled(
    cell: Crossing, topics: Sequence[ComparedTopic], own: frozenset[str], known: Mapping[UUID, RunStates]
) -> Crossing:
    if cell.run is None or not cell.run.is_finished:
        return cell
    states = known[cell.run.pk].states
    chosen = [topic for topic in topics if topic.states.get(cell.run.pk) in USED]
    ids = {topic.id for topic in chosen}
    gone = [topic for topic in topics if topic.id in own and topic.id not in ids]
    named = [(id, topic) for topic in chosen for id in topic.lineage.ids if states.get(id) in USED]
    return Crossing(cell.memory, cell.model, cell.run, chosen, gone, named)


def _cause(cells: Sequence[Crossing], own: frozenset[str], *, is_whole: bool) -> Cause:
    """Which of the two is enough to change what was chosen. ``luck`` means that the memory and the model of then choose
    otherwise than the run did, so that nothing follows from a difference; nor does it where a model ``failed``."""
    if is_whole and any(cell.has_failed for cell in cells):
        return "failed"
    chosen = {
        (cell.memory, cell.model): frozenset(topic.id for topic in cell.chosen)
        for cell in cells
        if cell.run is not None and cell.run.is_finished
    }
    first, last = chosen.get(("then", "then")), chosen.get(("now", "now"))
    if first is None or last is None or not is_whole:
        return "unknown"
    if first != own:
        return "luck"
    if last == first:
        return "none"
    by_memory, by_model = chosen.get(("now", "then"), last), chosen.get(("then", "now"), first)
    if by_memory != first:
        return "either" if by_model != first else "memory"
    return "model" if by_model != first else "both"


def _lost(run: Run, cells: Sequence[Crossing], then: datetime) -> list[tuple[ComparedTopic, TopicEdit | None]]:
    """What the run chose and the memory of now loses, each with the edit that took the topic out since."""
    now = next((cell for cell in cells if cell.memory == "now" and cell.run is not None), None)
    gone = now.gone if now else ()
    numbers = {number: topic for topic in gone for id in topic.lineage.ids if (number := parse_topic_id(id))}
    sides = EditedTopic.objects.filter(
        owner=run.owner_id, topic__in=list(numbers), side=EditedTopic.Side.OUT, edit__at__gt=then
    )
    edits = {numbers[side.topic_id].id: side.edit for side in sides.select_related("edit").order_by("-edit_id")}
    return [(topic, edits.get(topic.id)) for topic in gone]


# One question asked in several ways at once: strategies, models and versions of the prompt, each with each.

MOST_WAYS = 40


def start_many(
    owner: ChatUser,
    query: str,
    *,
    strategies: Sequence[str],
    models: Sequence[str] = (),
    prompts: Sequence[Prompt] = (),
    operator: User | None = None,
) -> list[Run]:
    """The runs, which wait to be executed. Models and versions apply to strategies that ask with them; without any,
    those in force do. Raises CompareError for fewer than two or too many ways."""
    ways = [way for name in strategies for way in _ways(name, models, prompts)]
    if len(ways) < 2:
        raise CompareError(_("Choose at least two ways to ask: two strategies, models or versions of a prompt."))
    if len(ways) > MOST_WAYS:
        raise CompareError(
            _("These are %(n)d ways; at most %(most)d can be asked at once.") % {"n": len(ways), "most": MOST_WAYS}
        )
    return [
        lifecycle.start(
            owner,
            query,
            strategy=name,
            operator=operator,
            prompt=prompt,
            changes={**({"model": model} if model else {}), **({"prompt": str(prompt)} if prompt else {})},
        )
        for name, model, prompt in ways
    ]


def _ways(name: str, models: Sequence[str], prompts: Sequence[Prompt]) -> list[tuple[str, str, Prompt | None]]:
    strategy = STRATEGIES[name]
    own = {prompt.name for prompt in strategy.prompts}
    fitting: list[Prompt | None] = [prompt for prompt in prompts if prompt.name in own]
    asked = models if strategy.prompts else ()
    return [(name, model, prompt) for model, prompt in product(asked or [""], fitting or [None])]
