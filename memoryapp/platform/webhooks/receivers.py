"""Webhooks as admins make, change and remove them. Who did what is recorded in the log of Django's administration."""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx
from django.conf import settings
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS, IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from memoryapp.models import Webhook, WebhookDelivery
from memoryapp.platform.webhooks.announcing import KINDS, TEST

# Where messages may go: what an address must look like, and which places its name may lead to.
#
# The name is looked up once for each attempt, every place it leads to is checked, and the connection goes to one of
# the checked places. Otherwise a name could lead elsewhere between the check and the connection.

LONGEST = 2_000
# Services that give a machine's own credentials to whoever asks from it.
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200")))
# A host name as it is looked up, in ASCII.
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_.])?")
# The last 32 bits are an IPv4 address: that of NAT64, and the old form ``::192.0.2.1``.
_ENDS_IN_IPV4 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# Behind these is any IPv4 address, in whatever place a local NAT64 writes it, or behind a tunnel of Teredo.
_HIDES_IPV4 = (IPv6Network("64:ff9b:1::/48"), IPv6Network("2001::/32"))

Place = IPv4Address | IPv6Address


class AddressError(ValueError):
    """An address that cannot be a receiver's; the text is a sentence for people."""


class PlaceRefused(Exception):
    """The name leads to a place to which nothing is sent."""


def checked(typed: str) -> str:
    """The address as it is stored. Raises AddressError."""
    address = typed.strip()
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        raise AddressError(_("Type an address such as https://example.com/hook.")) from None
    is_usable = url.scheme in ("http", "https") and (url.port is None or 0 < url.port < 65_536)
    if not is_usable or len(address) > LONGEST or not (_NAME.fullmatch(url.raw_host.decode()) or _literal(url.host)):
        raise AddressError(_("Type an address such as https://example.com/hook."))
    if url.userinfo:
        raise AddressError(_("An address has no user and password; put a token into its path or query."))
    if (place := _literal(url.host)) and not is_permitted(place):
        raise AddressError(_("Nothing is sent to %(place)s: it is not an address of the internet.") % {"place": place})
    return str(url.copy_with(fragment=None))


def is_permitted(place: Place) -> bool:
    """Whether messages may go there: to the internet always, to local networks by the setting, to link-local addresses,
    behind which are the credentials of rented machines, never."""
    inner = _embedded(place)
    if any(inner in network for network in _HIDES_IPV4):
        return False
    if inner.is_link_local or inner.is_multicast or inner.is_unspecified or inner in _METADATA:
        return False
    return inner.is_global or bool(settings.WEBHOOK_PRIVATE_ADDRESSES)


def _embedded(place: Place) -> Place:
    """The IPv4 address that an IPv6 address stands for, or itself."""
    if isinstance(place, IPv4Address):
        return place
    if any(place in network for network in _ENDS_IN_IPV4):
        return IPv4Address(int(place) & 0xFFFFFFFF)
    return place.ipv4_mapped or place.sixtofour or place


async def places_of(url: httpx.URL) -> Sequence[Place]:
    """The places of the address's name, each checked. Raises PlaceRefused, and OSError for a name nobody knows."""
    host = url.raw_host.decode("ascii").strip("[]")
    if literal := _literal(host):
        places = [literal]
    else:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        places = [ip_address(str(address[0]).partition("%")[0]) for *_family, address in found]
    if not all(is_permitted(place) for place in places):
        raise PlaceRefused
    return list(dict.fromkeys(places))


def at_place(url: httpx.URL, place: Place) -> tuple[httpx.URL, dict[str, str], dict[str, str]]:
    """The address with the place instead of its name, and the header and extension that still carry the name."""
    name = url.raw_host.decode("ascii")
    # A certificate is for the name; an address in brackets or digits has none.
    extensions = {} if _literal(name.strip("[]")) else {"sni_hostname": name}
    return url.copy_with(host=str(place)), {"host": url.netloc.decode("ascii")}, extensions


def _literal(host: str) -> Place | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


# Secrets of webhooks, and signatures by the specification Standard Webhooks 1.0.
#
# A secret is derived from the installation's ``SECRET_KEY`` and a random nonce in the row. So the database and its
# backups hold nothing that signs, and a copy of the database under another key sends nothing in this one's name. The
# signed content is ``id.timestamp.body``; the signatures of a header are separated by spaces, so that a receiver may
# know either of two secrets while one takes the place of the other.

