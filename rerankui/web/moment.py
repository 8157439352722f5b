"""The moment whose memory a page shows: in the address as ``as_of``, which every link of the page keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memoryapp import past

PARAMETER = "as_of"
# Pages that show the memory of the moment, beside the lists that say so themselves (``has_past``).
SHOWING = frozenset(
    (
        "memory",
        "topic",
        "topic_peek",
        "topic_blame",
        "person",
        "fact",
        "artifact",
        "find",
        "ask",
        "recall",
    )
)
# Pages of one run, which always show what it found then.
_OF_RUNS = ("run", "answer", "source", "judge", "filter", "prompt_try", "compare")
# What is sent while a moment is chosen: questions to its memory, and what changes no memory.
_SENDING = frozenset(("ask", "recall", "theme", "language", "logout"))
# The form of a fork has a field of this name.
OWN_USE = frozenset(("run_fork",))
LONGEST = 60


@dataclass(frozen=True, slots=True)
class PastMoment:
    """``at`` is in UTC; ``text`` is how an address names it, so that it is the same moment for every reader."""

    at: datetime

    @property
    def text(self) -> str:
        return written(self.at)

    @property
    def words(self) -> str:
        """On the reader's clock."""
        return date_format(timezone.localtime(self.at), _("j M Y, H:i"))


def written(moment: datetime) -> str:
    """The moment as an address names it: ISO 8601 in UTC, without signs that an address has to escape."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read(text: str) -> PastMoment:
    """A day, or a moment on the reader's clock or with its own zone. Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError("too long for a moment")
    return PastMoment(past.moment_of(text.strip()))


def past_of(request: HttpRequest) -> PastMoment | None:
    """The moment that this page is to show; None for the present."""
    return getattr(request, "past", None)


def moment_of(request: HttpRequest) -> datetime | None:
    chosen = past_of(request)
    return chosen.at if chosen else None


def refusal() -> str:
    return _("Nothing can be changed while you look at an earlier moment. Go back to now first.")


def is_of_runs(route: str) -> bool:
    return route.startswith(_OF_RUNS)


def is_sent(route: str) -> bool:
    """Whether what is sent to this page changes no memory."""
    return route in _SENDING or is_of_runs(route)


def offered() -> list[tuple[str, str]]:
    """Days to choose without typing, with their names."""
    today = timezone.localdate()
    steps = ((1, _("yesterday evening")), (7, _("a week ago")), (30, _("a month ago")))
    return [((today - timedelta(days=days)).isoformat(), str(words)) for days, words in steps]
