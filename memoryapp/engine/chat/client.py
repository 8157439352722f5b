"""A chat model behind any OpenAI-compatible endpoint.

Between attempts the client either learns (it gives up an ability, and remembers that for the endpoint and model) or
waits (after 408, 429, 5xx, a broken connection or stream, or an error inside HTTP 200). All attempts share the seconds
of the request. What failed attempts were billed is added to the reply or to the error."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx

from memoryapp.engine.budget import Budget, Usage
from memoryapp.engine.chat.attempt import AttemptEnd, Problem, attempt, wait_before_retry
from memoryapp.engine.chat.capabilities import Abilities, Learnt, Lesson, forces
from memoryapp.engine.chat.envelopes import opened
from memoryapp.engine.chat.lessons import failed_generation, ignored, refused, silent_failure, unstreamed
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, PartialReply, Reply
from memoryapp.engine.chat.refusals import growing, holds, redacted, teaches
from memoryapp.engine.chat.sent_messages import sent_messages
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.notes import ENGLISH, Note, english
from memoryapp.engine.threads import in_thread_if_long

# The JSON body of a chat request, by what the endpoint can do.

_STREAMED: Mapping[str, Mapping[str, Any]] = {
    "with usage": {"stream": True, "stream_options": {"include_usage": True}},
    "without usage": {"stream": True},
    "off": {},
}


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The operator's options for an endpoint.

    An empty ``reasoning_effort`` is not sent. ``response_healing`` is OpenRouter's repair of broken JSON; it works only
    on whole answers, so turns with an answer format are then not streamed. ``provider`` is OpenRouter's routing object;
    ``fallback_models`` are asked in order when the model cannot answer."""

    stream: bool = False
    reasoning_effort: str = "low"
    response_healing: bool = False
    provider: Mapping[str, Any] = field(default_factory=dict)
    fallback_models: tuple[str, ...] = ()


def request_body(model: str, request: ChatRequest, can: Abilities, options: ChatOptions) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": sent_messages(request, can), **_tools(request, can)}
    if request.answer_schema is not None:
        body |= _response_format(request.answer_schema, can.format_with_tools if "tools" in body else can.format_alone)
    if can.schemas == "plain":
        body |= {name: _plain(body[name]) for name in ("tools", "response_format") if name in body}
    body |= _effort(options.reasoning_effort, can.effort)
    if options.response_healing and "response_format" in body:
        body["plugins"] = [{"id": "response-healing"}]
    elif options.stream or can.must_stream:
        body |= _STREAMED[can.stream]
    wanted = {"provider": dict(options.provider), "models": list(options.fallback_models)}
    return body | {name: value for name, value in wanted.items() if value}


def _effort(effort: str, rung: str) -> dict[str, Any]:
    if not effort or rung == "none":
        return {}
    return {"reasoning": {"effort": effort}} if rung == "reasoning" else {"reasoning_effort": effort}


def _tools(request: ChatRequest, can: Abilities) -> dict[str, Any]:
    if can.tools == "described":
        return {}
    if request.tools_off and not request.tools:
        # Where tools and an answer format do not work together, the last turn asks for the format.
        costs_format = request.answer_schema is not None and can.format_with_tools == "none"
        declared = can.declares_unused_tools and not costs_format
        return {"tools": list(request.tools_off), "tool_choice": "none"} if declared else {}
    choice = _tool_choice(request, can)
    if not request.tools or choice == "no tools":
        return {}
    tools = list(request.tools)
    return {"tools": tools} if choice == "unsaid" else {"tools": tools, "tool_choice": choice}


def _tool_choice(request: ChatRequest, can: Abilities) -> str | dict[str, Any]:
    if not forces(request, can):
        return can.free_choice
    if can.forced_choice == "function":
        return {"type": "function", "function": {"name": request.force_tool}}
    return can.forced_choice


