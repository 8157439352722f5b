"""One memory at a glance, as it was at a moment."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Max

from memoryapp import past
from memoryapp.browsing.holdings import Holdings
from memoryapp.models import ChatUser, KnowledgeEdit, Run

Noun = KnowledgeEdit.Noun
RECENT = 8
FEW = 6


def memory_then(owner: ChatUser, moment: datetime) -> dict[str, Any]:
    """What the page of a memory shows; a fixed number of queries."""
    people, facts, artifacts = (
        past.rows_at(owner.pk, noun, moment) for noun in (Noun.PERSON, Noun.FACT, Noun.ARTIFACT)
    )
    current = {number: row for number, row in facts.items() if not row.get("superseded_at")}
    topics = past.topics_at(moment).filter(owner=owner)
    messages = past.messages_at(owner.pk, moment)
    runs = Run.objects.of(owner).by_hand().filter(created_at__lte=moment)
    counts = Holdings(
        messages=messages.count(),
        waiting=past.in_no_topic_at(owner.pk, moment).count(),
        topics=topics.count(),
        people=len(people),
        artifacts=len(artifacts),
        facts=len(facts),
        runs=runs.count(),
        last_message_at=messages.aggregate(last=Max("sent_at"))["last"],
    )
    return {
        "counts": counts,
        "topics": topics.order_by("-ended_at", "-id")[:RECENT],
        "runs": runs.with_answers().select_related("owner", "operator").order_by("-created_at", "-id")[:FEW],
        "people": _first(owner, Noun.PERSON, people, "mention_count"),
        "artifacts": _first(owner, Noun.ARTIFACT, artifacts, "created_at"),
        "facts": _first(owner, Noun.FACT, current, "importance"),
        "is_past": True,
    }


def _first(owner: ChatUser, noun: Noun, rows: Mapping[str, Mapping[str, Any]], by: str) -> list[Any]:
    """The rows with most of it."""
    first = heapq.nlargest(FEW, rows.items(), key=lambda item: (_comparable(item[1].get(by)), int(item[0])))
    return past.as_rows(owner.pk, noun, first)


def _comparable(value: Any) -> Any:
    """Of times, some are as JSON stores them."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value
