"""What the head of a page says of the moment: which one is shown, the way back to now, and the choice of another."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from memoryapp.curation import history
from memoryapp.curation.history import HistoryEntry, Narrowing
from memoryapp.insight.browsing.quality import Holdings
from memoryapp.memory import past
from memoryapp.models import ChatUser, KnowledgeEdit, Run, Topic
from rerankui.frame.pages import show
from rerankui.history.entry_views import entry_views
from rerankui.web.moment import PARAMETER, SHOWING, PastMoment, is_of_runs, offered, past_of

# What belongs to the moment that is left, or to a page of a list.
_LEFT = (PARAMETER, "after", "before", "format")


class PastHead:
    def __init__(self, request: HttpRequest, route: str, owner: ChatUser) -> None:
        self._request, self._route, self._owner = request, route, owner

    @property
    def moment(self) -> PastMoment | None:
        return past_of(self._request)

    @cached_property
    def first(self) -> PastMoment | None:
        """When the first topics of this memory were made, if that was later than the moment."""
        first = past.first_moment(self._owner.pk) if self.moment else None
        return PastMoment(first) if first and self.moment and self.moment.at < first else None

    @property
    def first_address(self) -> str:
        return f"{self.action}?{PARAMETER}={self.first.text}" if self.first else ""

    @property
    def dated_address(self) -> str:
        """Where today's memory is asked for what was said until the day of the moment."""
        return f"{reverse('recall', args=[self._owner.pk])}?until={self.value[:10]}&{PARAMETER}="

    @property
    def fault(self) -> str:
        """What the address names as a moment and is none."""
        return getattr(self._request, "past_fault", "")

    @property
    def is_shown(self) -> bool:
        """Whether this page shows the memory of the moment; others say that they do not."""
        match = self._request.resolver_match
        return self._route in SHOWING or bool(match and getattr(match.func, "has_past", False))

    @property
    def is_of_run(self) -> bool:
        return is_of_runs(self._route)

    @property
    def action(self) -> str:
        """The page that the choice of a moment opens: this one if it can show it, else the memory at a glance."""
        return self._request.path if self._stays else reverse("memory", args=[self._owner.pk])

    @property
    def _stays(self) -> bool:
        """Whether this page can show other moments; a page that was not found, or may not be seen, cannot."""
        return self.is_shown and getattr(self._request, "owner", None) is not None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """What else the address says, which the choice of another moment keeps."""
        if not self._stays:
            return []
        query = self._request.GET
        return [(name, value) for name in query if name not in _LEFT for value in query.getlist(name)]

    @property
    def now_address(self) -> str:
        query = self._request.GET.copy()
        query.pop(PARAMETER, None)
        # Named as empty, so that this one link is not led on to the moment.
        return f"{self._request.path}?{query.urlencode()}{'&' if query else ''}{PARAMETER}="

    @property
    def value(self) -> str:
        """The moment on the reader's clock, as a field of a browser takes it."""
        moment = self.moment
        return timezone.localtime(moment.at).strftime("%Y-%m-%dT%H:%M") if moment else ""

    @property
    def offered(self) -> list[tuple[str, str]]:
        return [(f"{self.action}?{PARAMETER}={day}", words) for day, words in offered()]


# One memory at a glance, as it was at a moment.

Noun = KnowledgeEdit.Noun
RECENT = 8
FEW = 6


def memory_then(owner: ChatUser, moment: datetime) -> dict[str, Any]:
    """What the page of a memory shows; a fixed number of queries."""
    people, facts, files = (past.rows_at(owner.pk, noun, moment) for noun in (Noun.PERSON, Noun.FACT, Noun.ARTIFACT))
    current = {number: row for number, row in facts.items() if not row.get("superseded_at")}
    topics = past.topics_at(moment).filter(owner=owner)
    messages = past.messages_at(owner.pk, moment)
    runs = Run.objects.of(owner).by_hand().filter(created_at__lte=moment)
    counts = Holdings(
        messages=messages.count(),
        waiting=past.in_no_topic_at(owner.pk, moment).count(),
        topics=topics.count(),
        people=len(people),
        artifacts=len(files),
        facts=len(facts),
        runs=runs.count(),
        last_message_at=messages.aggregate(last=Max("sent_at"))["last"],
    )
    return {
        "counts": counts,
        "topics": topics.order_by("-ended_at", "-id")[:RECENT],
        "runs": runs.with_answers().select_related("owner", "operator").order_by("-created_at", "-id")[:FEW],
        "people": _first(owner, Noun.PERSON, people, "mention_count"),
        "artifacts": _first(owner, Noun.ARTIFACT, files, "created_at"),
        "facts": _first(owner, Noun.FACT, current, "importance"),
        "is_past": True,
    }


def _first(owner: ChatUser, noun: Noun, rows: Mapping[str, Mapping[str, Any]], by: str) -> list[Any]:
    first = heapq.nlargest(FEW, rows.items(), key=lambda item: (_comparable(item[1].get(by)), int(item[0])))
    return past.as_rows(owner.pk, noun, first)


def _comparable(value: Any) -> Any:
    """Of times, some are as JSON stores them."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


# The changes of a row up to a moment, without what became of them later.


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


# The page of something that was not in the memory at the moment.


def absent(
    request: HttpRequest, name: str, owner: ChatUser, *, holders: Sequence[Topic] = (), is_retired: bool = False
) -> HttpResponse:
    """``holders`` are topics of the moment that contained its messages; ``is_retired`` if it had been there before."""
    context = {"name": name, "owner": owner, "holders": holders, "is_retired": is_retired}
    return show(request, "pages/topics/absent.html", "partials/past/absent.html", context, status=404)
