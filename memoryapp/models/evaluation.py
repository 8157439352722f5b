"""Measures of the quality of runs: labelled questions run through a strategy, and people's judgements of answers."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import Owned


class Evaluation(models.Model):
    """One strategy's pass over a file of questions; ``report`` is the document that the command prints.

    Strategies that ran the same questions side by side are compared with the first of them, their ``reference``.
    """

    source = models.CharField(_("questions"), max_length=300)
    strategy = models.CharField(_("strategy"), max_length=16)
    parameters = models.JSONField(_("parameters"), default=dict, blank=True)
    started_at = models.DateTimeField(_("at"), auto_now_add=True)
    report = models.JSONField(_("report"), default=dict, blank=True)
    reference = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="beside", verbose_name=_("compared with")
    )

    class Meta:
        ordering = ("-started_at", "-id")
        verbose_name = _("evaluation")
        verbose_name_plural = _("evaluations")

    def __str__(self) -> str:
        return f"{self.source} ({self.strategy})"


class Judgement(Owned):
    """What one operator thinks of the answer of a run; the last judgement counts."""

    run = models.ForeignKey("memoryapp.Run", models.CASCADE, related_name="judgements", verbose_name=_("run"))
    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("judged by")
    )
    is_good = models.BooleanField(pgettext_lazy("answer", "good"))
    at = models.DateTimeField(_("at"), auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run", "operator"), name="judgement_once"),)
        ordering = ("-at", "-id")
        verbose_name = _("judgement")
        verbose_name_plural = _("judgements")

    def __str__(self) -> str:
        return f"{self.run_id} {'+' if self.is_good else '−'}"
