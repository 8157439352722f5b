"""Operators' judgements of answers, and the golden questions made from them.

A question with an answer that somebody judged good, and nobody bad, is labelled: the cited messages are known to answer
it, or nothing is known to answer it if it was rightly refused. An evaluation reads such questions like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User

from memoryapp.engine.kinds.react import Answered
from memoryapp.models import ChatUser, Judgement, Message, Run
from memoryapp.runs import followers
from memoryapp.runs.answer_document import answer_of

CATEGORY = "judged"


def judge(run: Run, operator: User, is_good: bool | None) -> None:
    """Stores the operator's judgement of the run's answer; None deletes it."""
    if is_good is None:
        Judgement.objects.filter(run=run, operator=operator).delete()
        return
    values = {"owner": run.owner, "is_good": is_good}
    Judgement.objects.update_or_create(run=run, operator=operator, defaults=values)


def questions(owner: ChatUser) -> Iterator[dict[str, Any]]:
    """Yields a golden question for each question with a good answer, as a line of a file for ``evaluate``.

    The newest answer counts. An answer whose messages were erased is left out.
    """
    asked = set()
    bad = Judgement.objects.filter(owner=owner, is_good=False).values("run")
    good = Judgement.objects.filter(owner=owner, is_good=True).values("run")
    for run in Run.objects.of(owner).filter(pk__in=good).exclude(pk__in=bad).order_by("-created_at", "-id"):
        expected = _expected(run)
        if expected and run.query not in asked:
            asked.add(run.query)
            fields = {"user": owner.name, "qid": str(run.pk), "question": run.query}
            yield {**fields, "category": CATEGORY, **expected}


def _expected(run: Run) -> dict[str, Any]:
    """Returns what a good answer of this run expects to be found; empty when it does not say."""
    answered = answer_of([item.event for item in followers.stored(run.pk)])
    if answered is None:
        return {}
    if answered.outcome == "refused":
        return {"unanswerable": True}
    evidence = _cited(run, answered)
    return {"evidence": evidence} if evidence else {}


def _cited(run: Run, answered: Answered) -> list[str]:
    """Returns the ids of the messages that the run's answer cites, as they were sent, in the order of its citations."""
    numbers = [citation.message for citation in answered.citations]
    messages = Message.objects.of(run.owner_id).in_bulk(numbers)
    return [messages[number].external_id for number in dict.fromkeys(numbers) if number in messages]
