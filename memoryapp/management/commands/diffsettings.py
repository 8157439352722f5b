"""Django's list of settings, for people to pass on when they ask for help: keys and passwords are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.commands import diffsettings

from memoryapp.environment import without_passwords

_SECRET = re.compile("SECRET|PASSWORD|API_KEY|TOKEN", re.IGNORECASE)


class Command(diffsettings.Command):
    help = "Prints the settings that differ from Django's, without keys and passwords."

    def handle(self, **options: Any) -> str:
        told = without_passwords(super().handle(**options))
        for secret in sorted(set(_secrets()), key=len, reverse=True):
            told = told.replace(secret, "…")
        return told


def _secrets() -> Iterator[str]:
    """What settings hold under the name of a secret, at any depth."""
    waiting: list[tuple[str, Any]] = [(name, getattr(settings, name)) for name in dir(settings) if name.isupper()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, str) and value and _SECRET.search(name):
            yield value
