"""What the program says to whoever runs it: lines for people, or one JSON object a line for machines.

Whatever is said while a run is executed carries that run's id, from any module and without being told, through
the task's context. A line names ids, counts and causes, never what somebody asked or said: the rows hold that,
for those who may see it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from memoryapp.environment import without_passwords

_QUOTING = ("DETAIL:", "CONTEXT:", "LINE ")
# The one address that names a chat user, which Django repeats when there is nothing.
_NAMING = re.compile(r"(?<=/v1/users/)[^/\s?]+")
_run: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def about_run(run_id: UUID) -> Iterator[None]:
    """Everything that this task and those it starts say meanwhile is about that run."""
    token = _run.set(str(run_id))
    try:
        yield
    finally:
        _run.reset(token)


def cause(error: Exception | str) -> str:
    """The sentence without what it quotes: the words of a provider may repeat what it was sent."""
    return str(error).partition(": ")[0]


class AboutRun(logging.Filter):
    """Lets everything pass and puts the run's id on it, empty outside of runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.run = _run.get()
        return True


class _Discreet(logging.Formatter):
    """Tells where a fault happened, without the row that PostgreSQL quotes in its details, names and passwords."""

    def format(self, record: logging.LogRecord) -> str:
        if _is_refusal(record):
            record.exc_info = record.exc_text = None
        return super().format(record)

    def told(self, record: logging.LogRecord) -> str:
        """The record's message, no chat user named."""
        message, request = record.getMessage(), getattr(record, "request", None)
        if path := getattr(request, "path", ""):
            message = message.replace(path, _place(request))
        return without_passwords(_NAMING.sub("…", message))

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = self.told(record)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        told = super().formatException(ei).splitlines()
        return without_passwords("\n".join(line for line in told if not line.startswith(_QUOTING)))


def _is_refusal(record: logging.LogRecord) -> bool:
    """Whether a request was refused, which is one line: where in the program that happened tells nobody anything."""
    return bool(getattr(record, "status_code", 500) < 500)


def _place(request: Any) -> str:
    """A request's path with its numbers; whatever else somebody may have written into it is left out."""
    match = request.resolver_match
    if match is None:
        return "an address that is none"
    given = match.captured_kwargs.items()
    written = {str(value): f"<{name}>" for name, value in given if isinstance(value, str)}
    return "/".join(written.get(part, part) for part in request.path.split("/"))


class Line(_Discreet):
    """``2026-07-25 14:30:00,123 WARNING memoryapp.runs [run 1f0c…] message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(about)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        run = getattr(record, "run", "")
        record.about = f"[run {run}] " if run else ""
        return super().format(record)


class Json(_Discreet):
    """One object a line: ``at`` (UTC), ``level``, ``logger``, ``message``, with ``run`` and ``error`` where known."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self.told(record),
        }
        if run := getattr(record, "run", ""):
            said["run"] = run
        if record.exc_info and not _is_refusal(record):
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)
