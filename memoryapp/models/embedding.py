"""Vectors, in tables of their own so that lists never fetch them.

Search is exact, over a covering index of one owner's vectors (10,000 in 2 to 3 ms). A shared HNSW index does not work:
with a filter by owner it returns only a handful of rows. Index entries are limited to 2,704 bytes, so only vectors of
at most 1,024 dimensions are in the covering index.
"""

from functools import reduce
from operator import or_
from typing import Any, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchVectorField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from pgvector.django import HalfVectorField

from memoryapp.engine.embeddings import IDENTITY, Profile, profile_name
from memoryapp.models.knowledge import Artifact, Person
from memoryapp.models.message import Passage, is_wide_field
from memoryapp.models.topic import Topic
from memoryapp.models.user import Owned, Row

COVERED_DIMENSIONS = 1024


def merge_threshold() -> float:
    """The cosine in the settings from which two topics are compared for a merge."""
    return float(settings.CONSOLIDATION_SIMILARITY_THRESHOLD)


class EmbeddingProfileQuerySet(models.QuerySet["EmbeddingProfile"]):
    def asked(self, profile: Profile) -> Self:
        """The row of ``profile``, if a person agreed to make its vectors."""
        return self.filter(**profile.identity, asked_at__isnull=False)


class EmbeddingProfile(Row):
    """Only vectors of one profile are compared. One profile serves searches; vectors of another can be made meanwhile.

    ``asked_at`` and ``asked_by`` record the agreement to make the vectors of a profile that does not serve yet. After
    ``failures`` requests in a row without an answer, the last with ``fault`` (as in ``Work``), its model is not asked
    before ``rests_until``. At ``whole_at`` every text had its vector. ``decision`` concerns its thresholds, which a
    change of the model leaves at the values of the settings.
    """

    class Decision(models.TextChoices):
        NONE = "", _("not asked for")
        DUE = "due", _("asked for")
        MADE = "made", _("made")

    provider = models.CharField(_("provider"), max_length=100)
    model = models.CharField(_("model"), max_length=200)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    query_prefix = models.CharField(_("prefix of queries"), max_length=300, blank=True, default="", db_default="")
    passage_prefix = models.CharField(_("prefix of passages"), max_length=300, blank=True, default="", db_default="")
    threshold = models.FloatField(
        _("threshold"),
        validators=(MinValueValidator(0), MaxValueValidator(1)),
        help_text=_("From 0 to 1: topics that share no word with a query and whose cosine is lower are not shown."),
    )
    consolidation_threshold = models.FloatField(
        _("threshold for merges"),
        default=merge_threshold,
        validators=(MinValueValidator(0), MaxValueValidator(1)),
        help_text=_("From 0 to 1: topics whose cosine is lower are not compared for a merge."),
    )
    is_serving = models.BooleanField(_("serves searches"), default=False)
    asked_at = models.DateTimeField(_("asked"), null=True, blank=True)
    asked_by = models.CharField(_("asked by"), max_length=150, blank=True)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0, db_default=0)
    rests_until = models.DateTimeField(_("asked again from"), null=True, blank=True)
    fault = models.CharField(_("fault"), max_length=500, blank=True, db_default="")
    fault_note = models.JSONField(_("fault as a code"), null=True, blank=True)
    whole_at = models.DateTimeField(_("had all vectors"), null=True, blank=True)
    decision = models.CharField(
        _("decision on thresholds"), max_length=8, choices=Decision, blank=True, default=Decision.NONE, db_default=""
    )

    objects = EmbeddingProfileQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=IDENTITY, name="profile_once"),
            models.UniqueConstraint(fields=("is_serving",), condition=models.Q(is_serving=True), name="profile_serves"),
        )
        verbose_name = _("embedding profile")
        verbose_name_plural = _("embedding profiles")

    def __str__(self) -> str:
        return profile_name(**self.identity)

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes it from all other profiles."""
        return {name: getattr(self, name) for name in IDENTITY}


class PassageVector(Owned):
    """A unit vector. A passage without one is found by its words. ``made_at`` is null in old rows."""

    passage = models.ForeignKey(Passage, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    vector = HalfVectorField(_("vector"))
    made_at = models.DateTimeField(_("made"), null=True, db_default=Now())
    shown = "{0.passage_id} in {0.profile_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("passage", "profile"), name="passagevector_once"),)
        indexes = (
            # Counting the vectors of each hour reads only this index, without the vectors.
            models.Index(fields=("made_at",), include=("owner",), name="passagevector_made"),
            models.Index(
                fields=("owner", "profile"),
                include=("passage", "vector"),
                condition=models.Q(dimensions__lte=COVERED_DIMENSIONS),
                name="passagevector_search",
            ),
        )
        verbose_name = _("passage vector")
        verbose_name_plural = _("passage vectors")


class TopicVector(Owned):
    """A unit vector of summary and messages together: for neighbours, maps and suggestions, not for search."""

    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    vector = HalfVectorField(_("vector"))
    shown = "{0.topic_id} in {0.profile_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("topic", "profile"), name="topicvector_once"),)
        indexes = (models.Index(fields=("owner", "profile"), name="topicvector_owner"),)
        verbose_name = _("topic vector")
        verbose_name_plural = _("topic vectors")


def _exactly_one(*names: str) -> models.Q:
    """Whether one of these columns is filled and the others are null."""
    ways = [models.Q(**{f"{other}__isnull": other != name for other in names}) for name in names]
    return reduce(or_, ways)


class RefusedText(Owned):
    """A text that an embedding model refused. It is sent again from ``retry_at`` on, not with every sweep. It belongs
    to one passage, card, topic or item; ``reason`` is the sentence of the last refusal."""

    profile = models.ForeignKey(EmbeddingProfile, models.CASCADE, db_index=False)
    passage = models.ForeignKey(Passage, models.CASCADE, null=True, blank=True)
    card = models.ForeignKey("Card", models.CASCADE, null=True, blank=True)
    topic = models.ForeignKey(Topic, models.CASCADE, null=True, blank=True)
    item = models.ForeignKey("StoredItem", models.CASCADE, null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=500)
    tries = models.PositiveIntegerField(_("tries"), default=1)
    retry_at = models.DateTimeField(_("asked for again from"))
    shown = "{0.reason:.80}"

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("profile", "passage", "card", "topic", "item"), name="refusedtext_once", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=_exactly_one("passage", "card", "topic", "item"), name="refusedtext_of_one"
            ),
        )
        verbose_name = _("refused text")
        verbose_name_plural = _("refused texts")


class FilterPreset(Row):
    """Named cuts of the strategy ``filter``. Cosines of another model have another scale, so a preset belongs to one
    profile; see ``filtering.Cuts``."""

    profile = models.ForeignKey(EmbeddingProfile, models.CASCADE, db_index=False, verbose_name=_("embedding profile"))
    name = models.CharField(_("name"), max_length=60)
    initial_top_k = models.PositiveSmallIntegerField(_("candidates of the first stage"))
    initial_threshold = models.FloatField(_("threshold of the first stage"))
    threshold = models.FloatField(_("threshold"))
    score_gap = models.FloatField(_("gap"))
    final_top_k = models.PositiveSmallIntegerField(_("topics at most"))
    made_by = models.CharField(_("by"), max_length=200)
    made_at = models.DateTimeField(_("at"), auto_now=True)
    shown = "{0.name}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("profile", "name"), name="filterpreset_once"),)
        verbose_name = _("filter preset")
        verbose_name_plural = _("filter presets")


# Cards: the texts with which search finds people and artifacts; and items, which programs keep and search themselves.
#
# A card is the searchable text of one person or artifact, in the form of a passage, so that one search serves all
# three kinds. It is built again when its row has changed since ``made_from``.


class Card(Owned):
    """``made_from`` is the row's ``updated_at`` at the time when the text was built from it."""

    person = models.OneToOneField(Person, models.CASCADE, null=True, blank=True, verbose_name=_("person"))
    artifact = models.OneToOneField(Artifact, models.CASCADE, null=True, blank=True, verbose_name=_("artifact"))
    text = models.TextField(_("text"))
    terms = SearchVectorField(_("terms"))
    term_count = models.PositiveIntegerField(_("words"))
    is_wide = is_wide_field()
    made_from = models.DateTimeField(_("made from"))
    shown = "{0.text:.80}"

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(person__isnull=True) ^ models.Q(artifact__isnull=True), name="card_of_one_item"
            ),
        )
        indexes = (models.Index(fields=("owner",), include=("id", "term_count", "is_wide"), name="card_owner"),)
        verbose_name = _("card")
        verbose_name_plural = _("cards")


