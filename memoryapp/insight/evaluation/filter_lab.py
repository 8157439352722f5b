"""The filter lab: cuts of the strategy ``filter``, tried on stored runs. In: a run's candidates, or the latest runs of
a memory, and cuts. Out: presets of an embedding profile, and how well the cuts find what models selected and what
golden questions ask for. It searches nothing. It imports the models and the engine."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import override, pgettext_lazy

from memoryapp.engine.events import CandidatesFound, RunFinished, RunStarted, from_payload
from memoryapp.engine.memory import topic_id
from memoryapp.engine.parameters import Declaration, declarations
from memoryapp.engine.strategies import needs_model
from memoryapp.engine.strategies.cuts import PRESETS, Cuts, apply_cuts, presets_of
from memoryapp.engine.strategies.filter import FilterParameters, similarities
from memoryapp.models import ChatUser, EmbeddingProfile, FilterPreset, Run, RunEvent, TopicMessage

# How well cuts find what is known to be relevant, over stored runs; no search is repeated.
#
# The relevant topics of a run are those with its evidence messages, for a golden question, and otherwise those that a
# model selected. Runs of another embedding profile are left out, because their cosines have another scale.

MOST = 100
_KINDS = (RunStarted.kind, CandidatesFound.kind, RunFinished.kind)
# How many runs are read together; the events of each have about 60 kB.
_BATCH = 20


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over runs, from 0 to 1, and how many topics were kept; an empty selection has precision and recall 0."""

    precision: float
    recall: float
    kept: float


@dataclass(frozen=True, slots=True)
class CutComparison:
    """The same ``runs`` under the cuts before and after."""

    runs: int
    before: Figures
    after: Figures


@dataclass(frozen=True, slots=True)
class _Case:
    similarities: Mapping[str, float]
    relevant: frozenset[str]


def on_choices(owner: ChatUser, profile: str, before: Cuts, after: Cuts) -> CutComparison | None:
    """Compares the cuts with what models selected in the owner's latest runs; returns None if there are none."""
    runs = Run.objects.of(owner).by_hand().made_here().filter(fallback="", selected_count__gt=0)
    models = [strategy for strategy in runs.values_list("strategy", flat=True).distinct() if needs_model(strategy)]
    return _compared(_cases(runs.filter(strategy__in=models), profile), before, after)


def on_golden_questions(owner: ChatUser, profile: str, before: Cuts, after: Cuts) -> CutComparison | None:
    """Compares the cuts with the evidence of the owner's latest golden questions; returns None if there are none."""
    return _compared(_cases(Run.objects.of(owner).exclude(evidence=[]), profile), before, after)


def _cases(runs: Any, profile: str) -> list[_Case]:
    """The latest runs of the profile that found anything and have something relevant."""
    latest = list(runs.filter(state=Run.State.FINISHED).order_by("-created_at", "-id")[:MOST])
    batches = (latest[at : at + _BATCH] for at in range(0, len(latest), _BATCH))
    return [case for batch in batches for case in _of_batch(batch, profile)]


def _of_batch(runs: Sequence[Run], profile: str) -> Iterable[_Case]:
    events: dict[UUID, dict[str, Any]] = defaultdict(dict)
    rows = RunEvent.objects.filter(run__in=runs, kind__in=_KINDS)
    for run_id, kind, payload in rows.values_list("run_id", "kind", "payload"):
        events[run_id][kind] = from_payload(kind, payload)
    # Every topic that ever contained an evidence message, by the message's number.
    evidence = {number for run in runs for number in run.evidence}
    holders: dict[int, set[str]] = defaultdict(set)
    for message, topic in TopicMessage.objects.filter(message__in=evidence).values_list("message", "topic"):
        holders[message].add(topic_id(topic))
    for run in runs:
        stored = events[run.pk]
        started, found = stored.get(RunStarted.kind), stored.get(CandidatesFound.kind)
        if not started or not found or started.profile != profile or found.by_words_alone:
            continue
        finished: RunFinished | None = stored.get(RunFinished.kind)
        chosen = {selected.id for selected in finished.selected} if finished else set()
        relevant = {holder for number in run.evidence for holder in holders.get(number, ())} or chosen
        if relevant:
            yield _Case(similarities(found), frozenset(relevant))


def _compared(cases: Sequence[_Case], before: Cuts, after: Cuts) -> CutComparison | None:
    return CutComparison(len(cases), _figures(cases, before), _figures(cases, after)) if cases else None


