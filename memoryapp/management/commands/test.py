"""Runs the checks of the project: format, lint, types, templates, migrations, and the tests that a change can break.

Suites of processes, servers and other makers' clients are left out while what they cover is as it was released, and
laws are tried with fewer examples (``tests/gate.py``). ``--all`` runs everything, as before each release, and searches
for new examples. ``--quick`` omits tests that need more than a database or take long; with other arguments only pytest
runs. The tests run in one process per core, and the other checks beside them.

The database is a temporary one that is deleted afterwards, never one that happens to run on the machine."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from django.core.management.base import BaseCommand

from memoryapp.platform.embedded.paths import CHECKOUT, DATABASE
from memoryapp.platform.environment import cores

# Tests that need more than a database transaction or take long.
_LEFT_OUT = ("browser", "peers", "processes", "loads", "container", "commits", "slow")
# What pytest is given for each argument of the command; the profiles of Hypothesis stand in `tests/conftest.py`.
_TIERS = {
    "": ("--gate", "--hypothesis-profile", "gate"),
    "--all": ("--hypothesis-profile", "searching"),
    "--quick": ("-m", f"not ({' or '.join(_LEFT_OUT)})", "--hypothesis-profile", "quick"),
}
# The one without windows comes first: its pages take half the processor time.
_CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class CheckEnd:
    """How a step ended: its duration in seconds, and its output unless that was shown at once."""

    passed: bool
    seconds: float
    output: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One check: a Python module's command line."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *, shown: bool) -> CheckEnd:
        """Runs the check. It keeps compiled modules, or each of a dozen processes would compile the tests again."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        began = time.monotonic()
        done = subprocess.run(
            (sys.executable, "-m", *self.command),
            cwd=CHECKOUT,
            env={**inherited, **self.environment},
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
        )
        return CheckEnd(done.returncode == 0, time.monotonic() - began, done.stdout or "")


class Command(BaseCommand):
    help = (
        "Runs the checks that a change can break: all with --all, the fast ones with --quick; else pytest's arguments."
    )

    def run_from_argv(self, argv: list[str]) -> None:
        """Passes the arguments on unchanged, because they are pytest's."""
        names = filter(None, (os.environ.get("CHROMIUM"), *_CHROMIUMS))
        browser = next(filter(None, map(shutil.which, names)), "")
        self._say(f"Browser tests use {browser}." if browser else "No chromium was found: browser tests are skipped.")
        if browser:
            os.environ["CHROMIUM"] = browser
        given = argv[2:]
        tier = "".join(given)
        steps = _steps(tier) if len(given) < 2 and tier in _TIERS else [Step("pytest", ("pytest", *given))]
        sys.exit(self._run(steps))

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _run(self, steps: Sequence[Step]) -> int:
        """Runs all steps, shows the last one while the others run, and prints a summary; returns 1 if any failed."""
        *checks, tests = steps
        beside = ThreadPoolExecutor(max_workers=1)
        try:
            begun = [beside.submit(check.run, shown=False) for check in checks]
            self._say(f"\n== {tests.name}")
            last = tests.run(shown=True)
            outcomes = [*(outcome.result() for outcome in begun), last]
        finally:
            beside.shutdown(cancel_futures=True)
        for step, outcome in zip(checks, outcomes, strict=False):
            self._say(f"\n== {step.name}\n{outcome.output}".rstrip())
        lines = [
            f"{'ok    ' if outcome.passed else 'FAILED'} {step.name} ({outcome.seconds:.1f} s)"
            for step, outcome in zip(steps, outcomes, strict=True)
        ]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        lines.append(f"{used.ru_utime + used.ru_stime:.0f} s of the processor, without the database servers")
        self._say("\n" + "\n".join(lines) + "\n")
        return 0 if all(outcome.passed for outcome in outcomes) else 1


def _steps(tier: str) -> list[Step]:
    # The tests create their own database; makemigrations only reads, for which `postgres` is enough.
    elsewhere = os.environ["DATABASE_URL"].replace(f"/{DATABASE}?", "/postgres?")
    # An idle worker takes tests from another one, so none waits for the file with the longest tests.
    tests = ("pytest", "-q", "-n", str(cores()), "--dist", "worksteal")
    return [
        Step("format", ("ruff", "format", "--check")),
        Step("lint", ("ruff", "check")),
        Step("templates", ("djlint", "templates", "--quiet")),
        Step("types", ("mypy", "memoryapp", "rerankui", "client", "tools")),
        Step("migrations", ("django", "makemigrations", "--check", "--dry-run"), {"DATABASE_URL": elsewhere}),
        Step("tests", (*tests, *_TIERS[tier])),
    ]
