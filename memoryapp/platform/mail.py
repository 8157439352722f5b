"""Mail to people: who gets it, and sending what waits in rows of ``Mailed``, again after a failure. Each row says
itself what waits; a process takes it for the time of a lease, so a killed one loses nothing."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.models.alarm import Mailed
from memoryapp.platform.database import is_outage

MOST_RECIPIENTS = 10
# After each attempt that failed, how long the next one waits.
_WAITS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6))
# For the process that sends it; another one may, if this one was killed.
_LEASE = timedelta(minutes=5)

Told = TypeVar("Told", bound=Mailed)
logger = logging.getLogger(__name__)


class MailError(ValueError):
    """Addresses to which no mail can be sent; the text is a sentence for people."""


def has_mail() -> bool:
    """Whether this installation can send mail."""
    return bool(settings.EMAIL_URL)


def recipients_of(typed: str) -> list[str]:
    """Mail addresses, one a line or separated by commas. Raises MailError."""
    found = list(dict.fromkeys(part.strip() for part in typed.replace(",", "\n").splitlines() if part.strip()))
    if len(found) > MOST_RECIPIENTS:
        raise MailError(_("At most %(most)d people get mail.") % {"most": MOST_RECIPIENTS})
    for each in found:
        try:
            validate_email(each)
        except ValidationError:
            raise MailError(_("“%(address)s” is no mail address.") % {"address": each[:60]}) from None
    return found


def message(to: Sequence[str], subject: str, text: str) -> EmailMessage:
    return EmailMessage(" ".join(subject.split()), text, to=list(to))


def wait_in(row: Mailed, to: str) -> None:
    """Lets mail about the row wait, if anybody gets it and it can be sent; the caller saves the row."""
    if to and has_mail():
        row.mail, row.mail_at, row.mail_tries = Mailed.Mail.WAITING, timezone.now(), 0


def send_due(rows: QuerySet[Told], message_of: Callable[[Told], EmailMessage]) -> None:
    """Sends the mail that waits. One that cannot be sent is tried again within hours, then given up."""
    due = rows.filter(mail=Mailed.Mail.WAITING, mail_at__lte=timezone.now()).order_by("pk")
    for number in list(due.values_list("pk", flat=True)):
        with transaction.atomic():
            row = due.select_for_update(skip_locked=True, of=("self",)).filter(pk=number).first()
            if row is None:
                continue
            row.mail_at, row.mail_tries = timezone.now() + _LEASE, row.mail_tries + 1
            row.save(update_fields=["mail_at", "mail_tries"])
        # What began to wait meanwhile is news of its own.
        taken = rows.filter(pk=row.pk, mail_at=row.mail_at)
        try:
            message_of(row).send()
        except Exception as error:
            if is_outage(error):
                raise
            logger.warning(
                "The mail about %s %s was not sent: %s", row._meta.verbose_name, row.pk, type(error).__name__
            )
            if row.mail_tries > len(_WAITS):
                taken.update(mail=Mailed.Mail.FAILED)
            else:
                taken.update(mail_at=timezone.now() + _WAITS[row.mail_tries - 1])
        else:
            taken.update(mail=Mailed.Mail.SENT)
