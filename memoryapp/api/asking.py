"""From the body of a question to a run in the rows: everything is checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from memoryapp import media, runs
from memoryapp.api.access import owner_or_404
from memoryapp.api.conversation import conversation
from memoryapp.api.refusals import Refused
from memoryapp.api.shapes import MOST_MEDIA, RecallBody
from memoryapp.engine.media import Media, MediaError, read_part
from memoryapp.importers.record import shown
from memoryapp.models import Run
from memoryapp.parameters import BOUNDS, overridden, strategy_named
from memoryapp.tokens import Grant

RUNS_WAIT = 2
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


def begun(grant: Grant, body: RecallBody) -> Run:
    """A run of this token, waiting to be executed. Raises Refused and ParameterError."""
    owner = owner_or_404(grant, body.user)
    strategy_named(body.strategy)
    overridden(_numbers(body.parameters))
    said = None if body.messages is None else conversation(body.messages)
    sent = _sent(body.media)
    _check_room(grant)
    return runs.start(
        owner,
        body.query,
        strategy=body.strategy,
        parameters=body.parameters,
        token=grant.token,
        messages=said,
        media=[media.store(owner, item) for item in sent],
    )


def _numbers(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters as they are; commands send numbers as text, programs as numbers."""
    for name in BOUNDS.keys() & given.keys():
        if isinstance(given[name], bool) or not isinstance(given[name], int | float):
            raise Refused(400, f"{name} must be a number, not {shown(given[name])}.")
    return given


def _check_room(grant: Grant) -> None:
    in_flight = Run.objects.filter(token=grant.token).exclude(state=Run.State.FINISHED).count()
    if in_flight >= settings.API_MAX_RUNS:
        raise Refused(429, f"This token has {in_flight} runs in flight; wait for some to end.", wait=RUNS_WAIT)


def _sent(parts: Sequence[Mapping[str, Any]]) -> list[Media]:
    if len(parts) > MOST_MEDIA:
        raise Refused(413, f"At most {MOST_MEDIA} media a question.")
    return [_part(index, part) for index, part in enumerate(parts)]


def _part(index: int, part: Mapping[str, Any]) -> Media:
    try:
        read = read_part(part)
    except MediaError as error:
        raise Refused(422, f"media.{index}: {error}") from None
    if read.item.size_bytes > settings.MEDIA_MAX_BYTES:
        raise Refused(413, f"media.{index}: {read.item.size_bytes:,} bytes; at most {settings.MEDIA_MAX_BYTES:,}.")
    if not _MIME.fullmatch(read.item.mime_type):
        raise Refused(422, f"media.{index}: its type is not a MIME type such as image/png or audio/wav.")
    return read
