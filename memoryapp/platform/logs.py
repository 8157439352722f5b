"""Log lines: text for people, or one JSON object a line for machines. Through a context variable, every line that any
module logs while a run is executed contains the id of the run. A line contains ids, counts and causes, never the text
of a query or a message, which only some people may see."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from memoryapp.platform.database import database_outage, is_outage
from memoryapp.platform.environment import without_passwords

_QUOTING = ("DETAIL:", "CONTEXT:", "LINE ")
# Addresses with the name of a chat user, which may have spaces and slashes; Django logs those that do not exist.
_NAMING = re.compile(r"(?<=/v1/users/)[^\n]+?(?=/[a-z]+$|$)", re.M)
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_run: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def about_run(run_id: UUID) -> Iterator[None]:
    """Inside ``with``, the log lines of this task and of those it starts contain the run's id."""
    token = _run.set(str(run_id))
    try:
        yield
    finally:
        _run.reset(token)


def cause(error: Exception | str) -> str:
    """Returns the sentence up to the first colon: a provider's words after it may repeat what it was sent."""
    return str(error).partition(": ")[0]


class RunLogFilter(logging.Filter):
    """Lets every record pass and sets its ``run`` to the run's id, empty outside of runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.run = _run.get()
        return True


class DiscardedConnectionFilter(logging.Filter):
    """Leaves out that a pool discards a closed connection: one whose user ran out of time goes back closed, so that
    nobody else gets it in the middle of a statement."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("discarding closed connection")


class OutageFilter(logging.Filter):
    """Logs what an outage of the database causes as that outage: a page that looks each second by itself would have
    Django log a traceback for each look, and a pool that connects again logs each attempt."""

    def filter(self, record: logging.LogRecord) -> bool:
        # The lost or failed connection that the record is about, as its exception or in its message.
        mentioned = [*(record.exc_info or ()), *(record.args if isinstance(record.args, tuple) else ())]
        if error := next((each for each in mentioned if isinstance(each, Exception) and is_outage(each)), None):
            database_outage.report(error)
            return False
        is_refusal = getattr(record, "status_code", None) == HTTPStatus.SERVICE_UNAVAILABLE
        is_attempt = record.getMessage().startswith("reconnection attempt")
        return not ((is_refusal or is_attempt) and database_outage.is_going_on)


class _RedactingFormatter(logging.Formatter):
    """Leaves out chat users' names, passwords, and the rows that PostgreSQL quotes in the details of an error."""

    def format(self, record: logging.LogRecord) -> str:
        if _is_refusal(record):
            record.exc_info = record.exc_text = None
        return super().format(record)

    def redacted(self, record: logging.LogRecord) -> str:
        """Returns the record's message without passwords and names of chat users."""
        message, request = record.getMessage(), getattr(record, "request", None)
        if path := getattr(request, "path", ""):
            message = message.replace(path, _route(request))
        return without_passwords(_NAMING.sub("…", message))

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = self.redacted(record)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).splitlines()
        return without_passwords("\n".join(line for line in lines if not line.startswith(_QUOTING)))


def _is_refusal(record: logging.LogRecord) -> bool:
    """Whether the record is about a refused request, which needs one line and no traceback."""
    return bool(getattr(record, "status_code", 500) < 500)


def _route(request: Any) -> str:
    """Returns the request's path with its numbers; other values are replaced by the names of their parameters."""
    match = request.resolver_match
    if match is None:
        return "an address that is none"
    values = {name: f"<{name}>" if isinstance(v, str) else str(v) for name, v in match.captured_kwargs.items()}
    return "/" + _PARAMETER.sub(lambda found: values.get(found[1], found[0]), match.route)


class LineFormatter(_RedactingFormatter):
    """``2026-07-25 14:30:00,123 WARNING memoryapp.runs.lifecycle [run 1f0c…] message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(about)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        run = getattr(record, "run", "")
        record.about = f"[run {run}] " if run else ""
        return super().format(record)


class JsonFormatter(_RedactingFormatter):
    """One object a line: ``at`` (UTC), ``level``, ``logger``, ``message``, with ``run``, the record's ``fields`` and
    ``error`` if known."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self.redacted(record),
        }
        if run := getattr(record, "run", ""):
            line["run"] = run
        line |= getattr(record, "fields", {})
        if record.exc_info and not _is_refusal(record):
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
