"""Samples before many suggestions are accepted at once: which of them a person has opened or decided.

Opened ones are remembered with the login session, decided ones are in their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone

from memoryapp.models import ChatUser, Suggestion

SAMPLES = 10
_KEY, _MOST = "opened_suggestions", 300
# A look of yesterday says nothing about what was suggested since.
_LATELY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Sample:
    suggestion: Suggestion
    is_seen: bool


@dataclass(frozen=True, slots=True)
class SampledSuggestions:
    """``samples`` are spread over the scores from the highest to the lowest; ``seen`` counts all that were looked at,
    of which ``needed`` are enough."""

    samples: Sequence[Sample]
    seen: int
    needed: int

    @property
    def is_enough(self) -> bool:
        return self.seen >= self.needed


def note_opened(request: HttpRequest, suggestion: Suggestion) -> None:
    """Remembers that this person saw the suggestion with its evidence."""
    known = request.session.get(_KEY, [])
    if suggestion.pk not in known:
        request.session[_KEY] = [*known, suggestion.pk][-_MOST:]


def sampled(request: HttpRequest, owner: ChatUser, rows: Sequence[Suggestion], least: float) -> SampledSuggestions:
    """``rows`` are the open merges from the score ``least`` on, the best first."""
    known = frozenset(request.session.get(_KEY, []))
    decided = Suggestion.objects.filter(
        owner=owner,
        kind=Suggestion.Kind.MERGE,
        score__gte=least,
        decided_by=request.user.get_username(),
        decided_at__gte=timezone.now() - _LATELY,
        state__in=(Suggestion.State.ACCEPTED, Suggestion.State.NEVER),
    ).count()
    opened = sum(row.pk in known for row in rows)
    shown = [Sample(row, row.pk in known) for row in _spread(rows)]
    return SampledSuggestions(shown, opened + decided, min(SAMPLES, len(rows)))


def _spread(rows: Sequence[Suggestion]) -> list[Suggestion]:
    """``SAMPLES`` of the rows at even distances, the first and the last among them."""
    if len(rows) <= SAMPLES:
        return list(rows)
    last = len(rows) - 1
    return [rows[round(place * last / (SAMPLES - 1))] for place in range(SAMPLES)]
