"""Embedding profiles as people see them: how many texts have vectors, and what the missing ones will cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, attrgetter, or_
from typing import Any, NamedTuple

import numpy as np
from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Length

from memoryapp import models
from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Profile
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.platform import cells
from memoryapp.platform.llm import clients
from memoryapp.platform.statements import fetched
from memoryapp.search import profiles
from memoryapp.search.neighbours import vectors_of_profile

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
    """A profile: whether the settings name it and can reach its model, and which vectors it has. ``forecast`` is None
    when nothing is missing; ``refusals`` are the latest of the ``refused`` texts."""

    row: models.EmbeddingProfile
    is_wanted: bool
    is_reachable: bool
    passages: Coverage
    cards: Coverage
    topics: Coverage
    refused: int
    refusals: Sequence[models.RefusedText]
    forecast: EmbeddingForecast | None

    @property
    def is_embedded(self) -> bool:
        return self.row.provider == OfflineEmbedder.profile.provider

    @property
    def is_undecided(self) -> bool:
        """Whether it took over and nobody has decided on its thresholds."""
        return self.row.is_serving and self.row.decision == models.EmbeddingProfile.Decision.DUE

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
    rows = models.EmbeddingProfile.objects.filter(Q(is_serving=True) | Q(pk=wanted.pk) | Q(pk__in=_with_vectors()))
    rows = rows.order_by("-is_serving", "-pk")
    return [_state(row, is_wanted=row == wanted) for row in rows]


@cells.everywhere()
def _with_vectors() -> list[int]:
    return list(models.PassageVector.objects.order_by().values_list("profile", flat=True).distinct())


def forecast(row: models.EmbeddingProfile, *, topics_anew: bool = False) -> EmbeddingForecast | None:
    """What the missing vectors will take, with ``topics_anew`` those of all topics, too; None when none is missing."""
    passages, cards = (_sizes(rows) for rows in (profiles.passages(row), profiles.cards(row)))
    without = models.Topic.objects.live() if topics_anew else profiles.topics(row)
    topics, topic_chars = _topic_sizes(without, profiles.profile_of(row).most_chars)
    texts = passages.texts + cards.texts + topics
    if not texts:
        return None
    chars = passages.chars + cards.chars
    # Topics have the same messages as passages, so the same share of them is written in non-Latin letters.
    of_all = _sizes(models.Passage.objects.all())
    topic_wide = topic_chars * of_all.wide / of_all.chars if of_all.chars else 0.0
    wide = passages.wide + cards.wide + topic_wide
    tokens = round((chars + topic_chars - wide) / _LATIN_CHARS + wide / _WIDE_CHARS)
    return EmbeddingForecast(texts, tokens, _cost(row, tokens))


def _cost(row: models.EmbeddingProfile, tokens: int) -> float | None:
    if row.provider == OfflineEmbedder.profile.provider:
        return 0.0
    return tokens * settings.EMBEDDING_PRICE / 1_000_000 if settings.EMBEDDING_PRICE >= 0 else None


class _Sizes(NamedTuple):
    """Numbers of texts and characters; ``wide`` are the characters of texts in mostly non-Latin letters."""

    texts: int
    chars: int
    wide: int


@cells.everywhere(join=lambda one, other: _Sizes(*map(add, one, other)))
def _sizes(rows: QuerySet[models.Passage] | QuerySet[models.Card]) -> _Sizes:
    sums = rows.order_by().aggregate(
        texts=Count("pk"),
        chars=Coalesce(Sum(Length("text")), 0),
        wide=Coalesce(Sum(Length("text"), filter=Q(is_wide=True)), 0),
    )
    return _Sizes(**sums)


@cells.everywhere(join=lambda one, other: tuple(map(add, one, other)))
def _topic_sizes(topics: QuerySet[models.Topic], most_chars: int) -> tuple[int, int]:
    """The number of topics, and the characters of their texts; the summary precedes each piece."""
    pieces = F("size_chars") / most_chars + 1
    chars = F("size_chars") + _LINE_CHARS * F("message_count") + pieces * (Length("summary") + _HEAD_CHARS)
    sums = topics.order_by().aggregate(n=Count("pk"), chars=Coalesce(Sum(chars), 0))
    return sums["n"], sums["chars"]


def _state(row: models.EmbeddingProfile, *, is_wanted: bool) -> ProfileState:
    refused = profiles.refused_texts(row)
    made_topics = models.TopicVector.objects.filter(profile=row, topic__is_live=True)
    passages = Coverage(_count(models.PassageVector.objects.filter(profile=row)), _count(models.Passage.objects.all()))
    cards = Coverage(_count(models.CardVector.objects.filter(profile=row)), _count(models.Card.objects.all()))
    topics = Coverage(_count(made_topics), _count(models.Topic.objects.live()))
    # If every text has its vector, missing ones are not searched for: that takes longer than everything else.
    is_complete = all(kind.made >= kind.total for kind in (passages, cards, topics))
    return ProfileState(
        row=row,
        is_wanted=is_wanted,
        is_reachable=clients.is_reachable(profiles.profile_of(row)),
        passages=passages,
        cards=cards,
        topics=topics,
        refused=_count(refused),
        refusals=_newest(refused),
        forecast=forecast(row) if not is_complete and (is_wanted or row.is_serving) else None,
    )


@cells.everywhere()
def _count(rows: QuerySet[Any]) -> int:
    return rows.count()


@cells.everywhere(order=attrgetter("pk"), most=5)
def _newest(refused: QuerySet[models.RefusedText]) -> list[models.RefusedText]:
    return list(refused.select_related("owner").order_by("-pk")[:5])


# Measures how similar the texts of a memory are in a profile, and derives thresholds from that.
#
# Cosines of different models cannot be compared, so a threshold of one model is meaningless for another. Measured are
# random pairs of one memory, nearly all of which are unrelated.

# How many memories, and how many vectors of each; chosen by a hash, so that the same page shows the same picture.
_OWNERS, _VECTORS = 12, 100
_SQL = table_beside(__file__)
PAIRS: str = _SQL["pairs"]
_LIVE = "JOIN memoryapp_topic t ON t.id = v.topic_id AND t.is_live"

# Fewer pairs say nothing about rare ones.
LEAST_PAIRS = 200
# A topic that is less similar to a query than nearly all random pairs are to each other is clearly unrelated. A model
# finds what a cosine misses, so nothing more is withheld from it. In the demo memory this is 0.06 for the embedded
# model; there the best passage for a question is above 0.14 in 99 of 100 cases.
SEARCH_SHARE = 0.05
# Topics are worth comparing if they are more similar than all but a few pairs.
MERGE_SHARE = 0.995
# The columns of the picture: their width, the first and the last.
WIDTH, FIRST, LAST = 0.025, -0.25, 1.0


@dataclass(frozen=True, slots=True)
class SimilarityShare:
    """The share of all pairs, from 0 to 1, whose cosine is in the column that begins at ``start``."""

    start: float
    share: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The cosines of ``pairs``, as shares for each column; ``proposed`` is a threshold, if there were enough pairs."""

    pairs: int
    columns: Sequence[SimilarityShare]
    proposed: float | None


