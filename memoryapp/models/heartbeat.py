"""Heartbeats: when worker and beat were last alive."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Heartbeat(models.Model):
    """One row for each kind of process, however many there are; ``at`` is read from the database's clock."""

    process = models.CharField(_("process"), max_length=16, primary_key=True)
    at = models.DateTimeField(_("last sign of life"))

    class Meta:
        verbose_name = _("sign of life")
        verbose_name_plural = _("signs of life")

    def __str__(self) -> str:
        return f"{self.process} {self.at:%Y-%m-%d %H:%M:%S}"
