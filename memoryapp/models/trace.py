"""Traces of other programs: which run each of them is, and the spans of which it is made."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from memoryapp.models.run import Run
from memoryapp.models.user import Owned


class Trace(Owned):
    """A trace that a program sent: one run for each chat user. ``number`` is its id, 128 bits.

    ``has_root`` says that the span that encloses all others has ended.
    """

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, verbose_name=_("run"))
    number = models.UUIDField(_("trace id"))
    has_root = models.BooleanField(_("has ended"), default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "number"), name="trace_once"),)
        verbose_name = _("trace")
        verbose_name_plural = _("traces")

    def __str__(self) -> str:
        return self.number.hex


class TraceSpan(Owned):
    """A span as it was sent. It is kept while others of its trace may still come, then the run's events suffice.

    ``span`` is its id, 16 hexadecimal digits. Nothing else refers to a span.
    """

    trace = models.ForeignKey(Trace, models.CASCADE, db_index=False, related_name="spans", verbose_name=_("trace"))
    span = models.CharField(_("span"), max_length=16)
    body = models.JSONField(_("body"))

    class Meta:
        constraints = (models.UniqueConstraint(fields=("trace", "span"), name="tracespan_once"),)
        verbose_name = _("span of a trace")
        verbose_name_plural = _("spans of traces")

    def __str__(self) -> str:
        return self.span
