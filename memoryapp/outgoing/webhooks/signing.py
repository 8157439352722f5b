"""Secrets of webhooks, and signatures by the specification Standard Webhooks 1.0.

A secret is derived from the installation's ``SECRET_KEY`` and a random nonce in the row. So the database and its
backups hold nothing that signs, and a copy of the database under another key sends nothing in this one's name. The
signed content is ``id.timestamp.body``; the signatures of a header are separated by spaces, so that a receiver may know
either of two secrets while one takes the place of the other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime

from django.utils import timezone
from django.utils.crypto import salted_hmac

from memoryapp.models import Webhook

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
    return {
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(_signature(nonce, message_id, stamp, body) for nonce in nonces),
    }


def _signature(nonce: str, message_id: str, stamp: str, body: bytes) -> str:
    signed = hmac.digest(_key(nonce), b".".join((message_id.encode(), stamp.encode(), body)), "sha256")
    return f"v1,{base64.b64encode(signed).decode()}"


def _key(nonce: str) -> bytes:
    return salted_hmac(_SALT, nonce, algorithm="sha256").digest()
