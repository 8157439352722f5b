"""What expires: rules, the batches of rows that they set aside, and the rows, by number."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.erasure import Erasure
from memoryapp.models.topic import TopicEdit
from memoryapp.models.user import ChatUser, Owned, Row, between


class ExpiryRule(Row):
    """Rows of a ``noun`` expire that are older than ``days`` and fit the ``condition``, of one ``kind`` or, where it is
    empty, of any; without an ``owner`` in all memories. A rule never changes: it is switched off, and another made."""

    class Noun(models.TextChoices):
        MESSAGE = "message", _("messages")
        FACT = "fact", _("facts")
        RUN = "run", _("runs")
        TRACE = "trace", _("traces of other programs")
        MEDIA = "media", _("media")

    class Condition(models.TextChoices):
        AGE = "age", _("all of that age")
        UNRECALLED = "unrecalled", _("those never recalled")
        STALE = "stale", _("those neither recalled nor changed in that time")

    owner = models.ForeignKey(ChatUser, models.CASCADE, null=True, blank=True, verbose_name=_("chat user"))
    noun = models.CharField(_("what"), max_length=8, choices=Noun, default=Noun.MESSAGE)
    kind = models.CharField(
        pgettext_lazy("noun", "kind"),
        max_length=120,
        blank=True,
        help_text=_("A role or author, a category, a strategy or outcome, a media type; empty for any."),
    )
    days = models.PositiveIntegerField(_("older than, days"), default=365, validators=between(1, 36_500))
    condition = models.CharField(_("of these"), max_length=12, choices=Condition, default=Condition.AGE)
    grace_days = models.PositiveIntegerField(
        _("set aside for, days"),
        default=14,
        validators=between(1, 365),
        help_text=_("So long everything can be brought back; then it is erased for good."),
    )
    is_on = models.BooleanField(pgettext_lazy("rule", "on"), default=True)
    made_by = models.CharField(_("by"), max_length=150)
    made_at = models.DateTimeField(_("made"), auto_now_add=True)
    checked_at = models.DateTimeField(_("applied"), null=True, blank=True)
    shown = "{0.noun} {0.days} {0.condition} {0.kind}"
    _KNOWN: ClassVar = {"unrecalled": (Noun.MESSAGE, Noun.FACT), "stale": (Noun.FACT,)}

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("rule of expiry")
        verbose_name_plural = _("rules of expiry")

    @property
    def of_all(self) -> bool:
        return self.owner_id is None

    def clean(self) -> None:
        if self.noun not in self._KNOWN.get(self.condition, (self.noun,)):
            sentence = _("Only messages and facts are recalled, and only of facts changes are known.")
            raise ValidationError({"condition": sentence})


class ExpiryBatch(Owned):
    """Rows of one memory, ``count`` at first, that a rule set aside together, and that go at ``due_at`` unless a person
    keeps them. ``edit`` withdrew messages; ``receipt`` is that of the erasure."""

    class State(models.TextChoices):
        ASIDE = "aside", pgettext_lazy("expiry", "set aside")
        KEPT = "kept", pgettext_lazy("expiry", "kept")
        GONE = "gone", pgettext_lazy("expiry", "gone")

    rule = models.ForeignKey(ExpiryRule, models.CASCADE, verbose_name=_("rule"))
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.ASIDE)
    count = models.PositiveIntegerField(_("rows"))
    at = models.DateTimeField(pgettext_lazy("expiry", "set aside"), auto_now_add=True)
    due_at = models.DateTimeField(_("goes at"))
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    ended_by = models.CharField(_("by"), max_length=200, blank=True)
    edit = models.ForeignKey(TopicEdit, models.SET_NULL, null=True, blank=True, verbose_name=_("edit of topics"))
    receipt = models.ForeignKey(Erasure, models.SET_NULL, null=True, blank=True, verbose_name=_("receipt"))
    shown = "{0.rule_id} {0.state} {0.count}"

    class Meta:
        ordering = ("-pk",)
        indexes = (
            models.Index(fields=("owner", "-id"), name="expirybatch_owner"),
            models.Index(fields=("due_at",), condition=models.Q(state="aside"), name="expirybatch_due"),
        )
        verbose_name = _("batch that expires")
        verbose_name_plural = _("batches that expire")


class ExpiringRow(Owned):
    """The ``number`` of a row that was set aside, and goes with it; ``former`` is how the fact was recalled. What
    somebody keeps (``kept_by``) the rule never takes again."""

    batch = models.ForeignKey(ExpiryBatch, models.CASCADE, db_index=False, related_name="rows", verbose_name=_("batch"))
    number = models.CharField(_("number"), max_length=36)
    former = models.CharField(_("recalled before"), max_length=6, blank=True)
    kept_by = models.CharField(_("kept by"), max_length=200, blank=True)
    shown = "{0.batch_id} ∋ {0.number}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("batch", "number"), name="expiringrow_once"),)
        indexes = (models.Index(fields=("owner", "number"), name="expiringrow_number"),)
        verbose_name = _("row that expires")
        verbose_name_plural = _("rows that expire")
