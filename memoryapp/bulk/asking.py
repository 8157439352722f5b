"""Asks for work on many topics, stops it, and takes it back; and says what it will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import CurationError
from memoryapp.engine.agents import archivist, merger, splitter
from memoryapp.ingestion.forecast import CHARS_A_TOKEN, QUESTION_TOKENS, TIMES_EMBEDDED, price_of_token
from memoryapp.models import BulkTopic, BulkWork, ChatUser, Topic, TopicEdit
from memoryapp.suggestions.proposals import is_model_connected

MOST_TOPICS = 500
Kind, State = BulkWork.Kind, BulkWork.State
_AGENTS = {
    Kind.SUMMARISE: merger.AGENT.name,
    Kind.SPLIT: splitter.AGENT.name,
    Kind.EXTRACT: archivist.AGENT.name,
}


@dataclass(frozen=True, slots=True)
class BulkForecast:
    """An estimate for ``topics``: how many questions to a chat model, how many tokens are sent to models, and dollars,
    None when no price is known. ``refusal`` is a sentence if it cannot be done here."""

    kind: BulkWork.Kind
    topics: int
    calls: int
    tokens: int
    cost_usd: float | None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class BulkProgress:
    """How many topics are in each state; ``edits`` counts the changes that an undo would take back."""

    waiting: int
    done: int
    unchanged: int
    failed: int
    edits: int

    @property
    def total(self) -> int:
        return self.waiting + self.done + self.unchanged + self.failed

    @property
    def share(self) -> float:
        return 1 - self.waiting / self.total if self.total else 1.0


def forecast(owner: ChatUser, topics: Sequence[int]) -> list[BulkForecast]:
    """What each kind of work on these live topics would take."""
    sums = Topic.objects.of(owner).live().filter(pk__in=topics).aggregate(n=Count("pk"), chars=Sum("size_chars"))
    return [_forecast(kind, sums["n"], sums["chars"] or 0) for kind in Kind]


def _forecast(kind: BulkWork.Kind, topics: int, chars: int) -> BulkForecast:
    if kind == Kind.EMBED:
        tokens = round(chars * TIMES_EMBEDDED / CHARS_A_TOKEN)
        is_free = not settings.EMBEDDING_BASE_URL
        price = settings.EMBEDDING_PRICE / 1_000_000 if settings.EMBEDDING_PRICE >= 0 else None
        return BulkForecast(kind, topics, 0, tokens, 0.0 if is_free else None if price is None else tokens * price)
    if not is_model_connected():
        return BulkForecast(kind, topics, 0, 0, 0.0, _refusal(kind))
    tokens = chars // CHARS_A_TOKEN + topics * QUESTION_TOKENS
    dollars = price_of_token(_AGENTS[kind])
    return BulkForecast(kind, topics, topics, tokens, None if dollars is None else tokens * dollars)


def _refusal(kind: BulkWork.Kind) -> str:
    """Why it cannot be done without a chat model; empty if it can."""
    if is_model_connected() or kind in (Kind.SPLIT, Kind.EMBED):
        return ""
    if kind == Kind.EXTRACT:
        return _("No chat model is connected to extract facts.")
    return _("No chat model is connected to write summaries.")


@transaction.atomic
def ask(owner: ChatUser, topics: Sequence[int], kind: BulkWork.Kind, by: str) -> BulkWork:
    """Asks the worker to do it with these topics, the oldest first. Raises CurationError where none is live, where they
    are too many, or where it cannot be done here."""
    live = list(Topic.objects.of(owner).live().filter(pk__in=topics).order_by("ended_at", "pk")[: MOST_TOPICS + 1])
    if not live:
        raise CurationError(_("Choose at least one live topic."))
    if len(live) > MOST_TOPICS:
        raise CurationError(_("At most %(n)d topics at once; narrow the list first.") % {"n": MOST_TOPICS})
    if refusal := _refusal(kind):
        raise CurationError(refusal)
    made = BulkWork.objects.create(owner=owner, kind=kind, asked_by=by[:150])
    BulkTopic.objects.bulk_create(BulkTopic(owner=owner, work=made, topic=topic) for topic in live)
    return made


def stop(work: BulkWork) -> bool:
    """The worker begins no further topic of it; what is done stays. False if it was over."""
    return bool(BulkWork.objects.filter(pk=work.pk, state=State.GOING_ON).update(state=State.STOPPED))


def progress(work: BulkWork) -> BulkProgress:
    counts = Counter(dict(work.rows.order_by().values_list("state").annotate(n=Count("pk"))))
    states = BulkTopic.State
    edits = work.rows.filter(edit__isnull=False).count()
    return BulkProgress(
        counts[states.WAITING], counts[states.DONE], counts[states.UNCHANGED], counts[states.FAILED], edits
    )


def undo(work: BulkWork, *, actor: str) -> tuple[int, int]:
    """Stops it and takes back its edits, the latest first. Returns how many were undone, and how many stay because a
    later change depends on them or they were undone already."""
    stop(work)
    edits = list(TopicEdit.objects.filter(pk__in=work.rows.filter(edit__isnull=False).values("edit")).order_by("-pk"))
    standing = curation.in_effect(work.owner_id, [edit.pk for edit in edits])
    undone = sum(_undone(work.owner, edit, actor) for edit in edits if standing.get(edit.pk))
    if undone:
        BulkWork.objects.filter(pk=work.pk).update(state=State.UNDONE)
    return undone, len(edits) - undone


def _undone(owner: ChatUser, edit: TopicEdit, actor: str) -> bool:
    try:
        curation.undo(owner, edit, actor=actor)
    except CurationError:
        return False
    return True
