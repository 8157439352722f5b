"""Evaluations: labelled questions run through a strategy, each keeping its run."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Evaluation(models.Model):
    """One pass over a file of questions; ``report`` is the document the command prints."""

    source = models.CharField(_("questions"), max_length=300)
    strategy = models.CharField(_("strategy"), max_length=16)
    parameters = models.JSONField(_("parameters"), default=dict, blank=True)
    started_at = models.DateTimeField(_("at"), auto_now_add=True)
    report = models.JSONField(_("report"), default=dict, blank=True)

    class Meta:
        ordering = ("-started_at", "-id")
        verbose_name = _("evaluation")
        verbose_name_plural = _("evaluations")

    def __str__(self) -> str:
        return f"{self.source} ({self.strategy})"
