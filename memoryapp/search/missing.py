"""What still lacks a vector of a profile: passages, cards, live topics and items, except texts that the model refused
recently.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from django.utils import timezone

from memoryapp.models import (
    Card,
    CardVector,
    ChatUser,
    EmbeddingProfile,
    ItemVector,
    Message,
    Passage,
    PassageMessage,
    PassageVector,
    RefusedText,
    StoredItem,
    Topic,
    TopicVector,
)
from memoryapp.models.user import Owned
from memoryapp.operations.waits import waiting

# A refusal may be a passing fault. After three refusals a text is sent once a day.
WAITS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))

# Of the messages that are embedded before all others.
MOST_FRESH = 1_000

Row = TypeVar("Row", bound=Owned)


def passages(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Passage]:
    vectors = PassageVector.objects.filter(passage=OuterRef("pk"), profile=row)
    return _missing(Passage.objects.all(), vectors, "passage", row, owner)


def fresh(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Passage]:
    """Those of ``passages`` that contain messages of active sessions, of the latest thousand such messages.

    The ids are read first: as one statement over tables that were just filled it took minutes.
    """
    active = Message.objects.active() if owner is None else Message.objects.active().of(owner)
    messages = list(active.order_by("-pk").values_list("pk", flat=True)[:MOST_FRESH])
    of_active = PassageMessage.objects.filter(message__in=messages).values_list("passage", flat=True)
    return passages(row, owner).filter(pk__in=list(of_active))


def cards(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Card]:
    vectors = CardVector.objects.filter(card=OuterRef("pk"), profile=row)
    return _missing(Card.objects.all(), vectors, "card", row, owner)


def topics(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[Topic]:
    vectors = TopicVector.objects.filter(topic=OuterRef("pk"), profile=row)
    return _missing(Topic.objects.live(), vectors, "topic", row, owner)


def items(row: EmbeddingProfile, owner: ChatUser | None = None) -> QuerySet[StoredItem]:
    vectors = ItemVector.objects.filter(item=OuterRef("pk"), profile=row)
    return _missing(StoredItem.objects.exclude(text=""), vectors, "item", row, owner)


def is_complete(row: EmbeddingProfile) -> bool:
    """Whether everything has a vector of the profile, apart from texts that its model refused."""
    return not any(kind(row).exists() for kind in (passages, cards, topics, items))


def refused(row: EmbeddingProfile) -> QuerySet[RefusedText]:
    """The texts that have no vector because the model refused them. Retired topics do not count."""
    return RefusedText.objects.filter(Q(topic__isnull=True) | Q(topic__is_live=True), profile=row)


def keep_refusal(row: EmbeddingProfile, owner_id: int, noun: str, pk: int, reason: str) -> None:
    """Postpones the next attempt with the text of this row, longer after each refusal."""
    owner = {"profile": row, "owner_id": owner_id, f"{noun}_id": pk}
    now = timezone.now()
    kept, made = RefusedText.objects.get_or_create(
        **owner, defaults={"reason": reason[:500], "retry_at": now + WAITS[0]}
    )
    if not made:
        wait = WAITS[min(kept.tries, len(WAITS) - 1)]
        RefusedText.objects.filter(pk=kept.pk).update(tries=F("tries") + 1, reason=reason[:500], retry_at=now + wait)


def forget_refusals(row: EmbeddingProfile, noun: str, pks: list[int]) -> None:
    """Deletes the refusals of rows that have a vector now."""
    RefusedText.objects.filter(profile=row, **{f"{noun}__in": pks}).delete()


def _missing(
    rows: QuerySet[Row], vectors: QuerySet[Model], noun: str, row: EmbeddingProfile, owner: ChatUser | None
) -> QuerySet[Row]:
    refused = RefusedText.objects.filter(waiting("retry_at", WAITS[-1]), profile=row, **{noun: OuterRef("pk")})
    without = rows.filter(~Exists(vectors), ~Exists(refused))
    return without if owner is None else without.filter(owner=owner)
