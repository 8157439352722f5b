"""Collects static files into ``STATIC_ROOT``, only if one has changed: collecting takes seconds of a start."""

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command


def collect() -> bool:
    """Updates ``STATIC_ROOT``; returns whether anything was done. Its stamp is written last."""
    stamp = Path(settings.STATIC_ROOT).with_name("static.stamp")
    # A hash of the name, size and time of every source file, and of the target folder.
    digest = hashlib.sha256(str(settings.STATIC_ROOT).encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    now = digest.hexdigest()
    if stamp.exists() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(now)
    return True
