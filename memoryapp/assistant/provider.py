"""The provider of the settings, asked on behalf of a program: its answers pass through as they come.

The program's key of the provider is sent on and kept nowhere. What the provider says when it refuses is given OpenAI's
shape if it has another, and a key in it is replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx
from django.conf import settings

from memoryapp.engine.chat.cancellable_requests import CancellableRequest, TooLong, read_body
from memoryapp.engine.chat.redaction import redacted
from memoryapp.engine.chat.refusals import document_in, words_in

_CONNECT_SECONDS = 5.0
_MOST_BYTES = 50_000_000
# Sent on where the program brings a key of its own: they say whose account pays, and what is counted.
_FROM_PROGRAM = ("OpenAI-Organization", "OpenAI-Project", "OpenAI-Beta", "Idempotency-Key", "HTTP-Referer", "X-Title")
_FROM_PROVIDER = ("Retry-After", "Retry-After-Ms", "X-Request-Id", "X-Should-Retry", "OpenAI-Processing-Ms")
_LIMITS = "x-ratelimit-"


class ProviderFailed(Exception):
    """No answer came from the provider. ``status`` is that of a gateway, ``code`` a word for programs."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Payer:
    """Who pays: the program by its ``key`` with its own ``headers`` of the provider, or the key of the settings."""

    key: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, key: str, sent: Mapping[str, str]) -> Payer:
        """Returns the account of a program that sent this key, empty for that of the settings, and these headers."""
        if not key:
            return cls(settings.LLM_API_KEY, {})
        return cls(key, {name: sent[name] for name in _FROM_PROGRAM if name in sent})


async def ask(
    http: httpx.AsyncClient, account: Payer, path: str, body: Mapping[str, Any] | None = None
) -> httpx.Response:
    """Returns the provider's response, whose body is still to be read: to a POST of ``body``, or to a GET.

    Its caller closes it. Raises ProviderFailed. Cancelling the caller ends the request.
    """
    url = settings.LLM_BASE_URL.rstrip("/") + path
    headers = {**http.headers, "Content-Type": "application/json", **account.headers}
    if account.key:
        headers["Authorization"] = f"Bearer {account.key}"
    try:
        content = None if body is None else json.dumps(body).encode()
        within = httpx.Timeout(settings.CHAT_TIMEOUT, connect=_CONNECT_SECONDS)
        request = httpx.Request(
            "GET" if body is None else "POST",
            url,
            headers=headers,
            content=content,
            extensions={"timeout": within.as_dict()},
        )
        return await CancellableRequest(http, request).response()
    except (httpx.ConnectTimeout, httpx.PoolTimeout):
        raise ProviderFailed(502, "provider_unreachable", "The provider cannot be reached.") from None
    except httpx.TimeoutException:
        raise late() from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError):
        raise ProviderFailed(502, "provider_unreachable", "The provider cannot be reached.") from None


def stopper(response: httpx.Response) -> Callable[[], object]:
    """Returns what ends the response from any thread, also if nobody has begun to read it."""
    loop, asked = asyncio.get_running_loop(), cast(CancellableRequest, response.stream)
    return lambda: loop.call_soon_threadsafe(asked.stop)


def late() -> ProviderFailed:
    """What a silent provider is reported as."""
    sentence = f"The provider has sent nothing for {settings.CHAT_TIMEOUT:g} s (CHAT_TIMEOUT)."
    return ProviderFailed(504, "provider_late", sentence)


def broken_off() -> ProviderFailed:
    """What an answer without its end is reported as."""
    return ProviderFailed(502, "provider_failed", "The provider broke its answer off.")


async def whole(response: httpx.Response) -> bytes:
    """Returns the whole body of a response, and closes it. Raises ProviderFailed."""
    try:
        return (await read_body(response, _MOST_BYTES)).content
    except TooLong:
        raise ProviderFailed(502, "provider_failed", f"The provider's answer is over {_MOST_BYTES:,} bytes.") from None
    except httpx.TimeoutException:
        raise late() from None
    except httpx.HTTPError:
        raise broken_off() from None
    finally:
        await response.aclose()


async def whole_document(response: httpx.Response) -> bytes:
    """``whole`` of a response that is JSON, whatever it is called; a page of HTML is no answer of a model."""
    content = await whole(response)
    if document_in(content) is None:
        kind = response.headers.get("Content-Type", "").partition(";")[0] or "nothing readable"
        raise ProviderFailed(502, "provider_failed", f"The provider answered with {kind[:100]} instead of JSON.")
    return content


def error_body(status: int, content: bytes, account: Payer) -> dict[str, Any]:
    """Returns what the provider said when it refused, in OpenAI's shape and without the key."""
    document = document_in(content)
    error = document.get("error") if document else None
    if not (isinstance(error, dict) and isinstance(error.get("message"), str)):
        words = words_in(content) or f"The provider answered {status}."
        error = {"message": words, "type": "provider_error", "param": None, "code": None}
    cleaned: dict[str, Any] = {"error": redacted(redacted(error, account.key), settings.LLM_API_KEY)}
    return cleaned


def passed_headers(response: httpx.Response) -> dict[str, str]:
    """Returns those headers of the provider that programs act upon; one with other characters than ASCII's is
    dropped."""
    wanted = {name.lower(): name for name in _FROM_PROVIDER}
    return {
        wanted.get(name.lower(), name): value
        for name, value in response.headers.items()
        if (name.lower() in wanted or name.lower().startswith(_LIMITS)) and f"{name}{value}".isascii()
    }
