"""Images, sounds and files that came with a query: the bytes are stored under their hash, one row for each owner."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from memoryapp.models.user import Owned


class Media(Owned):
    """The bytes are in the default storage under ``path``; the same bytes are stored once."""

    class Type(models.TextChoices):
        IMAGE = "image", _("image")
        AUDIO = "audio", _("audio")
        FILE = "file", _("file")

    sha256 = models.CharField("SHA-256", max_length=64)
    type = models.CharField(_("type"), max_length=8, choices=Type)
    mime_type = models.CharField(_("MIME type"), max_length=100, blank=True)
    name = models.CharField(_("file name"), max_length=300, blank=True)
    size_bytes = models.PositiveBigIntegerField(_("bytes"))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "sha256"), name="media_once"),)
        verbose_name = _("media")
        verbose_name_plural = _("media")

    def __str__(self) -> str:
        return self.name or self.sha256[:12]

    @property
    def path(self) -> str:
        return f"media/{self.sha256[:2]}/{self.sha256}"
