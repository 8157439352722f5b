"""The settings of what this program sends to others: webhooks, mail, and the address under which it is reached.

``settings`` takes them over as they are; docs/settings.md explains each.
"""

from __future__ import annotations

from datetime import timedelta

from memoryapp import environment

__all__ = ("PUBLIC_URL", "WEBHOOK_KEEP", "WEBHOOK_PRIVATE_ADDRESSES", "WEBHOOK_TIMEOUT")

# Where browsers reach this installation, for links in messages; without it they are paths.
PUBLIC_URL = environment.address("PUBLIC_URL").rstrip("/")
# Seconds for which a receiver may take to answer, from the first look at its name on.
WEBHOOK_TIMEOUT = environment.seconds("WEBHOOK_TIMEOUT", "15s", least=0.1, most=60)
# Whether receivers may be in the networks that are not reached from outside, such as this machine.
WEBHOOK_PRIVATE_ADDRESSES = environment.switch("WEBHOOK_PRIVATE_ADDRESSES", True)
# How long messages are kept, delivered or not.
WEBHOOK_KEEP = timedelta(seconds=environment.seconds("WEBHOOK_KEEP", "30d", least=3600, most=31_536_000))