@dataclass(frozen=True, slots=True)
class Similarities:
    passages: Distribution
    topics: Distribution

    @property
    def can_be_adopted(self) -> bool:
        return self.passages.proposed is not None and self.topics.proposed is not None


def measured(row: models.EmbeddingProfile) -> Similarities:
    """Pairs of passages, for the threshold of search, and pairs of live topics, for that of merges. Two queries."""
    return Similarities(
        passages=_distribution(_cosines(row, "passage", ""), SEARCH_SHARE),
        topics=_distribution(_cosines(row, "topic", _LIVE), MERGE_SHARE),
    )


@cells.everywhere()
def _cosines(row: models.EmbeddingProfile, noun: str, joined: str) -> list[float]:
    values = {"profile": row.pk, "owners": _OWNERS, "vectors": _VECTORS}
    return [cosine for (cosine,) in fetched(PAIRS.format(noun=noun, joined=joined), values)]


def _distribution(cosines: Sequence[float], share: float) -> Distribution:
    edges = np.arange(FIRST, LAST + WIDTH / 2, WIDTH)
    counts, _edges = np.histogram(np.clip(cosines, FIRST, LAST), edges)
    shares = counts / max(1, len(cosines))
    columns = [SimilarityShare(round(float(at), 3), float(part)) for at, part in zip(edges[:-1], shares, strict=True)]
    proposed = float(np.clip(np.quantile(cosines, share), 0, 1)) if len(cosines) >= LEAST_PAIRS else None
    return Distribution(len(cosines), columns, None if proposed is None else round(proposed, 2))


# How much of a memory can be compared in meaning: which passages and topics have a vector of a profile.

# Each of them is looked up among the vectors.
MOST_PASSAGES = 2_000


@cells.everywhere()
def passages_without_vector(owners: QuerySet[models.ChatUser], *profiles: Profile) -> int:
    """How many of the newest ``MOST_PASSAGES`` still lack a vector of one of these profiles. Vectors are made in the
    order of passages, so missing ones are among the newest."""
    lacking = reduce(or_, (~Q(Exists(_vectors(profile))) for profile in profiles))
    newest = models.Passage.objects.filter(owner__in=owners).order_by("-pk").values("pk")[:MOST_PASSAGES]
    return models.Passage.objects.filter(lacking, pk__in=newest).count()


def _vectors(profile: Profile) -> QuerySet[models.PassageVector]:
    """The vector of a passage in this profile, for a query of passages."""
    named = {f"profile__{name}": value for name, value in profile.identity.items()}
    return models.PassageVector.objects.filter(passage=OuterRef("pk"), **named)


def has_vector(topic: models.Topic, profile: Profile) -> bool:
    """Whether the topic has a vector; its messages are searched in any case."""
    return vectors_of_profile(topic.owner_id, profile).filter(topic=topic).exists()
