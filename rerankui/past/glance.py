"""One memory at a glance, as it was at a moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Max

from memoryapp import past
from memoryapp.browsing.holdings import Holdings
from memoryapp.models import Artifact, ChatUser, Fact, KnowledgeEdit, Person, Run

Noun = KnowledgeEdit.Noun
RECENT = 8
FEW = 6


def memory_then(owner: ChatUser, moment: datetime) -> dict[str, Any]:
    """What the page of a memory shows; a fixed number of queries."""
    people: list[Person] = past.known_at(owner.pk, Noun.PERSON, moment)
    facts: list[Fact] = [fact for fact in past.known_at(owner.pk, Noun.FACT, moment) if not fact.superseded_at]
    artifacts: list[Artifact] = past.known_at(owner.pk, Noun.ARTIFACT, moment)
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
        "runs": runs.select_related("owner", "operator").order_by("-created_at", "-id")[:FEW],
        "people": sorted(people, key=lambda row: (-row.mention_count, -row.pk))[:FEW],
        "artifacts": sorted(artifacts, key=lambda row: (row.created_at, row.pk), reverse=True)[:FEW],
        "facts": sorted(facts, key=lambda row: (-row.importance, -row.pk))[:FEW],
        "is_past": True,
    }
