"""What is watched, how often it is expected to succeed, and the alarms of what did not; and what is told by mail."""

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import Row


class Mailed(Row):
    """What people are told by mail. The mail waits until ``mail_at``; ``mail_tries`` counts the attempts."""

    class Mail(models.TextChoices):
        NONE = "none", pgettext_lazy("mail", "none")
        WAITING = "waiting", pgettext_lazy("mail", "waits")
        SENT = "sent", pgettext_lazy("mail", "sent")
        FAILED = "failed", pgettext_lazy("mail", "not sent")

    mail = models.CharField(_("mail"), max_length=8, choices=Mail, default=Mail.NONE)
    mail_at = models.DateTimeField(_("mail is due"), null=True, blank=True)
    mail_tries = models.PositiveSmallIntegerField(_("attempts"), default=0)

    class Meta:
        abstract = True


class Rhythm(Row):
    """How often one thing succeeds: the ``watch`` and, where it looks at several, the ``subject``.

    ``period`` was set by hand, in seconds; without it the longest pause of late, ``usual``, says what is expected. It
    last succeeded at ``good_at`` and has been due since ``due_since``, as far as somebody looked, last at
    ``looked_at``. ``depth`` is how much waited then.
    """

    watch = models.CharField(_("watch"), max_length=20)
    subject = models.CharField(_("subject"), max_length=40, blank=True)
    period = models.PositiveIntegerField(_("expected within, s"), null=True, blank=True)
    usual = models.FloatField(_("longest pause of late, s"), null=True, blank=True)
    depth = models.PositiveIntegerField(_("waiting"), default=0)
    good_at = models.DateTimeField(_("last success"), null=True, blank=True)
    due_since = models.DateTimeField(_("due since"), null=True, blank=True)
    looked_at = models.DateTimeField(_("looked at"), null=True, blank=True)
    silent_until = models.DateTimeField(_("silent until"), null=True, blank=True)
    shown = "{0.watch} {0.subject}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("watch", "subject"), name="rhythm_once"),)
        verbose_name = _("rhythm")
        verbose_name_plural = _("rhythms")


class Alarm(Mailed):
    """A trouble from its beginning to its end. People were told of it at ``told_at``, which is null while it is silent.
    It has been calm since ``calm_since``: what comes and goes has to be calm for longer each time before it is over."""

    rhythm = models.ForeignKey(Rhythm, models.CASCADE, related_name="alarms", verbose_name=_("rhythm"))
    raised_at = models.DateTimeField(_("began"))
    told_at = models.DateTimeField(_("told"), null=True, blank=True)
    calm_since = models.DateTimeField(_("calm since"), null=True, blank=True)
    healed_at = models.DateTimeField(_("healed"), null=True, blank=True)
    shown = "{0.rhythm} {0.raised_at:%Y-%m-%d %H:%M}"

    class Meta:
        ordering = ("-raised_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("rhythm",), condition=models.Q(healed_at__isnull=True), name="alarm_open_once"
            ),
        )
        indexes = (
            models.Index(fields=("-raised_at", "-id"), name="alarm_log"),
            models.Index(fields=("mail_at",), condition=models.Q(mail="waiting"), name="alarm_mail"),
        )
        verbose_name = _("alarm")
        verbose_name_plural = _("alarms")
