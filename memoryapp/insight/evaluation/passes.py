"""Evaluations that a page starts: golden questions through several strategies, in the worker, with progress. The row is
the truth: ``waiting`` finds what was started or broken off, ``carry_on`` asks what was not asked yet, so a killed
process loses at most the question that it was asking. A stopped one reports on what was asked."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from memoryapp.engine.cells import within
from memoryapp.engine.context import passages_of
from memoryapp.engine.memory import MessageContent, parse_topic_id, topic_id
from memoryapp.engine.outline import Outline
from memoryapp.insight.evaluation.questions import LabelledQuestion, QuestionsError
from memoryapp.insight.evaluation.scores import QuestionScore, cited, report
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, Evaluation, GoldenQuestion, Message, PassageMessage, Run
from memoryapp.platform import cells
from memoryapp.runs import followers, lifecycle, recall_document
from memoryapp.runs.clients import Clients
from memoryapp.runs.parameters import of_each, strategy_named
from memoryapp.search import profiles

# Runs the questions, one run each, and scores each run.

# The part of the ranked topics that is searched for evidence, in characters: a measure that does not depend on the size
# of topics.
FIRST_CHARS = 20_000
_TOPICS_AT_ONCE = 10
# How the run of a killed process ends; such a question is asked again.
_LOST = ("abandoned", "crashed", "stopped")


async def evaluate(
    questions: Sequence[LabelledQuestion], clients: Clients, *, evaluation: Evaluation, parameters: Mapping[str, Any]
) -> AsyncGenerator[QuestionScore, None]:
    """One score for each question, in order, as its run ends. Raises QuestionsError for an unknown user or message."""
    memories = await sync_to_async(_evidence)(questions)
    for question in questions:
        with within(memories[question.user][0].cell):
            score = await _asked(question, *memories[question.user], clients, evaluation, parameters)
        yield score


async def ask(question: LabelledQuestion, clients: Clients, *, evaluation: Evaluation) -> QuestionScore:
    """The score of one question, asked unless its run of this evaluation has ended already. Raises QuestionsError."""
    owner, messages = (await sync_to_async(_evidence)([question]))[question.user]
    ended = Run.objects.of(owner).filter(evaluation=evaluation, query=question.question, state=Run.State.FINISHED)
    with within(owner.cell):
        known = await ended.exclude(fallback__in=_LOST).select_related("owner").afirst()
        if known is not None:
            return await sync_to_async(_score)(known, question, messages, known.seconds)
        return await _asked(question, owner, messages, clients, evaluation, evaluation.parameters)


async def _asked(
    question: LabelledQuestion,
    owner: ChatUser,
    messages: Mapping[str, _Evidence],
    clients: Clients,
    evaluation: Evaluation,
    parameters: Mapping[str, Any],
) -> QuestionScore:
    began = time.perf_counter()
    run = await sync_to_async(lifecycle.start)(
        owner,
        question.question,
        strategy=evaluation.strategy,
        parameters=parameters,
        evaluation=evaluation,
        evidence=[messages[name].number for name in question.evidence],
    )
    await lifecycle.execute(run.pk, clients)
    return await sync_to_async(_score)(run, question, messages, time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A message's number, and the topic that contains it."""

    number: int
    topic: int | None


def _score(run: Run, question: LabelledQuestion, messages: Mapping[str, _Evidence], seconds: float) -> QuestionScore:
    outline = Outline.of([item.event for item in followers.stored(run.pk)])
    ranked = strategy_named(run.strategy).ranking.ids(outline)
    evidence = {messages[name].number for name in question.evidence}
    expected = {messages[name].number for name in question.citations}
    holding = Counter(_holding(outline, [messages[name] for name in question.evidence]))
    finished = outline.finished
    selected = [chosen.id for chosen in finished.selected] if finished else []
    citations = cited(run, outline)
    return QuestionScore(
        qid=question.qid,
        category=question.category,
        run=str(run.pk),
        evidence=len(evidence),
        ranked=tuple(holding.get(name, 0) for name in ranked),
        selected=len(selected),
        hits=sum(name in holding for name in selected),
        evidence_topics=len(holding),
        seconds=seconds,
        early=_early(run, outline, ranked, evidence),
        cited=len(citations.places) if evidence else 0,
        rightly=sum(bool(place & (evidence | expected)) for place in citations.places),
        expected=len(expected),
        covered=len(expected & citations.messages),
        refused=citations.refused,
        passages=citations.passages,
        failed=finished is None or bool(finished.fallback),
    )


def _holding(outline: Outline, evidence: Sequence[_Evidence]) -> Iterator[str]:
    """The topic of each message, or the active session in which the run met it."""
    sessions = outline.found.sessions if outline.found else {}
    session_of = {number: id for id, listed in sessions.items() for number in listed}
    for each in evidence:
        if each.topic is not None:
            yield topic_id(each.topic)
        elif each.number in session_of:
            yield session_of[each.number]


