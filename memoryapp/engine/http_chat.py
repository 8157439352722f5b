"""A chat model behind any OpenAI-compatible endpoint.

One try is one POST; between tries the client learns (a capability given up, remembered on the instance)
or waits (408, 429, 5xx, a broken line, HTTP 200 that carries an error). All tries share the request's
seconds, and what failed tries were billed is added to the reply or to the error.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from memoryapp.engine.abilities import Abilities, body, ignored, refused
from memoryapp.engine.budget import Budget
from memoryapp.engine.completions import as_json, error_in, parse_reply, usage_of
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.llm import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, Reply, Usage

_TRIES = 5
_FIRST_WAIT = 0.5
_CONNECT_SECONDS = 5.0
_TRY_AGAIN = frozenset({408, 409, 425, 429})
# Endpoints refuse what they lack with these; 500 is what some small servers say instead of 400.
_MAY_NAME_AN_ABILITY = frozenset({400, 404, 405, 415, 422, 500, 501})

# By status; 0 is no answer at all. A redirect means a wrong address.
_ADVICE: Mapping[int, str] = {
    0: "cannot be reached",
    400: "did not understand the request",
    401: "does not accept the API key: check LLM_API_KEY",
    402: "says that the account has no credit left: top it up or use another key",
    403: "does not allow this request: check what the key may do, or the provider's moderation",
    404: "does not know the model or the address: check LLM_MODEL and LLM_BASE_URL",
    413: "finds the request too large: show the model fewer or shorter topics",
    422: "did not accept the request",
    429: "is limiting requests: wait, or raise the limit there",
}


@dataclass(frozen=True, slots=True)
class _Problem:
    """A try without a reply. ``status`` is HTTP's or the one inside a 200; ``said`` the endpoint's words."""

    status: int
    said: str
    spent: Usage = Usage()
    wait: float | None = None

    @property
    def is_passing(self) -> bool:
        return self.status in _TRY_AGAIN or self.status >= 500 or self.status == 0


class HttpChat:
    """One model at one endpoint; safe to share between requests of one event loop."""

    def __init__(self, client: httpx.AsyncClient, base_url: str, api_key: str, model: str) -> None:
        self.model = model
        self._client = client
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._host = urlsplit(base_url).netloc.rpartition("@")[2] or base_url
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._can = Abilities()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | Reply]:
        """Yields what happens on the way and at last the reply. Raises LLMError."""
        budget, spent, failures = Budget(request.seconds), Usage(), 0
        while True:
            can = self._can
            answer = await self._ask(body(self.model, request, can), budget, spent)
            lesson = self._lesson(request, can, answer)
            if lesson:
                spent += _billed(answer)
                yield lesson
                continue
            if isinstance(answer, Reply):
                yield _with_spent(answer, spent)
                return
            spent += answer.spent
            failures += 1
            wait = self._wait(answer, failures, budget, spent)
            yield Retried(failures, self._sentence(answer), wait)
            await asyncio.sleep(wait)
            budget.charge(wait)

    def _lesson(self, request: ChatRequest, can: Abilities, answer: Reply | _Problem) -> SteppedDown | None:
        """Give up the ability this answer shows to be missing, if it shows one."""
        learnt = None
        if isinstance(answer, Reply):
            if answer.text and not answer.tool_calls:
                learnt = ignored(request, can)
        elif answer.status in _MAY_NAME_AN_ABILITY:
            learnt = refused(request, can, answer.said)
        if learnt is None:
            return None
        self._can = learnt.applied(self._can)
        return learnt.step

    async def _ask(self, said: Mapping[str, Any], budget: Budget, spent: Usage) -> Reply | _Problem:
        """One try. Raises LLMTimeout when the budget ends."""
        left = max(budget.left, 0.001)
        try:
            async with budget.spending():
                response = await self._client.post(
                    self._url,
                    # ASCII escapes carry even a lone surrogate, on which UTF-8 would fail.
                    content=json.dumps(said).encode("ascii"),
                    headers=self._headers,
                    timeout=httpx.Timeout(left, connect=min(left, _CONNECT_SECONDS)),
                )
        except (httpx.ConnectTimeout, httpx.PoolTimeout):
            return _Problem(0, "no connection")
        except (TimeoutError, httpx.TimeoutException) as error:
            raise LLMTimeout(f"{self._host} gave no answer within {budget.spent:.1f} s.", spent=spent) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise LLMRefused(f"{self._host} cannot be asked ({error}): check LLM_BASE_URL.", spent=spent) from error
        except httpx.RequestError as error:
            return _Problem(0, str(error) or type(error).__name__)
        return _read(response)

    def _wait(self, problem: _Problem, failures: int, budget: Budget, spent: Usage) -> float:
        """Seconds until the next try. Raises LLMError when there is none."""
        sentence = self._sentence(problem)
        if not problem.is_passing:
            raise LLMRefused(sentence, spent=spent)
        wait = problem.wait if problem.wait is not None else _FIRST_WAIT * 2 ** (failures - 1)
        if failures >= _TRIES or wait >= budget.left:
            raise LLMUnavailable(sentence, spent=spent)
        return wait

    def _sentence(self, problem: _Problem) -> str:
        advice = _ADVICE.get(problem.status, "cannot answer now" if problem.status >= 400 else _ADVICE[404])
        detail = ", ".join(part for part in (f"{problem.status or ''}", problem.said[:300]) if part)
        return f"{self._host} {advice} ({detail})." if detail else f"{self._host} {advice}."


def _billed(answer: Reply | _Problem) -> Usage:
    if isinstance(answer, _Problem):
        return answer.spent
    return Usage(answer.input_tokens, answer.output_tokens, answer.cost_usd)


def _with_spent(reply: Reply, spent: Usage) -> Reply:
    total = _billed(reply) + spent
    return replace(reply, input_tokens=total.input_tokens, output_tokens=total.output_tokens, cost_usd=total.cost_usd)


def _read(response: httpx.Response) -> Reply | _Problem:
    said = as_json(response.content)
    wait = _retry_after(response.headers.get("Retry-After", ""))
    error = error_in(said)
    if response.status_code != 200:
        words = error.message if error else response.reason_phrase
        return _Problem(response.status_code, words, usage_of(said), wait)
    if said is None:
        return _Problem(502, "the answer is not JSON")
    if error:
        return _Problem(error.status, error.message, usage_of(said), wait)
    return parse_reply(said)


def _retry_after(value: str) -> float | None:
    """Seconds, from a number or an HTTP date."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
