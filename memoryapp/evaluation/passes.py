"""Evaluations that a page starts: golden questions through several strategies, in the worker, with progress.

The row is the truth: ``waiting`` finds what was started or broken off, ``carry_on`` asks what was not asked yet, so a
killed process loses at most the question that it was asking. A stopped one reports on what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Avg, QuerySet
from django.utils.translation import gettext as _

from memoryapp.evaluation.asking import ask
from memoryapp.evaluation.figures import report
from memoryapp.evaluation.questions import LabelledQuestion, QuestionsError
from memoryapp.evaluation.scores import QuestionScore
from memoryapp.models import ChatUser, Evaluation, GoldenQuestion, Message, Run
from memoryapp.runs.clients import Clients
from memoryapp.runs.parameters import of_each, strategy_named

CUTS = (5, 10, 50)
MOST_QUESTIONS = 1_000
MOST_STRATEGIES = 5
# So many earlier runs tell what a strategy costs.
LOOKED_AT = 200
# Words that were erased are stored as this mark.
_ERASED = "[erased]"
OPEN = (Evaluation.State.PENDING, Evaluation.State.RUNNING)


@dataclass(frozen=True, slots=True)
class PassForecast:
    """What a pass will probably take, from earlier runs: dollars, seconds, and the strategies without any."""

    runs: int
    cost_usd: float
    seconds: float
    unknown: tuple[str, ...]


def forecast(owners: QuerySet[ChatUser], count: int, strategies: Sequence[str]) -> PassForecast:
    """One statement for each strategy."""
    cost = seconds = 0.0
    unknown = []
    for name in strategies:
        latest = Run.objects.filter(owner__in=owners, strategy=name, state=Run.State.FINISHED).order_by("-created_at")
        known = Run.objects.filter(pk__in=latest.values("pk")[:LOOKED_AT]).aggregate(
            c=Avg("cost_usd"), s=Avg("seconds")
        )
        cost += count * (known["c"] or 0.0)
        seconds += count * (known["s"] or 0.0)
        unknown += [name] if known["s"] is None else []
    return PassForecast(count * len(strategies), cost, seconds, tuple(unknown))


def begin(questions: Sequence[GoldenQuestion], strategies: Sequence[str], *, source: str, by: str) -> Evaluation:
    """Stores a row for each strategy, and returns the first, their reference. Raises QuestionsError."""
    names = list(dict.fromkeys(strategies))
    if not questions or not names:
        raise QuestionsError(_("Choose a set with questions, and at least one strategy."))
    if len(questions) > MOST_QUESTIONS or len(names) > MOST_STRATEGIES:
        raise QuestionsError(
            _("At most %(questions)d questions can be asked by at most %(strategies)d strategies.")
            % {"questions": MOST_QUESTIONS, "strategies": MOST_STRATEGIES}
        )
    parameters = of_each({}, [strategy_named(name) for name in names])
    numbers = [question.pk for question in questions]
    first: Evaluation | None = None
    with transaction.atomic():
        for name, own in zip(names, parameters, strict=True):
            row = Evaluation.objects.create(
                source=source,
                strategy=name,
                parameters=own,
                reference=first,
                state=Evaluation.State.PENDING if first is None else Evaluation.State.FINISHED,
                asked_by=by,
                questions=numbers if first is None else [],
            )
            first = first or row
    assert first is not None
    return first


def waiting() -> QuerySet[Evaluation]:
    """Those that were started and have not ended, oldest first."""
    return Evaluation.objects.filter(state__in=OPEN, reference=None).order_by("pk")


def stop(first: Evaluation, fault: str = "") -> bool:
    """Ends it after the question that is being asked, or by a ``fault``; False when it has ended."""
    broken = {"report": {"fault": fault}} if fault else {}
    return bool(Evaluation.objects.filter(pk=first.pk, state__in=OPEN).update(state=Evaluation.State.STOPPED, **broken))


async def carry_on(first: Evaluation, clients: Clients) -> None:
    """Asks what was not asked yet, and stores the reports. Each question goes through all strategies, each time with
    another one first, so that the caches that one fills do not always help the next."""
    rows = [first, *[row async for row in first.beside.order_by("pk")]]
    if not await Evaluation.objects.filter(pk=first.pk, state__in=OPEN).aupdate(state=Evaluation.State.RUNNING):
        return
    asked = await sync_to_async(labelled)(first.questions)
    scores: list[list[QuestionScore]] = [[] for _row in rows]
    for number, question in enumerate(asked):
        for turn in range(len(rows)):
            place = (number + turn) % len(rows)
            scores[place].append(await ask(question, clients, evaluation=rows[place]))
        still = Evaluation.objects.filter(pk=first.pk, state=Evaluation.State.RUNNING)
        if not await still.aupdate(done=number + 1):
            break
    for row, of_row in zip(rows, scores, strict=True):
        row.report = report(of_row, strategy=row.strategy, cuts=CUTS)
        await row.asave(update_fields=["report"])
    await Evaluation.objects.filter(pk=first.pk, state=Evaluation.State.RUNNING).aupdate(
        state=Evaluation.State.FINISHED
    )


def labelled(numbers: Sequence[int]) -> list[LabelledQuestion]:
    """The golden questions in this order, as they are asked; three statements.

    One whose evidence or words were erased is left out, because nothing says whether another message answers it.
    """
    found = GoldenQuestion.objects.filter(pk__in=list(numbers)).select_related("owner").in_bulk()
    questions = [found[number] for number in numbers if number in found]
    evidence = {number for question in questions for number in question.evidence}
    names = dict(Message.objects.filter(pk__in=evidence).values_list("pk", "external_id"))
    return [
        _labelled(question, names)
        for question in questions
        if _ERASED not in question.question
        and (not question.evidence or any(number in names for number in question.evidence))
    ]


def _labelled(question: GoldenQuestion, names: Mapping[int, str]) -> LabelledQuestion:
    evidence = tuple(names[number] for number in question.evidence if number in names)
    return LabelledQuestion(
        user=question.owner.name,
        qid=str(question.pk),
        question=question.question,
        category=question.category,
        evidence=evidence,
        citations=evidence,
    )
