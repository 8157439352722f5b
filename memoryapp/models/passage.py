"""Passages: the texts with which search compares a query.

A passage is one exchange, or a piece of one, of about 600 characters. It belongs to messages, not to topics, so edits
of topics need no new vectors; the passages of a topic are those that contain one of its messages.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.text.lexical import WIDE
from memoryapp.models.message import Message
from memoryapp.models.user import Owned


class OctetLength(models.Func):
    function = "OCTET_LENGTH"
    output_field = models.IntegerField()


def is_wide_field() -> models.GeneratedField:
    """Whether most of ``text`` is written in non-Latin letters, as ``lexical.is_wide`` computes for a query."""
    return models.GeneratedField(
        expression=GreaterThan(OctetLength("text"), models.Value(WIDE) * Length("text")),
        output_field=models.BooleanField(),
        db_persist=True,
        verbose_name=_("beyond Latin"),
    )


class Passage(Owned):
    """``terms`` is the folded text in Postgres' ``russian`` configuration, ``term_count`` its number of words.

    The index ``passage_owner`` contains what every search reads of every passage, so that no text is read.
    """

    text = models.TextField(_("text"))
    terms = SearchVectorField(_("terms"))
    term_count = models.PositiveIntegerField(_("words"))
    is_wide = is_wide_field()
    messages = models.ManyToManyField(Message, through="PassageMessage", verbose_name=_("messages"))

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("owner", "id"), include=("term_count", "is_wide"), name="passage_owner"),
        )
        indexes = (GinIndex(fields=("terms",), name="passage_terms"),)
        verbose_name = _("passage")
        verbose_name_plural = _("passages")

    def __str__(self) -> str:
        return self.text[:80]


class PassageMessage(Owned):
    passage = models.ForeignKey(Passage, models.CASCADE, db_index=False)
    message = models.ForeignKey(Message, models.CASCADE)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("passage", "message"), name="passagemessage_once"),)
        indexes = (models.Index(fields=("owner",), include=("message", "passage"), name="passagemessage_owner"),)
        verbose_name = _("message of a passage")
        verbose_name_plural = _("messages of passages")

    def __str__(self) -> str:
        return f"{self.passage_id} ∋ {self.message_id}"
