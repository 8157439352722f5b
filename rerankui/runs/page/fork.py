"""What the page of a run says about its forks: the tree to which it belongs, and what differs in each of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models.fields.json import KeyTextTransform
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.models import Run, RunEvent
from memoryapp.platform.statements import fetched
from memoryapp.runs.replays import changes_in_words

# A tree of more runs than this is shown in part.
MOST = 100
_SQL = table_beside(__file__)
TREE: str = _SQL["tree"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A run in the tree; ``depth`` counts from 0 at the first run."""

    run: Run
    depth: int
    is_current: bool

    @property
    def differs(self) -> str:
        """Where it was forked, and what differs, in words; empty for the first run."""
        return difference(self.run) if self.run.parent_id else ""


@dataclass(frozen=True, slots=True)
class Forks:
    """The tree of a run, from the first run on; one run alone has no tree. ``line`` is what the parent searched for, if
    this run's query was rewritten anew."""

    branches: Sequence[Branch] = ()
    differs: str = ""
    line: str = ""


NO_FORKS = Forks()


def forks_of(run: Run) -> Forks:
    branches = _branches(run)
    is_fork = run.parent_id or run.turn is not None or run.prompt_id
    differs = difference(run) if is_fork else ""
    line = _line(run) if run.parent_id and not turn_of(run) else ""
    return Forks(branches if len(branches) > 1 else (), differs, line)


def turn_of(run: Run) -> int:
    """The turn at which a fork begins; runs of earlier versions store none."""
    if run.turn is not None:
        return run.turn
    return 0 if run.prompt and run.prompt.name == "enrich" else 1


def difference(run: Run) -> str:
    turn = turn_of(run)
    where = _("turn %(n)d") % {"n": turn} if turn else _("from the start")
    changes = run.changes or ({"prompt": str(run.prompt)} if run.prompt else {})
    return " · ".join([where, *changes_in_words(changes)]) if changes else f"{where} · {_('unchanged')}"


def _branches(run: Run) -> list[Branch]:
    ids = [row[0] for row in fetched(TREE, {"owner": run.owner_id, "run": run.pk, "most": MOST})]
    if len(ids) < 2:
        return []
    runs = Run.objects.of(run.owner_id).filter(pk__in=ids).select_related("prompt").order_by("created_at", "id")
    return list(_in_order({each.pk: each for each in runs}, run.pk))


def _in_order(runs: Mapping[UUID, Run], current: UUID) -> Iterator[Branch]:
    """Each run before its forks, and forks by their age."""
    youngest_first = list(runs.values())[::-1]
    waiting = [(each, 0) for each in youngest_first if each.parent_id not in runs]
    while waiting:
        run, depth = waiting.pop()
        yield Branch(run, depth, run.pk == current)
        waiting += [(each, depth + 1) for each in youngest_first if each.parent_id == run.pk]


def _line(run: Run) -> str:
    """What the parent searched for; empty when it is gone."""
    rewrites = RunEvent.objects.filter(owner=run.owner_id, run=run.parent_id, kind="query_enriched")
    return rewrites.values_list(KeyTextTransform("enriched", "payload"), flat=True).first() or ""
