"""The changes of a row up to a moment, without what became of them later."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from memoryapp import history, past
from memoryapp.history import HistoryEntry, Narrowing
from memoryapp.models import ChatUser, Topic
from rerankui.history.entry_views import entry_views


def changes_then(owner: ChatUser, narrowing: Narrowing, moment: datetime, size: int) -> dict[str, Any]:
    """The last changes, as the panel of a row shows them."""
    found = history.page(owner, replace(narrowing, until=past.just_after(moment)), size)
    entries = [_as_then(entry, moment) for entry in found.entries]
    topics = [topic for entry in entries for topic in (*entry.out.shown, *entry.put.shown)]
    live = past.topics_at(moment).filter(owner=owner, pk__in=[topic.pk for topic in topics])
    _mark(topics, set(live.values_list("pk", flat=True)))
    return {"changes": entry_views(entries), "has_older": found.has_after}


def _as_then(entry: HistoryEntry, moment: datetime) -> HistoryEntry:
    later = entry.undone_by
    return replace(entry, stands=True) if later and later.at > moment else entry


def _mark(topics: list[Topic], live: set[int]) -> None:
    for topic in topics:
        topic.is_live = topic.pk in live
