"""Which of the two changed an answer: the memory, or the model with its prompt.

The question of a run is asked again over the memory of then and of now, by the model and prompt of then and of now:
four forks that differ in nothing else, because the rewritten query is replayed. Where the model and the prompt are the
same as then there are two. Topics that an edit made of others count as the same matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.compare.comparison import ComparedTopic, CompareError, lined_up
from memoryapp.compare.states import USED, RunStates, states_of_runs
from memoryapp.engine.budget import Usage
from memoryapp.engine.events import Event, TurnStarted
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.explain.why_not import searched_at_of
from memoryapp.llm import prompt_versions
from memoryapp.models import EditedTopic, Run, TopicEdit
from memoryapp.runs import forks
from memoryapp.runs.replays import is_search_replayed

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
class LostTopic:
    """A topic that is no longer chosen, with the edit that took it out since, if one did."""

    topic: ComparedTopic
    edit: TopicEdit | None


@dataclass(frozen=True, slots=True)
class Causes:
    """``chosen`` are the ids of what the run itself chose; ``lost`` what the memory of now loses of it."""

    run: Run
    then: datetime
    models: Mapping[When, AskedModel]
    cells: Sequence[Crossing]
    cause: Cause = "unknown"
    chosen: frozenset[str] = frozenset()
    lost: Sequence[LostTopic] = ()

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


def begin(run: Run, events: Sequence[Event], operator: User, *, again: bool = False) -> list[Run]:
    """The forks of the missing cells, or of all of them once more, which wait to be executed. Raises CompareError,
    ForkError."""
    check(run, events)
    then, models = searched_at_of(run), models_of(run, events)
    asked = Causes(run, then, models, _cells(run, then, models, is_empty=again))
    moments = {"then": then.isoformat(), "now": timezone.now().isoformat()}
    with transaction.atomic():
        return [
            forks.fork(
                run,
                turn=1,
                changes={"as_of": moments[cell.memory], **models[cell.model].changes},
                operator=operator,
            )
            for cell in distinct(asked)
        ]


def _cells(run: Run, then: datetime, models: Mapping[When, AskedModel], *, is_empty: bool = False) -> list[Crossing]:
    """Each cell with the last fork that asked it; where the model of then cannot be asked, the run itself stands for
    it."""
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


def _lost(run: Run, cells: Sequence[Crossing], then: datetime) -> list[LostTopic]:
    """What the run chose and the memory of now loses, each with the edit that took the topic out since."""
    now = next((cell for cell in cells if cell.memory == "now" and cell.run is not None), None)
    gone = now.gone if now else ()
    numbers = {number: topic for topic in gone for id in topic.lineage.ids if (number := parse_topic_id(id))}
    sides = EditedTopic.objects.filter(
        owner=run.owner_id, topic__in=list(numbers), side=EditedTopic.Side.OUT, edit__at__gt=then
    )
    edits = {numbers[side.topic_id].id: side.edit for side in sides.select_related("edit").order_by("-edit_id")}
    return [LostTopic(topic, edits.get(topic.id)) for topic in gone]