def _early(run: Run, outline: Outline, ranked: Sequence[str], evidence: Collection[int]) -> int:
    """How much of the evidence is completely within the first characters, in the order in which it is handed over."""
    ends, within = 0, set[int]()
    for message, length in _handed_over(run, outline, ranked):
        ends += length
        if ends > FIRST_CHARS:
            break
        within.add(message)
    return len(within & set(evidence))


def _handed_over(run: Run, outline: Outline, ranked: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Each message of the ranked topics with its length, as far as it would be handed over."""
    numbers = [number for id in ranked if (number := parse_topic_id(id)) is not None]
    found = {each.id: each.passage_id for each in outline.found.candidates} if outline.found else {}
    by_passages = recall_document.handed_over(run) == "passages"
    for start in range(0, len(numbers), _TOPICS_AT_ONCE):
        first = numbers[start : start + _TOPICS_AT_ONCE]
        messages = _messages(run.owner, first)
        passages = _passages(run.owner, [found.get(topic_id(number), 0) for number in first]) if by_passages else {}
        for number in first:
            hits = passages.get(found.get(topic_id(number), 0), ())
            entering = passages_of(run.query, messages[number], found=hits) if by_passages else messages[number]
            yield from ((message.id, len(message.text)) for message in entering)


def _messages(owner: ChatUser, topics: Sequence[int]) -> dict[int, list[MessageContent]]:
    found: dict[int, list[MessageContent]] = defaultdict(list)
    for row in Message.objects.of(owner).filter(topic__in=topics).in_order():
        found[row.topic_id or 0].append(content(row))
    return found


def _passages(owner: ChatUser, passages: Sequence[int]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    rows = PassageMessage.objects.filter(owner=owner, passage__in=passages)
    for passage, message in rows.values_list("passage_id", "message_id"):
        found[passage].add(message)
    return found


def _evidence(questions: Sequence[LabelledQuestion]) -> dict[str, tuple[ChatUser, dict[str, _Evidence]]]:
    """Each user's row, and where each message named by a question is, by the message's external id."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        wanted[question.user].update(question.messages)
    owners = {owner.name: owner for owner in ChatUser.objects.filter(name__in=wanted)}
    memories: dict[str, tuple[ChatUser, dict[str, _Evidence]]] = {}
    for user, names in wanted.items():
        if user not in owners:
            raise QuestionsError(_("There is no chat user “%(user)s”. Import their messages first.") % {"user": user})
        with within(owners[user].cell):
            found = Message.objects.of(owners[user]).filter(external_id__in=names)
            rows = found.values_list("external_id", "pk", "topic_id")
            messages = {name: _Evidence(number, topic) for name, number, topic in rows}
        missing = sorted(names - set(messages))
        if missing:
            raise QuestionsError(
                _("The memory of “%(user)s” lacks the evidence message “%(message)s”.")
                % {"user": user, "message": missing[0]}
            )
        memories[user] = (owners[user], messages)
    return memories


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
        past = _latest(owners, name)
        cost += count * (fmean(cost for cost, _seconds in past) if past else 0.0)
        seconds += count * (fmean(seconds for _cost, seconds in past) if past else 0.0)
        unknown += [] if past else [name]
    return PassForecast(count * len(strategies), cost, seconds, tuple(unknown))


@cells.everywhere()
def _latest(owners: QuerySet[ChatUser], strategy: str) -> list[tuple[float, float]]:
    runs = Run.objects.filter(owner__in=owners, strategy=strategy, state=Run.State.FINISHED).order_by("-created_at")
    return list(runs.values_list("cost_usd", "seconds")[:LOOKED_AT])


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
    """The golden questions in this order, as they are asked; three statements. One whose evidence or words were erased
    is left out, because nothing says whether another message answers it."""
    found = GoldenQuestion.objects.filter(pk__in=list(numbers)).select_related("owner").in_bulk()
    questions = [found[number] for number in numbers if number in found]
    evidence = {number for question in questions for number in question.evidence}
    names = _names(evidence)
    return [
        _labelled(question, names)
        for question in questions
        if _ERASED not in question.question
        and (not question.evidence or any(number in names for number in question.evidence))
    ]


@cells.everywhere()
def _names(messages: Collection[int]) -> dict[int, str]:
    return dict(Message.objects.filter(pk__in=messages).values_list("pk", "external_id"))


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


# Warns about memories that lack vectors of topics and passages, because their figures would mean little.


def warnings(questions: Sequence[LabelledQuestion]) -> list[str]:
    """A sentence for each chat user in the questions whose topics or passages have no vector yet."""
    row = profiles.serving()
    sentences = []
    for owner in ChatUser.objects.filter(name__in={question.user for question in questions}).order_by("name"):
        with within(owner.cell):
            counts = {"topics": profiles.topics(row, owner).count(), "passages": profiles.passages(row, owner).count()}
        if any(counts.values()):
            sentences.append(
                _(
                    "The memory of “%(user)s” lacks vectors of %(topics)s topics and %(passages)s passages, so these"
                    " figures are lower than they will be. Wait until “up” has made them, or run “embed --yes”."
                )
                % {"user": owner.name, **counts}
            )
    return sentences
