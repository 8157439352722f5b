"""When a request to a provider is tried again: the one policy for chat models and for embeddings.

Tried again is what may pass: 408, 429, 5xx, and a connection that breaks. A refusal (400, 401, 402, 403, 404 …) would
be the same the next time. The wait is what the endpoint asks for, else half a second that doubles; no try begins after
the time of the request.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TRIES = 5
_FIRST_WAIT = 0.5
_PASSING = frozenset({408, 429})
NO_ANSWER = 0


def is_passing(status: int) -> bool:
    """Whether it may go better next time. ``status`` is HTTP's, or ``NO_ANSWER``."""
    return status in _PASSING or status >= 500 or status == NO_ANSWER


def wait_before_retry(failures: int, asked: float | None, left: float) -> float | None:
    """Seconds to wait after so many ``failures``; None when there is no further try.

    ``asked`` is what the endpoint asks for, where it does, ``left`` what is left of the request's time.
    """
    wait = asked if asked is not None else _FIRST_WAIT * 2 ** (failures - 1)
    return None if failures >= TRIES or wait >= left else wait


def retry_after(header: str) -> float | None:
    """The seconds that a ``Retry-After`` header asks for, as a number or as a date; None where it says neither."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