_SALT = "memoryapp.outgoing.webhooks"
PREFIX = "whsec_"


def new_nonce() -> str:
    return secrets.token_hex(32)


def secret_of(nonce: str) -> str:
    """The secret as its receiver is given it: ``whsec_`` and 32 bytes in base64."""
    return PREFIX + base64.b64encode(_key(nonce)).decode()


def check_digest(nonce: str) -> str:
    """A digest by which a secret that is derived later is known to be the same."""
    return hashlib.sha256(b"check" + _key(nonce)).hexdigest()


def is_known(webhook: Webhook) -> bool:
    """Whether the secret is still the one that the receiver was given: the installation's key was not changed."""
    return hmac.compare_digest(check_digest(webhook.nonce), webhook.check_digest)


def headers(webhook: Webhook, message_id: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """The headers of one attempt; each has a time and signatures of its own, because receivers refuse old ones."""
    nonces = [webhook.nonce]
    if webhook.former_nonce and webhook.former_until and timezone.now() < webhook.former_until:
        nonces.append(webhook.former_nonce)
    stamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), stamp.encode(), body))
    signatures = [base64.b64encode(hmac.digest(_key(nonce), signed, "sha256")).decode() for nonce in nonces]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }


def _key(nonce: str) -> bytes:
    return salted_hmac(_SALT, nonce, algorithm="sha256").digest()


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
    row.check_digest = check_digest(nonce)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise WebhookMadeAlready from error
    LogEntry.objects.log_actions(by.pk, [row], ADDITION, _ADDED)
    return row, secret_of(nonce)


def change(webhook: Webhook, name: str, address: str, kinds: Iterable[str], *, by: User) -> None:
    """Another name, address or other kinds; what waits goes to the new address."""
    is_elsewhere = address != webhook.address
    webhook.name, webhook.address, webhook.kinds = name, address, _known(kinds)
    webhook.save(update_fields=["name", "address", "kinds"])
    if is_elsewhere:
        _rested(webhook)
    LogEntry.objects.log_actions(by.pk, [webhook], CHANGE, '[{"changed": {"fields": ["address"]}}]')


def pause(webhook: Webhook, *, by: User) -> None:
    """Sends nothing until ``resume``; what happens meanwhile is collected."""
    Webhook.objects.filter(pk=webhook.pk, state=Webhook.State.ON).update(state=Webhook.State.PAUSED)
    LogEntry.objects.log_actions(by.pk, [webhook], CHANGE, '[{"changed": {"fields": ["paused"]}}]')


def resume(webhook: Webhook, *, by: User) -> None:
    """Sends again what waits. Raises WebhookError while its secret is lost."""
    if not is_known(webhook):
        raise WebhookError(
            _("The key of this installation is another one now. Make a new secret first, and give it to the receiver.")
        )
    Webhook.objects.filter(pk=webhook.pk).update(state=Webhook.State.ON, off_reason="")
    _rested(webhook)
    LogEntry.objects.log_actions(by.pk, [webhook], CHANGE, '[{"changed": {"fields": ["resumed"]}}]')


def rotate(webhook: Webhook, *, nonce: str, by: User) -> str:
    """Returns a new secret; for a day messages are signed with both. The same ``nonce`` again raises
    WebhookMadeAlready."""
    known = is_known(webhook)
    if nonce in (webhook.nonce, webhook.former_nonce):
        raise WebhookMadeAlready
    try:
        with transaction.atomic():
            Webhook.objects.filter(pk=webhook.pk).update(
                nonce=nonce,
                check_digest=check_digest(nonce),
                former_nonce=webhook.nonce if known else "",
                former_until=timezone.now() + OVERLAP if known else None,
            )
    except IntegrityError as error:
        raise WebhookMadeAlready from error
    LogEntry.objects.log_actions(by.pk, [webhook], CHANGE, '[{"changed": {"fields": ["secret"]}}]')
    return secret_of(nonce)


@transaction.atomic
def remove(webhook: Webhook, *, by: User) -> None:
    """Removes it with its messages."""
    LogEntry.objects.log_actions(by.pk, [webhook], DELETION, '[{"deleted": {}}]')
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
