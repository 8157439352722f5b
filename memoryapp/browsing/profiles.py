"""Embedding profiles as people see them: how many texts have vectors, and what the missing ones will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Length

from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.llm import clients
from memoryapp.models import (
    Card,
    CardVector,
    EmbeddingProfile,
    Passage,
    PassageVector,
    RefusedText,
    Topic,
    TopicVector,
)
from memoryapp.search import missing, profiles

# Characters per token, a cautious estimate: English has more, Russian about three.
_LATIN_CHARS, _WIDE_CHARS = 4.0, 2.5
# Text before each piece of a topic beside its summary, and before each of its messages.
_HEAD_CHARS, _LINE_CHARS = 40, 14


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many texts of one kind have a vector."""

    made: int
    total: int

    @property
    def percent(self) -> int:
        return 100 * self.made // self.total if self.total else 100


@dataclass(frozen=True, slots=True)
class EmbeddingForecast:
    """What the missing vectors will take: an estimate of tokens; ``cost_usd`` is None when the price is not known."""

    texts: int
    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class ProfileState:
    """A profile: whether the settings name it and can reach its model, and which vectors it has.

    ``forecast`` is None when nothing is missing; ``refusals`` are the latest of the ``refused`` texts.
    """

    row: EmbeddingProfile
    is_wanted: bool
    is_reachable: bool
    passages: Coverage
    cards: Coverage
    topics: Coverage
    refused: int
    refusals: Sequence[RefusedText]
    forecast: EmbeddingForecast | None

    @property
    def is_embedded(self) -> bool:
        return self.row.provider == OfflineEmbedder.profile.provider

    @property
    def is_undecided(self) -> bool:
        """Whether it took over and nobody has decided on its thresholds."""
        return self.row.is_serving and self.row.decision == EmbeddingProfile.Decision.DUE

    @property
    def removable(self) -> int:
        """How many vectors are no longer needed: those of a profile that neither serves nor is to take over."""
        is_used = self.row.is_serving or self.is_wanted
        return 0 if is_used else self.passages.made + self.cards.made + self.topics.made

    @property
    def is_being_made(self) -> bool:
        return not self.row.is_serving and self.row.asked_at is not None and self.is_wanted


def states() -> list[ProfileState]:
    """The profile that serves, the one that the settings ask for, and others that still have vectors."""
    wanted = profiles.configured()
    with_vectors = PassageVector.objects.order_by().values("profile").distinct()
    rows = EmbeddingProfile.objects.filter(Q(is_serving=True) | Q(pk=wanted.pk) | Q(pk__in=with_vectors))
    rows = rows.order_by("-is_serving", "-pk")
    return [_state(row, is_wanted=row == wanted) for row in rows]


def forecast(row: EmbeddingProfile, *, topics_anew: bool = False) -> EmbeddingForecast | None:
    """What the missing vectors of this profile will take; with ``topics_anew``, including those of all topics.

    None when nothing is missing.
    """
    passages, cards = (_sizes(rows) for rows in (missing.passages(row), missing.cards(row)))
    without = Topic.objects.live() if topics_anew else missing.topics(row)
    topics, topic_chars = _topic_sizes(without, profiles.profile_of(row).most_chars)
    texts = passages.texts + cards.texts + topics
    if not texts:
        return None
    chars = passages.chars + cards.chars
    # Topics have the same messages as passages, so the same share of them is written in non-Latin letters.
    of_all = _sizes(Passage.objects.all())
    topic_wide = topic_chars * of_all.wide / of_all.chars if of_all.chars else 0.0
    wide = passages.wide + cards.wide + topic_wide
    tokens = round((chars + topic_chars - wide) / _LATIN_CHARS + wide / _WIDE_CHARS)
    return EmbeddingForecast(texts, tokens, _cost(row, tokens))


def _cost(row: EmbeddingProfile, tokens: int) -> float | None:
    if row.provider == OfflineEmbedder.profile.provider:
        return 0.0
    return tokens * settings.EMBEDDING_PRICE / 1_000_000 if settings.EMBEDDING_PRICE >= 0 else None


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Numbers of texts and characters; ``wide`` are the characters of texts that are mostly written in non-Latin
    letters."""

    texts: int
    chars: int
    wide: int


def _sizes(rows: QuerySet[Passage] | QuerySet[Card]) -> _Sizes:
    sums = rows.order_by().aggregate(
        texts=Count("pk"),
        chars=Coalesce(Sum(Length("text")), 0),
        wide=Coalesce(Sum(Length("text"), filter=Q(is_wide=True)), 0),
    )
    return _Sizes(**sums)


def _topic_sizes(topics: QuerySet[Topic], most_chars: int) -> tuple[int, int]:
    """The number of topics, and the characters of their texts; the summary precedes each piece."""
    pieces = F("size_chars") / most_chars + 1
    chars = F("size_chars") + _LINE_CHARS * F("message_count") + pieces * (Length("summary") + _HEAD_CHARS)
    sums = topics.order_by().aggregate(n=Count("pk"), chars=Coalesce(Sum(chars), 0))
    return sums["n"], sums["chars"]


def _state(row: EmbeddingProfile, *, is_wanted: bool) -> ProfileState:
    refused = missing.refused(row)
    passages = Coverage(PassageVector.objects.filter(profile=row).count(), Passage.objects.count())
    cards = Coverage(CardVector.objects.filter(profile=row).count(), Card.objects.count())
    topics = Coverage(
        TopicVector.objects.filter(profile=row, topic__is_live=True).count(), Topic.objects.live().count()
    )
    # If every text has its vector, missing ones are not searched for: that takes longer than everything else.
    is_complete = all(kind.made >= kind.total for kind in (passages, cards, topics))
    return ProfileState(
        row=row,
        is_wanted=is_wanted,
        is_reachable=clients.is_reachable(profiles.profile_of(row)),
        passages=passages,
        cards=cards,
        topics=topics,
        refused=refused.count(),
        refusals=list(refused.select_related("owner").order_by("-pk")[:5]),
        forecast=forecast(row) if not is_complete and (is_wanted or row.is_serving) else None,
    )
