"""The queue as its page shows it: the suggestions around the open one, and the progress."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django_htmx.http import push_url

from memoryapp.curation import CurationError, Depends, suggestions
from memoryapp.curation.suggestions import consolidation, proposals
from memoryapp.curation.topic_writer import opening
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, Finding, Message, Role, Suggestion
from rerankui.frame.access import open_to
from rerankui.frame.pages import is_partial
from rerankui.frame.toasts import undo_address
from rerankui.text.words import coming

# Rows that are decided one after another by a key: the common part of the queue of suggestions and the review of
# findings.

_DECISIONS_TIMED = 20
_BREAK = timedelta(minutes=3)

Row = TypeVar("Row", Suggestion, Finding)
Listed = TypeVar("Listed")
Query = Callable[[HttpRequest], str]
Act = Callable[[HttpRequest, ChatUser, Row], HttpResponse]


@dataclass(frozen=True, slots=True)
class Around(Generic[Listed]):
    """The rows listed around the open one, the numbers of those not listed, and its neighbours in the list."""

    listed: tuple[Listed, ...]
    above: int
    below: int
    previous: int | None
    next: int | None


def _whole(_request: HttpRequest) -> str:
    """The query of a section that is not narrowed."""
    return ""


@dataclass(frozen=True, slots=True)
class Decisions(Generic[Row]):
    """How the rows of one noun are read, shown and taken back.

    ``noun`` names the address of a row and its number there; ``section`` is the address that shows the next one.
    ``page`` takes a request, an owner and a row or None, and by name a sentence and a status. ``query`` is what every
    address keeps of the request's, to which the section is narrowed."""

    noun: str
    section: str
    undecided: str
    row_or_404: Callable[[ChatUser, int], Row]
    page: Callable[..., HttpResponse]
    take_back: Callable[..., Any]
    query: Query = _whole

    def view(self, act: Act[Row]) -> Callable[..., Any]:
        """The view of one row: a look is answered with the page, a post by ``act``, which needs a curator."""

        @open_to(Role.VIEWER, post=Role.CURATOR)
        def view(request: HttpRequest, owner: ChatUser, **numbers: int) -> HttpResponse:
            row = self.row_or_404(owner, numbers[self.noun])
            return act(request, owner, row) if request.method == "POST" else self.page(request, owner, row)

        return view

    def undo(self, request: HttpRequest, owner: ChatUser, row: Row) -> HttpResponse:
        """The decision is taken back, and the row shown; an edit that something later depends on has a page."""
        if row.state != self.undecided:
            try:
                self.take_back(row, actor=request.user.get_username())
            except CurationError as error:
                if isinstance(error, Depends) and row.edit:
                    return redirect(undo_address(row.edit, request.path))
                return self.page(request, owner, row, sentence=str(error), status=422)
        return redirect(reverse(self.noun, args=[owner.pk, row.pk]) + self.query(request))

    def onward(self, request: HttpRequest, owner: ChatUser, following: Row | None) -> HttpResponse:
        """The next row, or the section's page when there is none."""
        name, numbers = (self.noun, [owner.pk, following.pk]) if following else (self.section, [owner.pk])
        address = reverse(name, args=numbers) + self.query(request)
        return push_url(self.page(request, owner, following), address) if is_partial(request) else redirect(address)


def seconds_each(decided: QuerySet[Row]) -> int | None:
    """The seconds per decision for the latest of these rows, without breaks; None before the second decision."""
    rows = decided.filter(decided_at__isnull=False).order_by("-decided_at")
    times = [at for at in rows.values_list("decided_at", flat=True)[: _DECISIONS_TIMED + 1] if at is not None]
    gaps = [later - earlier for later, earlier in pairwise(times) if later - earlier < _BREAK]
    return round(median(gap.total_seconds() for gap in gaps)) if gaps else None


LISTED_BEFORE = 6
LISTED_AFTER = 18
MOST_OPEN = 1_000


def consolidation_words(owner: ChatUser) -> list[str]:
    """What is done with similar topics automatically, in sentences."""
    if owner.consolidation == ChatUser.Consolidation.OFF:
        return [_("Consolidation is off: the worker does not look for similar topics.")]
    is_automatic = owner.consolidation == ChatUser.Consolidation.AUTOMATIC
    if not proposals.is_model_connected():
        if is_automatic:
            return [_("No chat model is connected. Similarity alone merges nothing, so similar topics are suggested.")]
        return [_("No chat model is connected: similar topics are suggested by their vectors.")]
    model = {"model": settings.MERGER_MODEL}
    words = _("The model %(model)s judges similar topics, and people decide.")
    if is_automatic:
        words = _("The model %(model)s merges similar topics by itself. Topics that people edited are left to people.")
    return [words % model, *_rest(owner)]


