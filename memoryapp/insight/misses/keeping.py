"""Keeps right what was put right: a golden question in the set *Misses*, asked each night, and what stands or fell."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from memoryapp.curation import history
from memoryapp.curation.history import Narrowing
from memoryapp.engine.strategies import DEFAULT
from memoryapp.insight.evaluation import judgements, nights, passes
from memoryapp.insight.evaluation.judgements import GoldenError
from memoryapp.insight.evaluation.nights import MISSES, NightlyError
from memoryapp.insight.misses.misses import MissError
from memoryapp.models import ChatUser, Evaluation, GoldenQuestion, Miss, NightlyRun

_HOUR = 3
# So many nights are looked at for the last one in which a question was right.
_NIGHTS = 30
_FALLEN = 20


def keep(miss: Miss, by: str) -> Miss:
    """Makes it a golden question with the very messages as evidence, which the coming nights ask. Raises MissError."""
    if not miss.evidence:
        raise MissError(_("No message says this, so no night could look for it. Add it as a message first."))
    try:
        miss.golden = judgements.save(miss.owner, MISSES, miss.question, miss.evidence, by, category=miss.stage)
    except GoldenError as error:
        raise MissError(str(error)) from error
    miss.state = Miss.State.KEPT
    miss.save(update_fields=["golden", "state"])
    if not NightlyRun.objects.filter(collection=MISSES).exists():
        _ask_each_night(by)
    return miss


def _ask_each_night(by: str) -> None:
    row = NightlyRun(
        collection=MISSES, strategy=DEFAULT.name, most=passes.MOST_QUESTIONS, hour=_HOUR, recipients="", made_by=by
    )
    row.zone = settings.TIME_ZONE
    try:
        nights.save(row)
    except NightlyError:
        # The table of nightly runs is full; the set can be asked by hand.
        return


@dataclass(frozen=True, slots=True)
class Fallen:
    """A kept question that the last night did not answer: the ``run`` of then, the last ``good`` one and when it was,
    both empty where it was never right; and how many changes of the memory came since, thirty at most."""

    question: GoldenQuestion
    miss: Miss | None
    run: str
    good: str = ""
    since: datetime | None = None
    changes: int = 0


@dataclass(frozen=True, slots=True)
class KeptRight:
    """Of ``total`` questions that the last night asked, ``kept`` found their messages; ``at`` is None before it."""

    kept: int
    total: int
    fallen: Sequence[Fallen]
    waiting: int = 0
    at: datetime | None = None


def standing(owners: QuerySet[ChatUser]) -> KeptRight:
    """The questions of these memories in the last night that ended."""
    asked = {
        str(row.pk): row
        for row in GoldenQuestion.objects.filter(owner__in=owners, collection=MISSES).select_related("owner")
    }
    done = list(Evaluation.objects.filter(source=MISSES, state=Evaluation.State.FINISHED).exclude(report={})[:_NIGHTS])
    rows = [{row["qid"]: row for row in each.report.get("questions", ()) if row["qid"] in asked} for each in done]
    last = rows[0] if rows else {}
    wrong = [qid for qid, row in last.items() if not nights.is_right(row)]
    known = {miss.golden_id: miss for miss in Miss.objects.filter(golden__in=[int(qid) for qid in wrong[:_FALLEN]])}
    fallen = [_fallen(asked[qid], known.get(int(qid)), qid, done, rows) for qid in wrong[:_FALLEN]]
    at = done[0].started_at if done else None
    return KeptRight(len(last) - len(wrong), len(last), fallen, len(asked) - len(last), at)


def _fallen(
    row: GoldenQuestion, miss: Miss | None, qid: str, done: Sequence[Evaluation], rows: Sequence[dict[str, Any]]
) -> Fallen:
    run = rows[0][qid]["run"]
    good = next((place for place, each in enumerate(rows) if qid in each and nights.is_right(each[qid])), None)
    if good is None:
        return Fallen(row, miss, run)
    since = done[good].started_at
    changed = history.page(row.owner, Narrowing(since=since), _NIGHTS).entries
    return Fallen(row, miss, run, rows[good][qid]["run"], since, len(changed))
