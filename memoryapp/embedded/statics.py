"""Static files collected into ``STATIC_ROOT``, only when one has changed: collecting takes seconds of a start."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command


def collect() -> bool:
    """Brings ``STATIC_ROOT`` up to date; returns whether anything was done. The stamp is written last."""
    stamp = Path(settings.STATIC_ROOT).with_name("static.stamp")
    now = _fingerprint()
    if stamp.exists() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(now)
    return True


def _fingerprint() -> str:
    """Name, size and time of every source file, and where they go."""
    digest = hashlib.sha256(str(settings.STATIC_ROOT).encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
