"""Results of pure checks, kept by a hash of all that they depend on, in the cache that pytest keeps between runs."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def kept(config: pytest.Config, *parts: object) -> Iterator[bool]:
    """Yields whether the check passed before with equal ``parts`` and this Python; keeps that it did if nothing fails.
    A change of the check itself must be among the parts, such as the text of its module."""
    cache = getattr(config, "cache", None)
    text = "\0".join(map(str, (*parts, sys.version)))
    mark = cache.mkdir("passed") / hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if cache else None
    passed = bool(mark and mark.exists())
    yield passed
    if mark and not passed:
        mark.touch()
