"""What `manage.py test` leaves out: suites of processes and of other makers' programs whose subject is as released.

A subject is everything that a suite covers beside what the other tests cover. It is compared with the commit that set
the version, for which no tag is needed. Of an unchanged suite only the tests with the mark ``smoke`` run. Without the
history of that commit nothing is left out, nor with ``manage.py test --all``, which runs before each release."""

import subprocess
from collections.abc import Iterable, Sequence

import pytest

from memoryapp.platform.embedded.paths import CHECKOUT

OPTION = "--gate"
_PROGRAM = ("manage.py", "pyproject.toml", "requirements", "memoryapp/platform/environment.py", "memoryapp/settings.py")
_SWEPT = ("memoryapp/celery.py", "memoryapp/upkeep/pipeline", "memoryapp/upkeep/tasks.py", "memoryapp/platform/work.py")
_STARTED = (*_PROGRAM, "memoryapp/platform/embedded", "memoryapp/management", "memoryapp/platform", *_SWEPT)
_SHARED = ("tests/conftest.py", "tests/database.py", "tests/examples.py", "tests/support")
# What the tests of a folder cover, as beginnings of paths.
SUBJECTS = {
    "embedded": (*_STARTED, "memoryapp/migrations", "memoryapp/models", "deploy", "Dockerfile", "compose.yaml"),
    "processes": (
        *(*_STARTED, "memoryapp/runs", "memoryapp/memory/sessions.py", "memoryapp/intake", "memoryapp/curation"),
        *(
            "memoryapp/intake/artifacts.py",
            "memoryapp/erasure",
            "memoryapp/curation/extraction",
            "memoryapp/curation/suggestions",
            "memoryapp/intake/transfer",
            "memoryapp/platform/webhooks",
            "memoryapp/doors/api",
        ),
        *("memoryapp/migrations", "memoryapp/models", "memoryapp/engine/chat", "rerankui/web", "rerankui/asgi.py"),
        "tests/life",
    ),
    "peers": (
        *(
            *_PROGRAM,
            "memoryapp/engine",
            "memoryapp/platform/llm",
            "memoryapp/doors/api",
            "memoryapp/doors/mcp_server",
            "memoryapp/intake/items.py",
        ),
        *("memoryapp/doors/assistant.py", "memoryapp/runs", "client"),
        *("memoryapp/platform/accounts", "rerankui/account", "templates/allauth"),
    ),
}


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests that cover nothing but what is as it was released."""
    unchanged = unchanged_suites(changed_files())
    return [item for item in items if item.path.parent.name in unchanged and not item.get_closest_marker("smoke")]


def unchanged_suites(changed: Iterable[str] | None) -> set[str]:
    """The suites whose subjects, shared parts and own tests are not among the ``changed`` paths; none if unknown."""
    if changed is None:
        return set()
    paths = list(changed)
    return {
        name
        for name, subject in SUBJECTS.items()
        if not any(path.startswith((*subject, *_SHARED, f"tests/{name}/")) for path in paths)
    }


def changed_files() -> list[str] | None:
    """Paths that differ from the commit that set the version, new ones too; None if the history does not tell."""
    if _git("rev-parse", "--is-shallow-repository") != ["false"]:
        return None
    released = _git("log", "-1", "--format=%H", "-G", "^version = ", "--", "pyproject.toml")
    if not released:
        return None
    return [*_git("diff", "--name-only", released[0]), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    """The lines that git prints; none where it fails or is not installed."""
    try:
        done = subprocess.run(("git", *arguments), cwd=CHECKOUT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()
