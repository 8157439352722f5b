"""The queue as its page shows it: the suggestions around the open one, and the progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import suggestions
from memoryapp.content.reading import content
from memoryapp.curation.summarising import opening
from memoryapp.models import ChatUser, Message, Suggestion
from memoryapp.suggestions import consolidation, proposals
from rerankui.curation.decisions import Around, seconds_each
from rerankui.text.times import coming

LISTED_BEFORE = 6
LISTED_AFTER = 18
MOST_OPEN = 1_000


@dataclass(frozen=True, slots=True)
class SuggestionLine:
    """A suggestion in the list; ``holder`` is who works on it, if that is somebody else."""

    suggestion: Suggestion
    summaries: tuple[str, ...]
    holder: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class ProposedTopic:
    """What one of the proposed topics would hold, and how it begins."""

    messages: int
    chars: int
    opening: str


@dataclass(frozen=True, slots=True)
class Pace:
    """``seconds`` is what a decision of this person takes, lately; None before the second one."""

    decided: int
    total: int
    seconds: int | None


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


def around(owner: ChatUser, current: Suggestion, user: AbstractBaseUser | AnonymousUser) -> Around[SuggestionLine]:
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
) -> tuple[SuggestionLine, ...]:
    """These suggestions with the summaries of their topics."""
    topics = suggestions.topics_of(shown)
    summaries = [[topics[number].summary for number in row.topics if number in topics] for row in shown]
    return tuple(
        SuggestionLine(row, tuple(texts), other_holder(row, user), current is not None and row.pk == current.pk)
        for row, texts in zip(shown, summaries, strict=True)
    )


def other_holder(suggestion: Suggestion, user: AbstractBaseUser | AnonymousUser) -> str:
    """The other person who works on it at this moment; empty when there is none."""
    holder = suggestions.holder(suggestion)
    return "" if holder is None or holder.pk == user.pk else holder.get_username()


def parts_of(owner: ChatUser, split: Suggestion) -> list[ProposedTopic]:
    """The parts a split proposes, in order, and how each begins; the topic is live."""
    begins = Message.objects.of(owner).filter(topic__in=split.topics).in_order().first()
    at = Message.objects.of(owner).in_bulk(split.evidence.get("at", []))
    first = [begins, *(at.get(number) for number in split.evidence.get("at", []))]
    sizes = split.evidence.get("parts", [])
    return [
        ProposedTopic(count, chars, opening([content(message)]) if message else "…")
        for (count, chars), message in zip(sizes, first, strict=False)
    ]


def pace(owner: ChatUser, actor: str) -> Pace:
    counted = suggestions.progress(owner)
    seconds = seconds_each(Suggestion.objects.filter(owner=owner, decided_by=actor))
    return Pace(counted.decided, counted.decided + counted.open, seconds)


def last_decided(owner: ChatUser, actor: str) -> Suggestion | None:
    """The suggestion that this person decided last, which can be taken back."""
    states = (Suggestion.State.ACCEPTED, Suggestion.State.NEVER)
    own = Suggestion.objects.filter(owner=owner, decided_by=actor, state__in=states, decided_at__isnull=False)
    return own.order_by("-decided_at").first()
