"""Labelled questions through a strategy, and how well it did.

A question names the messages that hold its answer, so that its labels survive any edit of topics.
Metrics as in the field: recall@k is the share of evidence messages that lie in the first k topics
(Manning et al., Introduction to Information Retrieval, ch. 8), MRR the reciprocal rank of the first topic
with evidence; precision, recall and F1 count topics, per question, and an empty selection scores 0.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.utils.translation import gettext as _

from memoryapp import runs
from memoryapp.clients import Clients
from memoryapp.engine.events import CandidatesFound, Event, RunFinished
from memoryapp.engine.lexical import clean
from memoryapp.engine.memory import topic_id
from memoryapp.models import ChatUser, Evaluation, Message

LONGEST_FILE = 200 * 1024 * 1024


class QuestionsError(Exception):
    """The file of questions cannot be used; the text is for people."""


@dataclass(frozen=True, slots=True)
class Question:
    user: str
    qid: str
    question: str
    category: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """One question's figures. ``ranked`` holds, by candidate rank, the evidence messages that topic has."""

    category: str
    evidence: int
    ranked: tuple[int, ...]
    selected: int
    hits: int
    evidence_topics: int
    seconds: float

    def recall_at(self, k: int) -> float:
        return sum(self.ranked[:k]) / self.evidence

    @property
    def reciprocal_rank(self) -> float:
        return next((1 / rank for rank, found in enumerate(self.ranked, start=1) if found), 0.0)

    @property
    def precision(self) -> float:
        return self.hits / self.selected if self.selected else 0.0

    @property
    def recall(self) -> float:
        return self.hits / self.evidence_topics if self.evidence_topics else 0.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def read_questions(path: Path) -> list[Question]:
    """The questions of a JSON Lines file. Raises QuestionsError naming the line that is wrong."""
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise QuestionsError(_("%(path)s is larger than 200 MB.") % {"path": path})
        with path.open(encoding="utf-8") as lines:
            questions = list(_questions(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsError(_("%(path)s cannot be read: %(why)s") % {"path": path, "why": error}) from error
    if not questions:
        raise QuestionsError(_("%(path)s holds no questions.") % {"path": path})
    return questions


def _questions(lines: Iterable[str]) -> Iterator[Question]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise QuestionsError(_("Line %(line)s is no question: %(why)s") % {"line": number, "why": error}) from error
        wrong = _what_is_wrong(raw)
        if wrong:
            raise QuestionsError(_("Line %(line)s is no question: %(why)s") % {"line": number, "why": wrong})
        yield Question(
            raw["user"],
            str(raw.get("qid", number)),
            raw["question"],
            raw.get("category") or "",
            tuple(raw["evidence"]),
        )


def _what_is_wrong(raw: Any) -> str:
    """A sentence about the first field that is not as it must be; empty for a question."""
    if not isinstance(raw, dict):
        return _("it must be an object.")
    for name in ("user", "question"):
        if not _is_words(raw.get(name)):
            return _("“%(field)s” must be a text that is not empty.") % {"field": name}
    evidence = raw.get("evidence")
    if not isinstance(evidence, list) or not evidence or not all(map(_is_words, evidence)):
        return _("“%(field)s” must be a list of message ids, each a text, at least one.") % {"field": "evidence"}
    if raw.get("category") and not _is_words(raw["category"]):
        return _("“%(field)s” must be a text that is not empty.") % {"field": "category"}
    return ""


def _is_words(value: object) -> bool:
    """Whether it is a text with something in it, of characters that the database can hold."""
    return isinstance(value, str) and bool(value.strip()) and clean(value) == value


async def evaluate(
    questions: Sequence[Question], clients: Clients, *, evaluation: Evaluation, parameters: Mapping[str, Any]
) -> AsyncIterator[Score]:
    """One score a question, in order, as each run ends. Raises QuestionsError for a user or message unknown."""
    places = await sync_to_async(_places)(questions)
    for question in questions:
        owner, messages = places[question.user]
        began = time.perf_counter()
        run = await sync_to_async(runs.start)(
            owner,
            question.question,
            strategy=evaluation.strategy,
            parameters=parameters,
            evaluation=evaluation,
            evidence=[messages[name].number for name in dict.fromkeys(question.evidence)],
        )
        await runs.execute(run.pk, clients)
        seconds = time.perf_counter() - began
        events = [item.event for item in await sync_to_async(runs.stored)(run.pk)]
        yield _score(question, messages, events, seconds, by_vector=evaluation.strategy == "vector")


@dataclass(frozen=True, slots=True)
class _Place:
    """A message's number, and the topic that holds it."""

    number: int
    topic: int | None


def _places(questions: Sequence[Question]) -> dict[str, tuple[ChatUser, dict[str, _Place]]]:
    """For each user, who they are and where each evidence message lies."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        wanted[question.user].update(question.evidence)
    owners = {owner.name: owner for owner in ChatUser.objects.filter(name__in=wanted)}
    places: dict[str, tuple[ChatUser, dict[str, _Place]]] = {}
    for user, evidence in wanted.items():
        if user not in owners:
            raise QuestionsError(_("There is no chat user “%(user)s”. Import their messages first.") % {"user": user})
        found = Message.objects.of(owners[user]).filter(external_id__in=evidence)
        rows = found.values_list("external_id", "pk", "topic_id")
        messages = {name: _Place(number, topic) for name, number, topic in rows}
        missing = sorted(evidence - set(messages))
        if missing:
            raise QuestionsError(
                _("The memory of “%(user)s” lacks the evidence message “%(message)s”.")
                % {"user": user, "message": missing[0]}
            )
        places[user] = (owners[user], messages)
    return places


def _score(
    question: Question, messages: Mapping[str, _Place], events: Sequence[Event], seconds: float, *, by_vector: bool
) -> Score:
    evidence = list(dict.fromkeys(question.evidence))
    holding = Counter(topic_id(topic) for name in evidence if (topic := messages[name].topic))
    found = next((event for event in events if isinstance(event, CandidatesFound)), None)
    finished = events[-1] if events and isinstance(events[-1], RunFinished) else None
    selected = [chosen.id for chosen in finished.selected] if finished else []
    return Score(
        category=question.category,
        evidence=len(evidence),
        ranked=tuple(holding.get(name, 0) for name in _ranks(found, finished, by_vector=by_vector)),
        selected=len(selected),
        hits=sum(name in holding for name in selected),
        evidence_topics=len(holding),
        seconds=seconds,
    )


def _ranks(found: CandidatesFound | None, finished: RunFinished | None, *, by_vector: bool) -> Sequence[str]:
    """The order under test: fused, or for the strategy ``vector`` that of the cosine alone."""
    if by_vector:
        return finished.baseline if finished else ()
    return [candidate.id for candidate in found.ranked()] if found else ()


def report(scores: Sequence[Score], *, strategy: str, cuts: Sequence[int]) -> dict[str, Any]:
    """The document of ``evaluate --json``: figures in [0, 1], latencies in milliseconds."""
    categories = sorted({score.category for score in scores if score.category})
    return {
        "n": len(scores),
        "strategy": strategy,
        **_figures(scores, cuts),
        "latency_ms": _latency(scores),
        "by_category": {
            name: {"n": len(group), **_figures(group, cuts)}
            for name in categories
            if (group := [score for score in scores if score.category == name])
        },
    }


def _figures(scores: Sequence[Score], cuts: Sequence[int]) -> dict[str, Any]:
    recalls = {f"recall@{k}": _mean(score.recall_at(k) for score in scores) for k in cuts}
    return {
        "candidates": {**recalls, "mrr": _mean(score.reciprocal_rank for score in scores)},
        "selection": {
            "precision": _mean(score.precision for score in scores),
            "recall": _mean(score.recall for score in scores),
            "f1": _mean(score.f1 for score in scores),
            "mean_selected": _mean(score.selected for score in scores),
            "empty": _mean(score.selected == 0 for score in scores),
        },
    }


def _mean(values: Iterator[float]) -> float:
    return round(statistics.fmean(values), 4)


def _latency(scores: Sequence[Score]) -> dict[str, float]:
    times = sorted(score.seconds * 1000 for score in scores)
    return {"p50": round(_quantile(times, 0.5), 1), "p95": round(_quantile(times, 0.95), 1)}


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
