"""The alarm of a night that dropped: in inboxes, to webhooks, by mail; once for a drop, and again if it gets worse."""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from memoryapp.models import GoldenAlarm, GoldenNight, GoldenQuestion, NightlyRun, Webhook
from memoryapp.operations.outages import is_outage
from memoryapp.outgoing.webhooks import receivers
from memoryapp.outgoing.webhooks.announcing import GOLDEN_DROPPED, announce
from memoryapp.outgoing.webhooks.bodies import address_of

# A figure that fell further by so much since the last alarm is news.
FURTHER = 0.05
# After each attempt that failed, how long the next one waits.
_WAITS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6))
# For the process that sends it; another one may, if this one was killed.
_LEASE = timedelta(minutes=5)

logger = logging.getLogger(__name__)


def has_mail() -> bool:
    """Whether this installation can send mail."""
    return bool(settings.EMAIL_URL)


def is_news(night: GoldenNight) -> bool:
    """Whether people were not told of this drop yet: since the last good night there was no alarm, or another figure
    has fallen, or one has fallen further."""
    earlier = GoldenNight.objects.filter(nightly=night.nightly_id, pk__lt=night.pk).order_by("-pk")
    last = earlier.filter(is_alarm=True).first()
    if last is None or last.against_id != night.against_id:
        return True
    if earlier.filter(state=GoldenNight.State.PASSED, pk__gt=last.pk).exists():
        return True
    before = {each["figure"]: abs(each["mean"]) for each in last.regressions}
    return any(abs(each["mean"]) > before.get(each["figure"], -FURTHER) + FURTHER for each in night.regressions)


def raise_alarm(night: GoldenNight) -> None:
    """Fills the night's columns, and writes what tells people of it; call it in the transaction that stores it."""
    night.is_alarm = True
    if night.nightly.recipients and has_mail():
        night.mail, night.mail_at = GoldenNight.Mail.WAITING, timezone.now()
    numbers = night.evaluation.questions if night.evaluation else []
    owners = GoldenQuestion.objects.filter(pk__in=numbers).order_by("owner").values_list("owner", flat=True).distinct()
    GoldenAlarm.objects.bulk_create(
        [GoldenAlarm(owner_id=owner, night=night) for owner in owners], ignore_conflicts=True
    )
    announce(GOLDEN_DROPPED, subject=str(night.pk))


def send_mail_due() -> None:
    """Sends the mail that waits. One that cannot be sent is tried again within hours, then given up."""
    due = GoldenNight.objects.filter(mail=GoldenNight.Mail.WAITING, mail_at__lte=timezone.now()).order_by("pk")
    for number in list(due.values_list("pk", flat=True)):
        with transaction.atomic():
            night = due.select_for_update(skip_locked=True).filter(pk=number).first()
            if night is None:
                continue
            night.mail_at, night.mail_tries = timezone.now() + _LEASE, night.mail_tries + 1
            night.save(update_fields=["mail_at", "mail_tries"])
        _mail(night)


def _mail(night: GoldenNight) -> None:
    sent = GoldenNight.objects.filter(pk=night.pk)
    try:
        _message(night.nightly.recipients.split("\n"), *words_of(night)).send()
    except Exception as error:
        if is_outage(error):
            raise
        logger.warning("The mail about night %s was not sent: %s", night.pk, type(error).__name__)
        if night.mail_tries > len(_WAITS):
            sent.update(mail=GoldenNight.Mail.FAILED)
        else:
            sent.update(mail_at=timezone.now() + _WAITS[night.mail_tries - 1])
    else:
        sent.update(mail=GoldenNight.Mail.SENT)


def words_of(night: GoldenNight) -> tuple[str, str]:
    """The subject and the text of the mail, in the language of the installation."""
    with translation.override(settings.LANGUAGE_CODE):
        nightly = night.nightly
        subject = _("Golden set “%(set)s” dropped: %(figures)s") % {
            "set": nightly.collection,
            "figures": ", ".join(f"{each['figure']} {each['mean']:+.3f}" for each in night.regressions),
        }
        lines = [
            _("The golden questions of “%(set)s” were answered worse by %(strategy)s than before.")
            % {"set": nightly.collection, "strategy": nightly.strategy},
            "",
            *(_line(each) for each in night.regressions),
            "",
            address_of("nightly", nightly.pk),
        ]
    return subject[:200], "\n".join(lines)


def _line(each: Mapping[str, Any]) -> str:
    form = "%(figure)-22s %(mean)+.3f   [%(low)+.3f … %(high)+.3f]   n = %(n)d"
    return form % each


def try_alarm(nightly: NightlyRun) -> Sequence[str]:
    """Sends a test by every way an alarm takes; returns what was done and what failed, a sentence each."""
    hooks = [hook for hook in Webhook.objects.all()[: receivers.MOST_WEBHOOKS] if GOLDEN_DROPPED in hook.kinds]
    for hook in hooks:
        receivers.test(hook)
    done = [_("A test message goes to the webhook “%(name)s”.") % {"name": hook.name} for hook in hooks]
    if not hooks:
        done.append(_("No webhook is for dropped golden runs."))
    return [*done, _tried_mail(nightly)]


def _tried_mail(nightly: NightlyRun) -> str:
    if not nightly.recipients:
        return _("Nobody gets mail: no address is given.")
    if not has_mail():
        return _("No mail can be sent: EMAIL_URL is not set.")
    addresses = nightly.recipients.split("\n")
    text = _("A test of the alarm for the golden set “%(set)s”.") % {"set": nightly.collection}
    try:
        _message(addresses, text, address_of("nightly", nightly.pk)).send()
    except (OSError, smtplib.SMTPException) as error:
        return _("The mail server refused: %(error)s") % {"error": str(error)[:300] or type(error).__name__}
    return _("Mail was sent to %(addresses)s.") % {"addresses": ", ".join(addresses)}


def _message(to: Sequence[str], subject: str, text: str) -> EmailMessage:
    return EmailMessage(" ".join(subject.split()), text, to=list(to))