def _plain(value: Any) -> Any:
    """``value`` without the words that not every endpoint knows in a schema."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if key not in ("additionalProperties", "strict")}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _response_format(schema: Mapping[str, Any], rung: str) -> dict[str, Any]:
    if rung == "json_schema":
        named = {"name": "answer", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if rung == "json_object" else {}


_SERVER_ERROR, _BAD_GATEWAY = 500, 502


class HttpChat:
    """One model at one endpoint. Requests of one event loop may share it."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        base_url: str,
        api_key: str,
        model: str,
        options: ChatOptions | None = None,
        learnt: Learnt | None = None,
    ) -> None:
        self.model = model
        self._client = client
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._host = urlsplit(base_url).netloc.rpartition("@")[2] or base_url
        self._headers = client.headers.copy()
        self._headers["Content-Type"] = "application/json"
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._key = api_key
        self._options = options or ChatOptions()
        self._learnt = learnt or Learnt()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]:
        """Yields events on the way, and last the reply. Raises LLMError."""
        self._check_media(request)
        budget, spent, failures, can = Budget(request.seconds), Usage(), 0, self._learnt.can
        guess: Lesson | None = None
        while True:
            body = request_body(self.model, request, can, self._options)
            answer = AttemptEnd(Problem(0, "no answer"))
            async with aclosing(self._ask(body, budget, spent)) as steps:
                async for step in steps:
                    if isinstance(step, AttemptEnd):
                        answer = step
                    else:
                        yield step
            came = answer.outcome
            size = len(came.text) + len(came.reasoning) if isinstance(came, Reply) else 0
            outcome = await in_thread_if_long(_as_it_is_meant, came, request, failures, size=size)
            if answer.streamed:
                self._learnt.streamed(can)
            elif isinstance(outcome, Reply) and "stream" in body:
                whole = unstreamed(can)
                yield self._learnt.learn(whole)
                can = whole.applied(can)
            lesson = _lesson(body, request, can, outcome, failures)
            if lesson:
                spent += outcome.usage
                yield self._learnt.learn(lesson)
                can, guess = lesson.applied(can), lesson if lesson.is_guess else guess
            elif isinstance(outcome, Reply):
                self._obeyed(body, request, can, outcome)
                if guess:
                    self._learnt.helped(guess)
                yield replace(outcome, usage=outcome.usage + spent)
                return
            else:
                spent += outcome.usage
                failures += 1
                # Guesses that did not help are taken back.
                can, guess = (self._learnt.can, None) if guess else (can, None)
                if self._learnt.media_refused(request, outcome.status, outcome.words):
                    raise LLMRefused(self._note(outcome), spent=spent, status=outcome.status)
                wait = self._wait(outcome, failures, budget, spent)
                yield self._retried(outcome, failures, wait)
                await asyncio.sleep(wait)
                budget.charge(wait)

    def _obeyed(self, body: Mapping[str, Any], request: ChatRequest, can: Abilities, reply: Reply) -> None:
        """Notes what a reply shows that the endpoint can do."""
        self._learnt.media_taken(request)
        if reply.tool_calls:
            self._learnt.honoured(request, can)
        elif "response_format" in body:
            self._learnt.formatted(can)

    def _check_media(self, request: ChatRequest) -> None:
        """Raises LLMRefused for media that would be refused again; the caller then continues without them."""
        refusal = self._learnt.refusal_of_media(request)
        if refusal:
            raise LLMRefused(
                f"{self._host} was not asked with what is attached, for it refused the like before: {refusal}"
            )

    def _retried(self, problem: Problem, failures: int, wait: float) -> Retried:
        billed, note = problem.usage, self._note(problem)
        return Retried(
            failures, english([note]), wait, billed.input_tokens, billed.output_tokens, billed.cost_usd, (note,)
        )

    async def _ask(
        self, body: Mapping[str, Any], budget: Budget, spent: Usage
    ) -> AsyncGenerator[PartialReply | AttemptEnd, None]:
        """One attempt; nothing that it yields contains the API key. Raises LLMTimeout when the budget ends."""
        try:
            async with aclosing(attempt(self._client, self._url, self._headers, body, budget)) as steps:
                async for step in steps:
                    if isinstance(step, PartialReply):
                        yield PartialReply(growing(step.text, self._key), growing(step.reasoning, self._key))
                    else:
                        # In a thread, because a long answer has many values to search.
                        yield await asyncio.to_thread(redacted, step, self._key) if holds(step, self._key) else step
        except (httpx.ConnectTimeout, httpx.PoolTimeout):
            yield AttemptEnd(Problem(0, "no connection"))
        except (TimeoutError, httpx.TimeoutException) as error:
            late = Note("endpoint_late", {"host": self._host, "seconds": budget.spent})
            raise LLMTimeout(late, spent=spent) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            unaskable = Note("endpoint_unaskable", {"host": self._host, "quoted": str(error)})
            raise LLMRefused(unaskable, spent=spent) from error
        except httpx.RequestError as error:
            yield AttemptEnd(Problem(0, redacted(str(error), self._key) or type(error).__name__))

    def _wait(self, problem: Problem, failures: int, budget: Budget, spent: Usage) -> float:
        """Seconds until the next attempt. Raises LLMError when there is none."""
        note = self._note(problem)
        if not problem.is_passing:
            raise LLMRefused(note, spent=spent, status=problem.status)
        wait = wait_before_retry(failures, problem.wait, budget.left)
        if wait is None:
            raise LLMUnavailable(note, spent=spent, status=problem.status)
        return wait

    def _note(self, problem: Problem) -> Note:
        """By the status, where it says what is wrong; a redirect is a sign of a wrong address."""
        status = problem.status
        known = f"endpoint_{status}" if f"endpoint_{status}" in ENGLISH else ""
        code = known or ("endpoint_failing" if status >= 400 else "endpoint_404" if status else "endpoint_unreachable")
        return Note(code, {"host": self._host, "status": status, "quoted": problem.words[:300].rstrip(".")})


def _as_it_is_meant(outcome: Reply | Problem, request: ChatRequest, failures: int) -> Reply | Problem:
    """The outcome with its call or answer where they belong. A second reply without an end is how all end here."""
    if isinstance(outcome, Problem):
        if not (outcome.unended and failures):
            return outcome
        return opened(outcome.unended, request)
    reply = opened(outcome, request)
    if not (request.answer_schema and reply.breaks_off) or reply.is_at_limit:
        return reply
    half = reply.noted("reply_breaks_off")
    return half if failures else Problem(_BAD_GATEWAY, "the answer breaks off", half.usage, unended=half)


def _lesson(
    body: Mapping[str, Any], request: ChatRequest, can: Abilities, outcome: Reply | Problem, failures: int
) -> Lesson | None:
    """The lesson that an answer to a request's ``body`` teaches, if any."""
    if isinstance(outcome, Problem):
        if outcome.is_failed_generation:
            # The model may succeed the next time.
            return failed_generation(body, request, can, outcome.words) if failures else None
        if (
            outcome.status == _SERVER_ERROR
            and failures == 1
            and (guess := silent_failure(body, request, can, outcome.words))
        ):
            return guess
        return refused(body, request, can, outcome.words) if teaches(outcome.status, outcome.words) else None
    rather_answered = outcome.text and not outcome.tool_calls and not outcome.declined
    return ignored(request, can) if rather_answered else None
