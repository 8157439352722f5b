"""Measures of the quality of runs: labelled questions through strategies, and what people think of runs."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Value
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import Owned


class Evaluation(models.Model):
    """One strategy's pass over a file of questions; ``report`` is the document that the command prints.

    Strategies that ran the same questions side by side are compared with the first of them, their ``reference``. One
    that a page started says ``asked_by`` whom, and the first of its strategies has the state of all, the numbers of its
    golden ``questions``, and how many of them are ``done``. The command's are finished or broken off.
    """

    class State(models.TextChoices):
        PENDING = "pending", _("waiting")
        RUNNING = "running", _("running")
        STOPPED = "stopped", _("stopped")
        FINISHED = "finished", _("finished")

    source = models.CharField(_("questions"), max_length=300)
    strategy = models.CharField(_("strategy"), max_length=16)
    parameters = models.JSONField(_("parameters"), default=dict, blank=True)
    started_at = models.DateTimeField(_("at"), auto_now_add=True)
    report = models.JSONField(_("report"), default=dict, blank=True)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.FINISHED, db_default="finished")
    asked_by = models.CharField(_("asked by"), max_length=150, blank=True, db_default="")
    questions = models.JSONField(
        _("golden questions"), default=list, blank=True, db_default=Value([], models.JSONField())
    )
    done = models.PositiveIntegerField(_("done"), default=0, db_default=0)
    reference = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="beside", verbose_name=_("compared with")
    )

    class Meta:
        ordering = ("-started_at", "-id")
        indexes = (
            models.Index(fields=("id",), condition=models.Q(state__in=("pending", "running")), name="evaluation_open"),
        )
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


class Grade(Owned):
    """How well a message answers the query of a run, as an operator sees it: 0 not, 1 partly, 2 well.

    It counts for every run of the same query. A message stays what it is whatever becomes of its topic.
    """

    run = models.ForeignKey("memoryapp.Run", models.CASCADE, related_name="grades", verbose_name=_("run"))
    message = models.ForeignKey("memoryapp.Message", models.CASCADE, verbose_name=_("message"))
    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("judged by")
    )
    value = models.PositiveSmallIntegerField(_("grade"))
    at = models.DateTimeField(_("at"), auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("run", "message", "operator"), name="grade_once"),
            models.CheckConstraint(condition=models.Q(value__lte=2), name="grade_of_three"),
        )
        indexes = (models.Index(fields=("owner", "-at"), name="grade_owner"),)
        verbose_name = _("grade")
        verbose_name_plural = _("grades")

    def __str__(self) -> str:
        return f"{self.run_id} {self.message_id} {self.value}"


class GoldenQuestion(Owned):
    """A question in a named ``collection``, with the numbers of the messages that answer it; none where none does."""

    collection = models.CharField(pgettext_lazy("golden questions", "set"), max_length=80)
    question = models.TextField(_("question"))
    category = models.CharField(_("category"), max_length=60, blank=True)
    evidence = models.JSONField(_("evidence"), default=list, blank=True)
    made_by = models.CharField(_("by"), max_length=150)
    at = models.DateTimeField(_("at"), auto_now=True)

    class Meta:
        ordering = ("collection", "pk")
        indexes = (models.Index(fields=("owner", "collection"), name="goldenquestion_owner"),)
        verbose_name = _("golden question")
        verbose_name_plural = _("golden questions")

    def __str__(self) -> str:
        return f"{self.collection}: {self.question[:60]}"
