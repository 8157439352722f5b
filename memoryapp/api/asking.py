"""Makes a run from the body of a question or of a fork; everything is checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from memoryapp import past
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import owner_or_404
from memoryapp.api.shapes.conversation import conversation
from memoryapp.api.shapes.errors import NotYet, RequestRefused
from memoryapp.api.shapes.recall import RecallBody
from memoryapp.api.shapes.runs import ForkBody
from memoryapp.engine.chat.media import MediaContent, MediaError, read_part
from memoryapp.importers.record import quote
from memoryapp.models import Run
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.lifecycle import TooManyRuns
from memoryapp.runs.parameters import all_declarations, strategy_for_new_run, validate
from memoryapp.runs.replays import ForkError
from memoryapp.runs.runner import runner

RUNS_WAIT = 2
# A later version may have more parts, which only it understands.
_TRACEPARENT = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


def caller_span(headers: Mapping[str, str]) -> str:
    """Returns the span that a request belongs to, by the header ``traceparent`` (https://www.w3.org/TR/trace-context/);
    empty without a valid one, which must not break a request."""
    named = headers.get("traceparent", "").strip().lower()
    found = _TRACEPARENT.fullmatch(named)
    return named if found and found["trace"].strip("0") and found["span"].strip("0") else ""


def start_run(grant: Grant, body: RecallBody, traceparent: str = "") -> Run:
    """Returns a new run of this token, which waits to be executed. Raises RequestRefused and ParameterError."""
    owner = owner_or_404(grant, body.user)
    usual = {"when_unsure": grant.token.when_unsure} if grant.token.when_unsure else {}
    parameters = {**usual, **body.parameters}
    validate(_numbers(parameters), strategy_for_new_run(body.strategy))
    messages = None if body.messages is None else conversation(body.messages)
    sent, moment = _sent(body.media), _moment(body.as_of)
    try:
        return lifecycle.begin(
            grant.token,
            owner,
            body.query,
            strategy=body.strategy,
            parameters=parameters,
            messages=messages,
            media=sent,
            traceparent=traceparent,
            as_of=moment,
        )
    except TooManyRuns as error:
        raise _busy(error) from None


def _moment(text: str | None) -> datetime | None:
    """Raises RequestRefused for a text that names no moment."""
    try:
        return None if text is None else past.moment_of(text.strip())
    except (ValueError, OverflowError):
        raise RequestRefused(422, f"as_of must be a day such as 2026-03-02 or a moment, not {quote(text)}.") from None


def start_fork(grant: Grant, run: Run, body: ForkBody) -> Run:
    """Returns a fork of the run that waits to be executed. Raises RequestRefused and ParameterError."""
    changes = body.changes.model_dump(exclude_none=True)
    _numbers(changes.get("parameters", {}))
    try:
        with lifecycle.room_for(grant.token):
            return forks.fork(run, turn=body.turn, changes=changes, token=grant.token)
    except TooManyRuns as error:
        raise _busy(error) from None
    except ForkError as error:
        raise RequestRefused(422, str(error)) from None


def _busy(error: TooManyRuns) -> RequestRefused:
    sentence = f"This token has {error.in_flight} runs in flight; wait for some to end."
    return RequestRefused(429, sentence, wait=RUNS_WAIT)


async def wait_for_end(run: Run) -> None:
    """Executes the run and waits until it has ended in any process. Raises NotYet when that takes too long."""
    await runner.complete(run.pk)
    try:
        await lifecycle.wait_for_end(run)
    except TimeoutError:
        raise NotYet(f"Run {run.pk} goes on.", f"/v1/runs/{run.pk}", wait=5, run=str(run.pk)) from None


def _numbers(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the parameters unchanged. Raises RequestRefused for a number as text, which only commands send."""
    numbers = {name for name, declaration in all_declarations().items() if declaration.is_number}
    for name in numbers & given.keys():
        if isinstance(given[name], bool) or not isinstance(given[name], int | float):
            raise RequestRefused(400, f"{name} must be a number, not {quote(given[name])}.")
    return given


def _sent(parts: Sequence[Mapping[str, Any]]) -> list[MediaContent]:
    return [_part(index, part) for index, part in enumerate(parts)]


def _part(index: int, part: Mapping[str, Any]) -> MediaContent:
    try:
        read = read_part(part)
    except MediaError as error:
        raise RequestRefused(422, f"media.{index}: {error}") from None
    if read.item.size_bytes > settings.MEDIA_MAX_BYTES:
        raise RequestRefused(
            413, f"media.{index}: {read.item.size_bytes:,} bytes; at most {settings.MEDIA_MAX_BYTES:,}."
        )
    if not _MIME.fullmatch(read.item.mime_type):
        raise RequestRefused(422, f"media.{index}: its type is not a MIME type such as image/png or audio/wav.")
    return read
