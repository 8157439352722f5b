"""What remains of a chat user that was erased: a number, and how many rows went from each table."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Erasure(models.Model):
    """``owner_number`` was the row of the chat user; its name is not kept. Without ``ended_at`` it still goes on.

    ``counts`` are rows by table, and ``files`` of media.
    """

    owner_number = models.BigIntegerField(_("number of the chat user"))
    actor = models.CharField(_("by"), max_length=200)
    began_at = models.DateTimeField(_("began"), auto_now_add=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    counts = models.JSONField(_("rows by table"), default=dict, blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner_number",), name="erasure_once"),)
        ordering = ("-began_at", "-id")
        verbose_name = _("erasure")
        verbose_name_plural = _("erasures")

    def __str__(self) -> str:
        return f"{self.pk}"

    @property
    def rows(self) -> int:
        """How many rows went by now."""
        return sum(int(count) for table, count in self.counts.items() if table != "files")

    @property
    def tables(self) -> list[tuple[str, int]]:
        """What ``counts`` holds, by name."""
        return sorted(self.counts.items())
