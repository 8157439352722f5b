"""One attempt to deliver a message, whatever the receiver does: it ends within a time and reads a bounded answer.

By the specification Standard Webhooks 1.0: every 2xx is success, redirects are not followed, everything else is a
failure, and ``Retry-After`` is heeded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
from django.conf import settings

from memoryapp.engine.storable import storable
from memoryapp.outgoing.webhooks.addresses import PlaceRefused, at_place, places_of

# So much of an answer is read, and so much of it is kept.
_READ_BYTES, KEPT_CHARS = 4_096, 1_000
# What an answer consists of is known from its first line; its text is waited for no longer than this.
_TEXT_SECONDS = 2.0
_MOST_PLACES = 3
LONGEST_WAIT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it: ``fault`` is a code, empty after success; ``status`` and ``response`` are the receiver's, if it
    answered; ``wait`` is how long it asked to be left alone."""

    fault: str
    status: int | None = None
    response: str = ""
    seconds: float = 0.0
    wait: timedelta | None = None

    @property
    def is_delivered(self) -> bool:
        return not self.fault


def http_client() -> httpx.AsyncClient:
    """A client that follows nothing, keeps no cookie for the next receiver, and asks no proxy: the place is checked."""
    return httpx.AsyncClient(
        timeout=None, follow_redirects=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
    )


async def attempt(http: httpx.AsyncClient, address: str, headers: Mapping[str, str], body: bytes) -> Attempt:
    """Sends the message once. Never raises because of the receiver."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(settings.WEBHOOK_TIMEOUT):
            made = await _sent(http, httpx.URL(address), headers, body)
    except TimeoutError:
        made = Attempt("timeout")
    except PlaceRefused:
        made = Attempt("address")
    except (OSError, UnicodeError):
        made = Attempt("name")
    except httpx.ConnectError as error:
        made = Attempt("tls" if "ssl" in str(error).lower() or "certificate" in str(error).lower() else "refused")
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
        made = Attempt("broken")
    return replace(made, seconds=round(time.monotonic() - began, 3))


async def _sent(http: httpx.AsyncClient, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> Attempt:
    places = (await places_of(url))[:_MOST_PLACES]
    for place in places[:-1]:
        with suppress(httpx.ConnectError):
            return await _posted(http, *at_place(url, place), headers, body)
    return await _posted(http, *at_place(url, places[-1]), headers, body)


async def _posted(
    http: httpx.AsyncClient,
    url: httpx.URL,
    named: Mapping[str, str],
    extensions: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
) -> Attempt:
    # A packed answer could become very large.
    usual = {"content-type": "application/json", "user-agent": "Mnemoscope", "accept-encoding": "identity"}
    request = http.build_request(
        "POST", url, content=body, headers={**usual, **named, **headers}, extensions=dict(extensions)
    )
    response = await http.send(request, stream=True)
    try:
        text = await _beginning(response)
    finally:
        await response.aclose()
    return Attempt(_fault(response.status_code), response.status_code, text, wait=_wait(response))


def _fault(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if status == httpx.codes.GONE:
        return "gone"
    return "redirect" if 300 <= status < 400 else "status"


async def _beginning(response: httpx.Response) -> str:
    """The first characters of the answer, or what of them came in time."""
    read = bytearray()
    with suppress(TimeoutError, httpx.HTTPError, httpx.StreamError):
        async with asyncio.timeout(_TEXT_SECONDS):
            async for piece in response.aiter_raw():
                read += piece
                if len(read) >= _READ_BYTES:
                    break
    return storable(bytes(read[:_READ_BYTES]).decode("utf-8", "replace"))[:KEPT_CHARS].strip()


def _wait(response: httpx.Response) -> timedelta | None:
    """How long the receiver asks to be left alone: ``Retry-After`` in seconds or as a date, within a day."""
    given = response.headers.get("retry-after", "").strip()
    if not given:
        return None
    if given.isdecimal() and given.isascii() and len(given) < 10:
        asked = timedelta(seconds=int(given))
    else:
        try:
            asked = parsedate_to_datetime(given) - datetime.now(UTC)
        except (ValueError, TypeError):
            return None
    return min(max(asked, timedelta(0)), LONGEST_WAIT)
