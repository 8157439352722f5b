"""What the least certainty of the embedded scorer costs and saves, over the golden questions of one memory. The scorer
says with each answer how sure it is and which topic is likeliest, whether it chose or not. So the newest run of each
question tells what any other least certainty would have done, and nothing is asked again."""

from collections.abc import Sequence
from dataclasses import dataclass

from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.offline.scorer import Verdict, verdict_in
from memoryapp.engine.parameters import USUAL_CERTAINTY
from memoryapp.models import ChatUser, GoldenQuestion, Message, Run, RunEvent

MOST_QUESTIONS = 1_000
STEP = 5
# How a run ends that finds nothing which the scorer could read.
NOTHING_NEAR = "no_candidates"


@dataclass(frozen=True, slots=True)
class TradePoint:
    """At a ``least`` certainty in percent: of the questions with an answer the share that is still chosen from, of
    those the share whose likeliest topic holds it, and of those without one the share that is refused."""

    least: int
    kept: float
    right: float
    refused: float


@dataclass(frozen=True, slots=True)
class Trade:
    """The points by ascending certainty; how many questions with and without an answer were asked, and how many have
    not been asked of the scorer yet. ``in_force`` is the memory's least certainty, ``usual`` that of all others."""

    points: Sequence[TradePoint]
    answerable: int
    unanswerable: int
    unasked: int
    in_force: int
    is_own: bool
    usual: int = USUAL_CERTAINTY


@dataclass(frozen=True, slots=True)
class _AskedGolden:
    """A question that was asked: the scorer's certainty, and whether the likeliest topic holds an answer."""

    certainty: int
    is_answerable: bool
    is_right: bool


def trade_of(owner: ChatUser) -> Trade:
    """The trade of a memory over its first thousand golden questions."""
    rows = list(GoldenQuestion.objects.filter(owner=owner).order_by("pk")[:MOST_QUESTIONS])
    asked = _asked(owner, rows)
    answerable = [each for each in asked if each.is_answerable]
    unanswerable = [each for each in asked if not each.is_answerable]
    own = owner.least_certainty
    return Trade(
        points=[
            TradePoint(
                least,
                _share([each.certainty >= least for each in answerable]),
                _share([each.certainty >= least and each.is_right for each in answerable]),
                _share([each.certainty < least for each in unanswerable]),
            )
            for least in range(0, 100 + STEP, STEP)
        ],
        answerable=len(answerable),
        unanswerable=len(unanswerable),
        unasked=len(rows) - len(asked),
        in_force=USUAL_CERTAINTY if own is None else own,
        is_own=own is not None,
    )


def _asked(owner: ChatUser, rows: Sequence[GoldenQuestion]) -> list[_AskedGolden]:
    """What the newest run of each question says, in three statements; without questions of which no run says it."""
    runs = Run.objects.of(owner).filter(query__in={row.question for row in rows}, state=Run.State.FINISHED)
    runs = runs.filter(fallback__in=("", NOTHING_NEAR)).order_by("query", "-created_at").distinct("query")
    endings = {pk: (query, fallback) for pk, query, fallback in runs.values_list("pk", "query", "fallback")}
    replies = RunEvent.objects.filter(owner=owner, run__in=endings, kind="model_replied").order_by("run_id", "-seq")
    said = dict(replies.distinct("run_id").values_list("run_id", "payload__text"))
    verdicts = {
        query: Verdict(0, "") if fallback else verdict_in(said.get(run, ""))
        for run, (query, fallback) in endings.items()
    }
    evidence = {number for row in rows for number in row.evidence}
    topic_of = dict(Message.objects.of(owner).filter(pk__in=evidence).values_list("pk", "topic_id"))
    return [
        _AskedGolden(
            verdict.certainty,
            bool(row.evidence),
            parse_topic_id(verdict.likeliest) in {topic_of.get(number, 0) for number in row.evidence},
        )
        for row in rows
        if (verdict := verdicts.get(row.question))
    ]


def _share(held: Sequence[bool]) -> float:
    return sum(held) / len(held) if held else 0.0