def _rest(owner: ChatUser) -> Iterator[str]:
    until = consolidation.resumes_at(owner)
    if until and until > timezone.now():
        yield _("Its last answer failed; it is asked again at %(time)s.") % {"time": coming(until)}


def around(owner: ChatUser, current: Suggestion, user: AbstractBaseUser | AnonymousUser) -> Around[dict[str, Any]]:
    """The current one may be decided already; then it is not listed."""
    rows = list(suggestions.opened(owner).defer("evidence")[:MOST_OPEN])
    place = next((place for place, row in enumerate(rows) if row.pk == current.pk), -1)
    first = max(0, place - LISTED_BEFORE)
    shown = rows[first : max(place, 0) + LISTED_AFTER + 1]
    return Around(
        listed=lines_of(shown, user, current),
        above=first,
        below=len(rows) - first - len(shown),
        previous=rows[place - 1].pk if place > 0 else None,
        next=rows[place + 1].pk if place + 1 < len(rows) else None,
    )


def lines_of(
    shown: Sequence[Suggestion], user: AbstractBaseUser | AnonymousUser, current: Suggestion | None = None
) -> tuple[dict[str, Any], ...]:
    """These suggestions with the summaries of their topics; ``holder`` is who works on one, if somebody else does."""
    topics = suggestions.topics_of(shown)
    summaries = [[topics[number].summary for number in row.topics if number in topics] for row in shown]
    return tuple(
        {
            "suggestion": row,
            "summaries": tuple(texts),
            "holder": other_holder(row, user),
            "is_current": current is not None and row.pk == current.pk,
        }
        for row, texts in zip(shown, summaries, strict=True)
    )


def other_holder(suggestion: Suggestion, user: AbstractBaseUser | AnonymousUser) -> str:
    """The other person who works on it at this moment; empty when there is none."""
    holder = suggestions.holder(suggestion)
    return "" if holder is None or holder.pk == user.pk else holder.get_username()


def parts_of(owner: ChatUser, split: Suggestion) -> list[dict[str, Any]]:
    """The parts a split proposes, in order, and how each begins; the topic is live."""
    begins = Message.objects.of(owner).filter(topic__in=split.topics).in_order().first()
    at = Message.objects.of(owner).in_bulk(split.evidence.get("at", []))
    first = [begins, *(at.get(number) for number in split.evidence.get("at", []))]
    sizes = split.evidence.get("parts", [])
    return [
        {"messages": count, "chars": chars, "opening": opening([content(message)]) if message else "…"}
        for (count, chars), message in zip(sizes, first, strict=False)
    ]


def pace(owner: ChatUser, actor: str) -> dict[str, Any]:
    """``seconds`` is what a decision of this person takes, lately; None before the second one."""
    counted = suggestions.progress(owner)
    seconds = seconds_each(Suggestion.objects.filter(owner=owner, decided_by=actor))
    return {"decided": counted.decided, "total": counted.decided + counted.open, "seconds": seconds}


def last_decided(owner: ChatUser, actor: str) -> Suggestion | None:
    """The suggestion that this person decided last, which can be taken back."""
    states = (Suggestion.State.ACCEPTED, Suggestion.State.NEVER)
    own = Suggestion.objects.filter(owner=owner, decided_by=actor, state__in=states, decided_at__isnull=False)
    return own.order_by("-decided_at").first()


# Samples before many suggestions are accepted at once: which of them a person has opened or decided.
#
# Opened ones are remembered with the login session, decided ones are in their rows.

SAMPLES = 10
_KEY, _MOST = "opened_suggestions", 300
# A look of yesterday says nothing about what was suggested since.
_LATELY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SampledSuggestions:
    """``samples`` are spread over the scores from the highest to the lowest, each with whether it was seen; ``seen``
    counts all that were looked at, of which ``needed`` are enough."""

    samples: Sequence[tuple[Suggestion, bool]]
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
    shown = [(row, row.pk in known) for row in _spread(rows)]
    return SampledSuggestions(shown, opened + decided, min(SAMPLES, len(rows)))


def _spread(rows: Sequence[Suggestion]) -> list[Suggestion]:
    """``SAMPLES`` of the rows at even distances, the first and the last among them."""
    if len(rows) <= SAMPLES:
        return list(rows)
    last = len(rows) - 1
    return [rows[round(place * last / (SAMPLES - 1))] for place in range(SAMPLES)]
