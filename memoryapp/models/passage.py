"""Passages: what search compares a query with.

A passage is one exchange, cut to about 600 characters. It belongs to messages, not to topics, so edits
to topics need no re-embedding; a topic's passages are those that hold one of its messages.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils.translation import gettext_lazy as _

from memoryapp.models.message import Message
from memoryapp.models.user import Owned


class Passage(Owned):
    """``terms`` is the folded text in Postgres' ``russian`` configuration, ``term_count`` its words."""

    text = models.TextField(_("text"))
    terms = SearchVectorField(_("terms"))
    term_count = models.PositiveIntegerField(_("words"))
    messages = models.ManyToManyField(Message, through="PassageMessage", verbose_name=_("messages"))

    class Meta:
        indexes = (
            models.Index(fields=("owner",), include=("id", "term_count"), name="passage_owner"),
            GinIndex(fields=("terms",), name="passage_terms"),
        )
        verbose_name = _("passage")
        verbose_name_plural = _("passages")

    def __str__(self) -> str:
        return self.text[:80]


class PassageMessage(Owned):
    passage = models.ForeignKey(Passage, models.CASCADE, db_index=False)
    message = models.ForeignKey(Message, models.CASCADE)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("passage", "message"), name="passagemessage_once"),)
        verbose_name = _("message of a passage")
        verbose_name_plural = _("messages of passages")

    def __str__(self) -> str:
        return f"{self.passage_id} ∋ {self.message_id}"
