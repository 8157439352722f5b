"""Vectors, in tables of their own so that lists never fetch them.

Search is exact over a covering index of one owner's vectors (10,000 in 2 to 3 ms); a shared HNSW index
is a trap, for under an owner filter it returns a handful of rows. Index entries end at 2,704 bytes, so
only vectors of at most 1,024 dimensions are in the covering index.
"""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _
from pgvector.django import HalfVectorField

from memoryapp.models.passage import Passage
from memoryapp.models.topic import Topic
from memoryapp.models.user import Owned

COVERED_DIMENSIONS = 1024


class EmbeddingProfile(models.Model):
    provider = models.CharField(_("provider"), max_length=100)
    model = models.CharField(_("model"), max_length=200)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    threshold = models.FloatField(
        _("threshold"),
        validators=(MinValueValidator(0), MaxValueValidator(1)),
        help_text=_("From 0 to 1: topics that share no word with a query and whose cosine is lower are not shown."),
    )

    class Meta:
        constraints = (models.UniqueConstraint(fields=("provider", "model", "dimensions"), name="profile_once"),)
        verbose_name = _("embedding profile")
        verbose_name_plural = _("embedding profiles")

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}@{self.dimensions}"


class PassageVector(Owned):
    """Unit length. A passage without one is found by its words until it has one."""

    passage = models.ForeignKey(Passage, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    vector = HalfVectorField(_("vector"))

    class Meta:
        constraints = (models.UniqueConstraint(fields=("passage", "profile"), name="passagevector_once"),)
        indexes = (
            models.Index(
                fields=("owner", "profile"),
                include=("passage", "vector"),
                condition=models.Q(dimensions__lte=COVERED_DIMENSIONS),
                name="passagevector_search",
            ),
        )
        verbose_name = _("passage vector")
        verbose_name_plural = _("passage vectors")

    def __str__(self) -> str:
        return f"{self.passage_id} in {self.profile_id}"


class TopicVector(Owned):
    """Summary and log together, unit length: for neighbours, maps and consolidation, not for search."""

    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    vector = HalfVectorField(_("vector"))

    class Meta:
        constraints = (models.UniqueConstraint(fields=("topic", "profile"), name="topicvector_once"),)
        indexes = (models.Index(fields=("owner", "profile"), name="topicvector_owner"),)
        verbose_name = _("topic vector")
        verbose_name_plural = _("topic vectors")

    def __str__(self) -> str:
        return f"{self.topic_id} in {self.profile_id}"
