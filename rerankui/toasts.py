"""Toasts: what was done, shown for ten seconds, with a button that undoes it.

They wait in the session until the next page or fragment shows them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from django.http import HttpRequest

_KEY = "toasts"


@dataclass(frozen=True, slots=True)
class Toast:
    """``word`` is the text of the button, which posts to ``address``."""

    sentence: str
    address: str
    word: str


def add(request: HttpRequest, sentence: str, address: str, word: str) -> None:
    request.session[_KEY] = [*request.session.get(_KEY, []), asdict(Toast(sentence, address, word))]


def take(request: HttpRequest) -> list[Toast]:
    """Returns the toasts that were not shown yet; each is returned once."""
    waiting = request.session.pop(_KEY, []) if _KEY in request.session else []
    return [Toast(**toast) for toast in waiting]
