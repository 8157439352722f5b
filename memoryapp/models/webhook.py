"""Webhooks: receivers of what happens here, and every message to one of them with its attempts."""

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Value
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import ChatUser, Row


class Webhook(Row):
    """A receiver at ``address`` of messages of these ``kinds``. A paused one collects them; one that is off gets none.

    The secret is derived from the installation's key and ``nonce`` and stored nowhere; ``check`` is a digest of it, by
    which a changed key is noticed. Until ``former_until`` messages are also signed with the secret of ``former_nonce``.
    After ``failures`` in a row, since ``failing_since``, nothing is sent before ``rests_until``. ``off_reason`` is a
    code.
    """

    class State(models.TextChoices):
        ON = "on", pgettext_lazy("webhook", "on")
        PAUSED = "paused", pgettext_lazy("webhook", "paused")
        OFF = "off", pgettext_lazy("webhook", "off")

    name = models.CharField(_("name"), max_length=100)
    address = models.CharField(_("address"), max_length=2_000)
    kinds = models.JSONField(_("events"), default=list)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.ON, db_default="on")
    off_reason = models.CharField(_("why it is off"), max_length=16, blank=True, db_default="")
    nonce = models.CharField(max_length=64, unique=True, editable=False)
    check_digest = models.CharField(max_length=64, editable=False)
    former_nonce = models.CharField(max_length=64, blank=True, db_default="", editable=False)
    former_until = models.DateTimeField(null=True, blank=True, editable=False)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0, db_default=0)
    failing_since = models.DateTimeField(_("failing since"), null=True, blank=True)
    rests_until = models.DateTimeField(_("rests until"), null=True, blank=True)
    made_by = models.CharField(_("by"), max_length=150)
    made_at = models.DateTimeField(_("made"), auto_now_add=True)
    shown = "{0.name}"

    class Meta:
        ordering = ("name", "pk")
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")


class WebhookDelivery(Row):
    """One message to one webhook; ``kind`` and ``subject`` say what happened, ``body`` is what is sent.

    The body is made at the first attempt and stays the same, as does ``message``, its id at the receiver. It waits
    until ``next_at``; while a process sends it, that is when another one may. ``tries`` are the attempts
    (``at, status, fault, seconds``), the last of them also in columns, with the first characters of the ``response``.
    A message about a chat user goes with them.
    """

    class State(models.TextChoices):
        WAITING = "waiting", pgettext_lazy("delivery", "waiting")
        DELIVERED = "delivered", pgettext_lazy("delivery", "delivered")
        FAILED = "failed", pgettext_lazy("delivery", "failed")

    webhook = models.ForeignKey(Webhook, models.CASCADE, db_index=False, verbose_name=_("webhook"))
    owner = models.ForeignKey(
        ChatUser, models.CASCADE, null=True, blank=True, db_index=False, verbose_name=_("chat user")
    )
    kind = models.CharField(_("event"), max_length=32)
    subject = models.CharField(_("about"), max_length=64, blank=True, db_default="")
    message = models.UUIDField(_("message"), db_default=RandomUUID(), editable=False)
    at = models.DateTimeField(_("at"), db_default=Now())
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.WAITING, db_default="waiting")
    next_at = models.DateTimeField(_("next attempt"), db_default=Now())
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0, db_default=0)
    tries = models.JSONField(_("attempts"), default=list, blank=True, db_default=Value([], models.JSONField()))
    body = models.TextField(_("body"), blank=True, db_default="")
    status = models.PositiveSmallIntegerField(_("status"), null=True, blank=True)
    fault = models.CharField(_("fault"), max_length=16, blank=True, db_default="")
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    response = models.TextField(_("response"), blank=True, db_default="")
    last_at = models.DateTimeField(_("last attempt"), null=True, blank=True)
    shown = "{0.kind} {0.subject}"

    class Meta:
        constraints = (
            # What waits for a person is announced once, however much of it comes until then.
            models.UniqueConstraint(
                fields=("webhook", "owner"),
                condition=models.Q(kind="inbox.waiting", state="waiting", attempts=0),
                name="webhookdelivery_once",
            ),
        )
        indexes = (
            models.Index(
                fields=("webhook", "next_at"), condition=models.Q(state="waiting"), name="webhookdelivery_due"
            ),
            models.Index(fields=("webhook", "-at", "-id"), name="webhookdelivery_log"),
            models.Index(fields=("at",), name="webhookdelivery_at"),
            models.Index(fields=("owner",), condition=models.Q(owner__isnull=False), name="webhookdelivery_owner"),
        )
        ordering = ("-at", "-id")
        verbose_name = _("message of a webhook")
        verbose_name_plural = _("messages of webhooks")

    @property
    def message_id(self) -> str:
        """The id that the receiver sees."""
        return f"msg_{self.message.hex}"
