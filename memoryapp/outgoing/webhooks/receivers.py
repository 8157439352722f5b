"""Webhooks as admins make, change and remove them. Who did what is recorded in the log of Django's administration."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS, IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.models import Webhook, WebhookDelivery
from memoryapp.outgoing.webhooks import signing
from memoryapp.outgoing.webhooks.announcing import KINDS, TEST

MOST_WEBHOOKS = 50
# How long messages are signed with the former secret too, for the receiver to take over the new one.
OVERLAP = timedelta(days=1)
_ADDED = '[{"added": {}}]'


class WebhookError(ValueError):
    """A webhook that cannot be; the text is a sentence for people."""


class WebhookMadeAlready(Exception):
    """The same form made this webhook before; its secret was shown then."""


@transaction.atomic
def make(name: str, address: str, kinds: Iterable[str], *, nonce: str, by: User) -> tuple[Webhook, str]:
    """Returns the webhook and its secret, which is shown nowhere else. ``nonce`` comes from ``signing.new_nonce``, once
    for each form. Raises WebhookMadeAlready, WebhookError."""
    if Webhook.objects.count() >= MOST_WEBHOOKS:
        raise WebhookError(_("There are %(most)d webhooks already; remove one first.") % {"most": MOST_WEBHOOKS})
    row = Webhook(name=name, address=address, kinds=_known(kinds), nonce=nonce, made_by=by.get_username())
    row.check_digest = signing.check_digest(nonce)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise WebhookMadeAlready from error
    _log(by, row, ADDITION, _ADDED)
    return row, signing.secret_of(nonce)


def change(webhook: Webhook, name: str, address: str, kinds: Iterable[str], *, by: User) -> None:
    """Another name, address or other kinds; what waits goes to the new address."""
    is_elsewhere = address != webhook.address
    webhook.name, webhook.address, webhook.kinds = name, address, _known(kinds)
    webhook.save(update_fields=["name", "address", "kinds"])
    if is_elsewhere:
        _rested(webhook)
    _log(by, webhook, CHANGE, '[{"changed": {"fields": ["address"]}}]')


def pause(webhook: Webhook, *, by: User) -> None:
    """Sends nothing until ``resume``; what happens meanwhile is collected."""
    Webhook.objects.filter(pk=webhook.pk, state=Webhook.State.ON).update(state=Webhook.State.PAUSED)
    _log(by, webhook, CHANGE, '[{"changed": {"fields": ["paused"]}}]')


def resume(webhook: Webhook, *, by: User) -> None:
    """Sends again what waits. Raises WebhookError while its secret is lost."""
    if not signing.is_known(webhook):
        raise WebhookError(
            _("The key of this installation is another one now. Make a new secret first, and give it to the receiver.")
        )
    Webhook.objects.filter(pk=webhook.pk).update(state=Webhook.State.ON, off_reason="")
    _rested(webhook)
    _log(by, webhook, CHANGE, '[{"changed": {"fields": ["resumed"]}}]')


def rotate(webhook: Webhook, *, nonce: str, by: User) -> str:
    """Returns a new secret; for a day messages are signed with both. The same ``nonce`` again raises
    WebhookMadeAlready."""
    known = signing.is_known(webhook)
    if nonce in (webhook.nonce, webhook.former_nonce):
        raise WebhookMadeAlready
    try:
        with transaction.atomic():
            Webhook.objects.filter(pk=webhook.pk).update(
                nonce=nonce,
                check_digest=signing.check_digest(nonce),
                former_nonce=webhook.nonce if known else "",
                former_until=timezone.now() + OVERLAP if known else None,
            )
    except IntegrityError as error:
        raise WebhookMadeAlready from error
    _log(by, webhook, CHANGE, '[{"changed": {"fields": ["secret"]}}]')
    return signing.secret_of(nonce)


@transaction.atomic
def remove(webhook: Webhook, *, by: User) -> None:
    """Removes it with its messages."""
    _log(by, webhook, DELETION, '[{"deleted": {}}]')
    # The database deletes the messages, so Django need not fetch them.
    Webhook.objects.filter(pk=webhook.pk)._raw_delete(DEFAULT_DB_ALIAS)


def test(webhook: Webhook) -> WebhookDelivery:
    """Puts a message for trying into the queue, which the worker sends within seconds, if the webhook is on."""
    _rested(webhook)
    return WebhookDelivery.objects.create(webhook=webhook, kind=TEST)


def _rested(webhook: Webhook) -> None:
    """A person wants to know at once whether it works."""
    Webhook.objects.filter(pk=webhook.pk).update(rests_until=None)


def _known(kinds: Iterable[str]) -> list[str]:
    """Raises WebhookError without any."""
    wanted = set(kinds)
    if not (known := [kind for kind in KINDS if kind in wanted]):
        raise WebhookError(_("Choose at least one event."))
    return known


def _log(by: User, webhook: Webhook, flag: int, words: str) -> None:
    LogEntry.objects.log_actions(by.pk, [webhook], flag, words)
