"""Cards: the texts with which search finds people and artifacts; and items, which programs keep and search themselves.

A card is the searchable text of one person or artifact, in the form of a passage, so that one search serves all three
kinds. It is built again when its row has changed since ``made_from``.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils.translation import gettext_lazy as _
from pgvector.django import HalfVectorField

from memoryapp.models.embedding import COVERED_DIMENSIONS, EmbeddingProfile
from memoryapp.models.knowledge import Artifact, Person
from memoryapp.models.passage import is_wide_field
from memoryapp.models.user import Owned


class Card(Owned):
    """``made_from`` is the row's ``updated_at`` at the time when the text was built from it."""

    person = models.OneToOneField(Person, models.CASCADE, null=True, blank=True, verbose_name=_("person"))
    artifact = models.OneToOneField(Artifact, models.CASCADE, null=True, blank=True, verbose_name=_("artifact"))
    text = models.TextField(_("text"))
    terms = SearchVectorField(_("terms"))
    term_count = models.PositiveIntegerField(_("words"))
    is_wide = is_wide_field()
    made_from = models.DateTimeField(_("made from"))

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(person__isnull=True) ^ models.Q(artifact__isnull=True), name="card_of_one_item"
            ),
        )
        indexes = (models.Index(fields=("owner",), include=("id", "term_count", "is_wide"), name="card_owner"),)
        verbose_name = _("card")
        verbose_name_plural = _("cards")

    def __str__(self) -> str:
        return self.text[:80]


class CardVector(Owned):
    """A unit vector. A card without one is found by its words."""

    card = models.ForeignKey(Card, models.CASCADE, db_index=False)
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    vector = HalfVectorField(_("vector"))

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

    def __str__(self) -> str:
        return f"{self.card_id} in {self.profile_id}"


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

    class Meta:
        constraints = (models.UniqueConstraint(fields=("item", "profile"), name="itemvector_once"),)
        indexes = (models.Index(fields=("owner", "profile"), name="itemvector_owner"),)
        verbose_name = _("item vector")
        verbose_name_plural = _("item vectors")

    def __str__(self) -> str:
        return f"{self.item_id} in {self.profile_id}"
