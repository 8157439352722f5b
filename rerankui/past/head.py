"""What the head of a page says of the moment: which one is shown, the way back to now, and the choice of another."""

from __future__ import annotations

from functools import cached_property

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from memoryapp import past
from memoryapp.models import ChatUser
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
