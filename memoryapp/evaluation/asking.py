"""Runs the questions, one run each, and scores each run."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models.functions import Length
from django.utils.translation import gettext as _

from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.outline import Outline
from memoryapp.evaluation.citations import cited
from memoryapp.evaluation.questions import LabelledQuestion, QuestionsError
from memoryapp.evaluation.scores import QuestionScore
from memoryapp.models import ChatUser, Evaluation, Message, Run
from memoryapp.runs import following, lifecycle
from memoryapp.runs.clients import Clients
from memoryapp.runs.parameters import strategy_named

# The part of the ranked topics that is searched for evidence, in characters: a measure that does not depend on the size
# of topics.
FIRST_CHARS = 20_000


async def evaluate(
    questions: Sequence[LabelledQuestion], clients: Clients, *, evaluation: Evaluation, parameters: Mapping[str, Any]
) -> AsyncGenerator[QuestionScore, None]:
    """One score for each question, in order, as its run ends. Raises QuestionsError for an unknown user or message."""
    memories = await sync_to_async(_evidence)(questions)
    for question in questions:
        owner, messages = memories[question.user]
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
        seconds = time.perf_counter() - began
        yield await sync_to_async(_score)(run, question, messages, seconds)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A message's number, and the topic that contains it."""

    number: int
    topic: int | None


def _score(run: Run, question: LabelledQuestion, messages: Mapping[str, _Evidence], seconds: float) -> QuestionScore:
    outline = Outline.of([item.event for item in following.stored(run.pk)])
    ranked = strategy_named(run.strategy).ranking.ids(outline)
    evidence = {messages[name].number for name in question.evidence}
    expected = {messages[name].number for name in question.citations}
    holding = Counter(topic_id(topic) for name in question.evidence if (topic := messages[name].topic))
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
        early=_early(run.owner, ranked, evidence),
        cited=len(citations.places) if evidence else 0,
        rightly=sum(bool(place & (evidence | expected)) for place in citations.places),
        expected=len(expected),
        covered=len(expected & citations.messages),
        refused=citations.refused,
        failed=finished is None or bool(finished.fallback),
    )


def _early(owner: ChatUser, ranked: Sequence[str], evidence: Collection[int]) -> int:
    """How many messages of the evidence are completely within the first characters of the topics, read in order."""
    places = {number: place for place, id in enumerate(ranked) if (number := parse_topic_id(id)) is not None}
    rows = Message.objects.of(owner).filter(topic__in=places).in_order()
    lengths = sorted(rows.values_list("topic", "pk", Length("text")), key=lambda row: places[row[0]])
    ends = accumulate(length for _topic, _number, length in lengths)
    within = {number for (_topic, number, _length), end in zip(lengths, ends, strict=True) if end <= FIRST_CHARS}
    return len(within & set(evidence))


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