def _figures(cases: Sequence[_Case], cuts: Cuts) -> Figures:
    kept = [{item.id for item in apply_cuts(case.similarities, cuts).kept} for case in cases]
    hits = [len(ids & _findable(case)) for ids, case in zip(kept, cases, strict=True)]
    wanted = [len(_findable(case)) or 1 for case in cases]
    return Figures(
        precision=statistics.fmean(hit / len(ids) if ids else 0.0 for hit, ids in zip(hits, kept, strict=True)),
        recall=statistics.fmean(hit / most for hit, most in zip(hits, wanted, strict=True)),
        kept=statistics.fmean(map(len, kept)),
    )


def _findable(case: _Case) -> set[str]:
    """Returns the relevant topics among the candidates, in their versions of that time; if none, all relevant ones."""
    return set(case.relevant & case.similarities.keys()) or set(case.relevant)


# Named cuts. Cosines of one embedding model mean nothing for another, so each preset belongs to a profile.

LONGEST_NAME = 60
MOST_PRESETS = 50
# The names of the built-in presets as people read them.
NAMES: Mapping[str, Promise] = {
    "precise": pgettext_lazy("preset", "Precise"),
    "balanced": pgettext_lazy("preset", "Balanced"),
    "broad": pgettext_lazy("preset", "Broad"),
    "small": pgettext_lazy("preset", "Small memory"),
}


class PresetError(Exception):
    """The preset cannot be stored; the text is for people."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Named cuts; ``made_by`` is empty for built-in ones."""

    name: str
    cuts: Cuts
    made_by: str = ""

    @property
    def title(self) -> str | Promise:
        return self.name if self.made_by else NAMES[self.name]

    @property
    def values(self) -> Mapping[str, Any]:
        return asdict(self.cuts)


def bounds() -> Mapping[str, Declaration]:
    """The declarations of the five cuts, by name."""
    known = declarations(FilterParameters)
    return {name: known[name] for name in asdict(Cuts())}


def cuts_in(given: Mapping[str, Any], default: Cuts) -> Cuts:
    """Returns the cuts in ``given``, each limited to its bounds; ``default`` for a cut that is missing or no number."""
    return Cuts(**{name: _number(each, given.get(name, ""), getattr(default, name)) for name, each in bounds().items()})


def _number(declared: Declaration, given: Any, default: Any) -> Any:
    try:
        value = float(given)
    except ValueError:
        return default
    if value != value:
        return default
    return declared.kind(min(max(value, declared.least), declared.most))


def of_profile(name: str, profile: EmbeddingProfile | None) -> list[Preset]:
    """Returns the built-in presets of the profile of that name, then those that people made for its row."""
    built_in = [Preset(name, cuts) for name, cuts in presets_of(name).items()]
    rows = FilterPreset.objects.filter(profile=profile).order_by("name")[:MOST_PRESETS] if profile else ()
    return [*built_in, *(Preset(row.name, _cuts(row), row.made_by) for row in rows)]


def save(profile: EmbeddingProfile, name: str, cuts: Cuts, made_by: str) -> Preset:
    """Stores the cuts under this name and replaces earlier ones. Raises PresetError."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME:
        raise PresetError(_("Give the preset a name of at most %(n)s characters.") % {"n": LONGEST_NAME})
    # Also those of the built-in presets, in every language.
    found = set(PRESETS)
    for language, _name in settings.LANGUAGES:
        with override(language):
            found |= {str(name).casefold() for name in NAMES.values()}
    if name.casefold() in found:
        raise PresetError(_("“%(name)s” is a preset that every model has. Choose another name.") % {"name": name})
    is_new = not FilterPreset.objects.filter(profile=profile, name=name).exists()
    if is_new and FilterPreset.objects.filter(profile=profile).count() >= MOST_PRESETS:
        raise PresetError(_("There are %(n)s presets already. Delete one in the administration.") % {"n": MOST_PRESETS})
    values = {**asdict(cuts), "made_by": made_by}
    FilterPreset.objects.update_or_create(profile=profile, name=name, defaults=values)
    return Preset(name, cuts, made_by)


def profile_named(name: str) -> EmbeddingProfile | None:
    return next((row for row in EmbeddingProfile.objects.all() if str(row) == name), None)


def _cuts(row: FilterPreset) -> Cuts:
    return Cuts(**{name: getattr(row, name) for name in bounds()})
