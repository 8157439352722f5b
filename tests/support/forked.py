"""Python programs in processes of their own, forked from one that has imported the packages. Imports take most of the
two seconds of the processor that a start costs. What is shared reads no setting; each program reads its own from its
environment, and has its own output and its own end."""

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from django.conf import settings

from memoryapp.platform.embedded.paths import CHECKOUT

MANAGE = "manage.py"
# What most programs of this project import and what reads no setting. Not prometheus_client, which looks into the
# environment for the folder of its files.
PACKAGES = (
    *("asyncio", "cachetools", "celery", "celery.app.base", "celery.apps.beat", "celery.apps.worker"),
    *("celery.bin.celery", "celery.fixups.django", "channels.layers", "django.contrib.postgres.search"),
    *("django.core.handlers.asgi", "django.core.management", "django.db.backends.postgresql.base"),
    *("django.db.models", "django.forms", "django.template", "django_htmx", "docx", "email.mime.multipart"),
    *("httpx", "ijson", "json_repair", "kombu", "numpy", "orjson", "pgvector.django", "psycopg"),
    *("psycopg_pool", "pydantic", "pypdf", "snowballstemmer", "threadpoolctl", "whitenoise"),
    *("memoryapp.engine.agents", "memoryapp.engine.offline.scorer", "memoryapp.engine.strategies"),
)


@cache
def _server() -> ForkServerContext:
    """Starts with the first program of this process, and ends with this process."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PACKAGES))
    return context


def start(command: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path) -> BaseProcess:
    """Runs ``manage.py`` or a module, by its name, with arguments; what it prints goes to these files."""
    arguments = (list(command), dict(environment), str(output), str(errors))
    made = _server().Process(target=_execute, args=arguments)
    made.start()
    return made


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """How the program ended, and what it printed."""
    with tempfile.TemporaryDirectory(prefix="mnemoscope forked ") as name:
        output, errors = Path(name, "output"), Path(name, "errors")
        made = start(command, environment, output, errors)
        made.join()
        code = made.exitcode
        made.close()
        assert code is not None
        return subprocess.CompletedProcess(list(command), code, output.read_text(), errors.read_text())


def _execute(command: list[str], environment: dict[str, str], output: str, errors: str) -> None:
    """As if Python had been started with this command; text that it ends with goes to its errors."""
    for path, number in ((output, 1), (errors, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    assert not settings.configured, "a package that was imported before it has read the settings"
    os.chdir(CHECKOUT)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    if command[0] == MANAGE:
        runpy.run_path(MANAGE, run_name="__main__")
    else:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
