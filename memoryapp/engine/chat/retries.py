"""When a request to a provider is repeated: one policy for chat models and embeddings.

A request is repeated after a failure that may pass: 5xx except 501, a broken connection, and those of 4xx that are no
refusals. A refusal (400, 401, 402, 403, 404 …) would be the same the next time. The wait is the one that the endpoint
asks for, otherwise half a second, doubled each time. No attempt begins after the time of the request has ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TRIES = 5
_FIRST_WAIT = 0.5
# Timeouts, a conflict (OpenAI's own clients repeat it), a generation that failed (text-generation-inference), too
# early, too many, Groq's tier without capacity, and a gateway that was left.
_PASSING = frozenset({408, 409, 424, 425, 429, 498, 499})
_NOT_IMPLEMENTED = 501
NO_ANSWER = 0


def is_passing(status: int) -> bool:
    """Whether another attempt may succeed. ``status`` is the HTTP status, or ``NO_ANSWER``."""
    return status in _PASSING or (status >= 500 and status != _NOT_IMPLEMENTED) or status == NO_ANSWER


def wait_before_retry(failures: int, asked: float | None, left: float) -> float | None:
    """Seconds to wait after that many ``failures``; None when there is no further attempt.

    ``asked`` is the wait that the endpoint asks for, if any; ``left`` is the remaining time of the request.
    """
    wait = asked if asked is not None else _FIRST_WAIT * 2 ** (failures - 1)
    return None if failures >= TRIES or wait >= left else wait


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the headers of an answer ask for: in milliseconds (OpenAI, Azure), in seconds, or as a date;
    None where they say none of these."""
    milliseconds = _seconds(headers.get("Retry-After-Ms", ""))
    return _seconds(headers.get("Retry-After", "")) if milliseconds is None else milliseconds / 1000


def _seconds(header: str) -> float | None:
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
