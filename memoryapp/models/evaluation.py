"""Measures of the quality of runs: labelled questions through strategies, and what people think of runs."""

from django.conf import settings
from django.db import models
from django.db.models import Value
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.alarm import Mailed
from memoryapp.models.user import Owned, Row


class Evaluation(Row):
    """One strategy's pass over a file of questions; ``report`` is the document that the command prints;
    after a fault it is the sentence ``fault``.

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
    shown = "{0.source} ({0.strategy})"

    class Meta:
        ordering = ("-started_at", "-id")
        indexes = (
            models.Index(fields=("id",), condition=models.Q(state__in=("pending", "running")), name="evaluation_open"),
        )
        verbose_name = _("evaluation")
        verbose_name_plural = _("evaluations")


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
    """How well a message answers the query of a run, as an operator sees it: 0 not, 1 partly, 2 well. It counts for
    every run of the same query. A message stays what it is whatever becomes of its topic."""

    run = models.ForeignKey("memoryapp.Run", models.CASCADE, related_name="grades", verbose_name=_("run"))
    message = models.ForeignKey("memoryapp.Message", models.CASCADE, verbose_name=_("message"))
    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("judged by")
    )
    value = models.PositiveSmallIntegerField(_("grade"))
    at = models.DateTimeField(_("at"), auto_now_add=True)
    shown = "{0.run_id} {0.message_id} {0.value}"

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("run", "message", "operator"), name="grade_once"),
            models.CheckConstraint(condition=models.Q(value__lte=2), name="grade_of_three"),
        )
        indexes = (models.Index(fields=("owner", "-at"), name="grade_owner"),)
        verbose_name = _("grade")
        verbose_name_plural = _("grades")


class GoldenQuestion(Owned):
    """A question in a named ``collection``, with the numbers of the messages that answer it; none where none does."""

    in_cell = False
    collection = models.CharField(pgettext_lazy("golden questions", "set"), max_length=80)
    question = models.TextField(_("question"))
    category = models.CharField(_("category"), max_length=60, blank=True)
    evidence = models.JSONField(_("evidence"), default=list, blank=True)
    made_by = models.CharField(_("by"), max_length=150)
    at = models.DateTimeField(_("at"), auto_now=True)
    shown = "{0.collection}: {0.question:.60}"

    class Meta:
        ordering = ("collection", "pk")
        indexes = (models.Index(fields=("owner", "collection"), name="goldenquestion_owner"),)
        verbose_name = _("golden question")
        verbose_name_plural = _("golden questions")


class NightlyRun(Row):
    """A golden set that is asked each night at ``hour`` of ``zone`` by one strategy, ``most`` of its questions at most.

    A night is compared with the ``baseline``, or without one with the last night that did not drop. When it drops,
    ``recipients`` get mail, an address a line.
    """

    collection = models.CharField(pgettext_lazy("golden questions", "set"), max_length=80)
    strategy = models.CharField(_("strategy"), max_length=16)
    most = models.PositiveIntegerField(_("questions at most"))
    hour = models.PositiveSmallIntegerField(_("hour"))
    zone = models.CharField(_("time zone"), max_length=64)
    is_on = models.BooleanField(_("asked each night"), default=True)
    next_at = models.DateTimeField(_("next night"))
    baseline = models.ForeignKey(
        Evaluation, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("baseline")
    )
    recipients = models.TextField(_("mail to"), blank=True, db_default="")
    made_by = models.CharField(_("by"), max_length=150)
    made_at = models.DateTimeField(_("made"), auto_now_add=True)
    shown = "{0.collection} ({0.strategy})"

    class Meta:
        ordering = ("collection", "pk")
        indexes = (models.Index(fields=("next_at",), condition=models.Q(is_on=True), name="nightlyrun_due"),)
        verbose_name = _("nightly run")
        verbose_name_plural = _("nightly runs")


class GoldenNight(Mailed):
    """One night of a golden set: its evaluation, what it was compared ``against``, and what came of it.

    ``regressions`` are the figures that got worse (``figure, mean, low, high, n``). A night that could not be asked has
    a ``reason``, a code, and ``failed`` questions. ``is_alarm`` marks those of which people were told.
    """

    class State(models.TextChoices):
        RUNNING = "running", pgettext_lazy("night", "running")
        PASSED = "passed", pgettext_lazy("night", "as good as before")
        DROPPED = "dropped", pgettext_lazy("night", "dropped")
        FAILED = "failed", pgettext_lazy("night", "could not be asked")

    nightly = models.ForeignKey(NightlyRun, models.CASCADE, related_name="nights", verbose_name=_("nightly run"))
    at = models.DateTimeField(_("at"), auto_now_add=True)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.RUNNING)
    model = models.CharField(_("model"), max_length=200, blank=True)
    evaluation = models.ForeignKey(
        Evaluation, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("evaluation")
    )
    against = models.ForeignKey(
        Evaluation, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("compared with")
    )
    regressions = models.JSONField(_("what got worse"), default=list, blank=True)
    reason = models.CharField(_("reason"), max_length=16, blank=True)
    failed = models.PositiveIntegerField(_("questions that failed"), default=0)
    is_alarm = models.BooleanField(_("alarm"), default=False)
    shown = "{0.at:%Y-%m-%d} {0.state}"

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("nightly", "-at", "-id"), name="night_log"),
            models.Index(
                fields=("id",), condition=models.Q(state="running") | models.Q(mail="waiting"), name="night_open"
            ),
        )
        verbose_name = _("night")
        verbose_name_plural = _("nights")


class GoldenAlarm(Owned):
    """A night that dropped, in the inbox of a memory whose questions it asked, until a person has seen it."""

    in_cell = False
    night = models.ForeignKey(GoldenNight, models.CASCADE, related_name="alarms", verbose_name=_("night"))
    at = models.DateTimeField(_("at"), auto_now_add=True)
    shown = "{0.night_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "night"), name="goldenalarm_once"),)
        verbose_name = _("alarm of a golden set")
        verbose_name_plural = _("alarms of golden sets")
