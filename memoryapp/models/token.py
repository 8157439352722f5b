"""API tokens: what a program may do, and with whose memory. Only the digest of a token is stored."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import ChatUser


class ApiToken(models.Model):
    """``scopes`` lists words of ``Scope``. The token opens the memories of ``owners``, or all of them with
    ``everyone``.

    ``when_unsure`` is the default of that parameter for what it asks; empty for the usual one.

    ``counted`` requests were sent since ``counted_from``, in seconds since 1970, see ``accounts.rates``.

    An empty list does not mean every memory: erasing the only chat user of a token must not open all others to it.
    """

    class Scope(models.TextChoices):
        RECALL = "recall", _("recall")
        INGEST = "ingest", _("add messages")
        READ = "read", _("read")
        CURATE = "curate", _("curate")
        FORGET = "forget", _("forget")
        EVERYONE = "everyone", _("every memory")

    name = models.CharField(_("name"), max_length=200)
    prefix = models.CharField(_("begins with"), max_length=16)
    digest = models.CharField("SHA-256", max_length=64, unique=True)
    scopes = models.JSONField(pgettext_lazy("rights", "may"), default=list)
    owners = models.ManyToManyField(ChatUser, blank=True, verbose_name=_("chat users"))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    when_unsure = models.CharField(_("when unsure"), max_length=10, blank=True, default="", db_default="")
    counted = models.BigIntegerField(_("requests counted"), default=0, db_default=0, editable=False)
    counted_from = models.BigIntegerField(_("counted from"), default=0, db_default=0, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
