"""Passes of the merger over a memory, and their results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from prometheus_client import REGISTRY

from memoryapp.curation import MERGER, suggestions
from memoryapp.curation.suggestions.consolidation import Pass, consolidate
from memoryapp.models import AgentCall, ChatUser, Topic, TopicEdit
from memoryapp.platform.database import conninfo
from tests.support.merging import Merger

Mode = ChatUser.Consolidation


def wants(owner: ChatUser, mode: Mode) -> ChatUser:
    owner.consolidation = mode
    owner.save(update_fields=["consolidation"])
    return owner


def passed(owner: ChatUser, merger: Merger) -> Pass:
    """Compares the topics and judges their suggestions."""
    suggestions.suggest(owner)
    return consolidate(owner, merger.open)


def refused(owner: ChatUser, merger: Merger, error: type[Exception]) -> None:
    suggestions.suggest(owner)
    with pytest.raises(error):
        consolidate(owner, merger.open)


def rested(by: timedelta = timedelta(hours=1)) -> None:
    """Lets the merger's pause after a failure pass."""
    for call in AgentCall.objects.all():
        AgentCall.objects.filter(pk=call.pk).update(at=call.at - by)


def live(owner: ChatUser) -> list[str]:
    return sorted(Topic.objects.of(owner).live().values_list("summary", flat=True))


def made_by_itself(owner: ChatUser) -> TopicEdit:
    return TopicEdit.objects.get(owner=owner, actor=MERGER)


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(f"mnemoscope_{name}") or 0.0


@contextmanager
def other_worker_at(owner: ChatUser) -> Iterator[None]:
    with psycopg.connect(conninfo(), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended('consolidate', %s))", [owner.pk])
        yield
        # After a plain close, the lock would be free only when the server notices it.
        other.execute("SELECT pg_advisory_unlock_all()")
