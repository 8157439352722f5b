"""Messages as they were said, and the batches that brought them."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import ChatUser, Owned


class ImportBatch(Owned):
    """One import of one file for one chat user; ``rejected`` lists ``{"line", "reason"}``."""

    source = models.CharField(_("source"), max_length=300)
    format = models.CharField(_("format"), max_length=20)
    started_at = models.DateTimeField(_("at"), auto_now_add=True)
    added = models.PositiveIntegerField(pgettext_lazy("messages", "added"), default=0)
    skipped = models.PositiveIntegerField(_("skipped"), default=0)
    rejected = models.JSONField(_("rejected"), default=list, blank=True)

    class Meta:
        ordering = ("-started_at", "-id")
        indexes = (models.Index(fields=("owner", "-started_at"), name="importbatch_owner"),)
        verbose_name = _("import")
        verbose_name_plural = _("imports")

    def __str__(self) -> str:
        return f"{self.source} ({self.added})"


class MessageQuerySet(models.QuerySet["Message"]):
    def of(self, owner: ChatUser | int) -> Self:
        return self.filter(owner=owner)

    def active(self) -> Self:
        """Messages no topic holds yet: the active session."""
        return self.filter(topic__isnull=True, is_withdrawn=False)

    def present(self) -> Self:
        """Messages that were not withdrawn with their import."""
        return self.filter(is_withdrawn=False)

    def in_order(self) -> Self:
        return self.order_by("sent_at", "id")


class Message(Owned):
    class Author(models.TextChoices):
        USER = "user", pgettext_lazy("author", "user")
        ASSISTANT = "assistant", pgettext_lazy("author", "assistant")
        PEER = "peer", pgettext_lazy("author", "peer")
        SYSTEM = "system", pgettext_lazy("author", "system")

    external_id = models.CharField(_("external id"), max_length=300)
    role = models.CharField(_("role"), max_length=16, choices=Author)
    author = models.CharField(_("author"), max_length=200, blank=True)
    sent_at = models.DateTimeField(_("sent"))
    text = models.TextField(_("text"), blank=True)
    session = models.CharField(_("session"), max_length=200, blank=True)
    reply_to = models.CharField(_("reply to"), max_length=300, blank=True)
    forwarded_from = models.CharField(_("forwarded from"), max_length=200, blank=True)
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    content_hash = models.CharField(_("content hash"), max_length=64)
    topic = models.ForeignKey(
        "memoryapp.Topic", models.RESTRICT, null=True, blank=True, db_index=False, verbose_name=_("topic")
    )
    batch = models.ForeignKey(ImportBatch, models.SET_NULL, null=True, blank=True, verbose_name=_("import"))
    is_withdrawn = models.BooleanField(_("withdrawn"), default=False)

    objects = MessageQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("owner", "external_id"), name="message_once"),
            models.CheckConstraint(
                condition=models.Q(is_withdrawn=False) | models.Q(topic__isnull=True),
                name="message_withdrawn_from_topics",
            ),
        )
        indexes = (
            models.Index(fields=("owner", "sent_at", "id"), name="message_order"),
            models.Index(fields=("topic", "sent_at", "id"), name="message_topic"),
            models.Index(
                fields=("owner",),
                include=("id", "topic"),
                condition=models.Q(topic__isnull=False),
                name="message_archived",
            ),
            models.Index(
                fields=("owner",), condition=models.Q(topic__isnull=True, is_withdrawn=False), name="message_active"
            ),
        )
        verbose_name = _("message")
        verbose_name_plural = _("messages")

    def __str__(self) -> str:
        return f"{self.author}: {self.text[:60]}"