class CardVector(Owned):
    """A unit vector. A card without one is found by its words."""

    card = models.ForeignKey(Card, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    vector = HalfVectorField(_("vector"))
    shown = "{0.card_id} in {0.profile_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("card", "profile"), name="cardvector_once"),)
        indexes = (
            models.Index(
                fields=("owner", "profile"),
                include=("card", "vector"),
                condition=models.Q(dimensions__lte=COVERED_DIMENSIONS),
                name="cardvector_search",
            ),
        )
        verbose_name = _("card vector")
        verbose_name_plural = _("card vectors")


class StoredItem(Owned):
    """A value that a program keeps under a namespace, a list of labels, and a key. ``text`` is what its search
    compares; recalls do not."""

    namespace = ArrayField(models.TextField(), verbose_name=_("namespace"))
    key = models.TextField(_("key"))
    value = models.JSONField(_("value"))
    text = models.TextField(_("text"), blank=True)
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("changed"))

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "namespace", "key"), name="storeditem_once"),)
        indexes = (models.Index(fields=("owner", "-updated_at", "-id"), name="storeditem_latest"),)
        verbose_name = _("stored item")
        verbose_name_plural = _("stored items")

    def __str__(self) -> str:
        return f"{' / '.join(self.namespace)}: {self.key}"[:80]


class ItemVector(Owned):
    """A unit vector of an item's text."""

    item = models.ForeignKey(StoredItem, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    vector = HalfVectorField(_("vector"))
    shown = "{0.item_id} in {0.profile_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("item", "profile"), name="itemvector_once"),)
        indexes = (models.Index(fields=("owner", "profile"), name="itemvector_owner"),)
        verbose_name = _("item vector")
        verbose_name_plural = _("item vectors")
