"""``diffsettings``: Django's list of settings without keys and passwords, to pass on when asking for help."""

import re
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.commands import diffsettings

from memoryapp.platform.environment import without_passwords

_SECRET = re.compile("SECRET|PASSWORD|API_KEY|TOKEN", re.IGNORECASE)


class Command(diffsettings.Command):
    help = "Prints the settings that differ from Django's, without keys and passwords."

    def handle(self, **options: Any) -> str:
        listing = without_passwords(super().handle(**options))
        for secret in sorted(set(_secrets()), key=len, reverse=True):
            listing = listing.replace(secret, "…")
        return listing


def _secrets() -> Iterator[str]:
    """Yields the values of settings whose name denotes a secret, at any depth."""
    remaining: list[tuple[str, Any]] = [(name, getattr(settings, name)) for name in dir(settings) if name.isupper()]
    while remaining:
        name, value = remaining.pop()
        if isinstance(value, dict):
            remaining += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, str) and value and _SECRET.search(name):
            yield value
