"""The client for programs with an event loop: the methods of ``Mnemoscope``, awaited."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx

from mnemoscope_client import calls
from mnemoscope_client.calls import Call, StreamCall
from mnemoscope_client.errors import refusal_of
from mnemoscope_client.sending import PENDING, Connecting, answer_in, named, request_after, request_of, unreachable
from mnemoscope_client.shapes import (
    Answered,
    FoundTopics,
    MadeDecision,
    Reason,
    Recalled,
    Receipt,
    Remembered,
    RunEvent,
    Shape,
    StoredRun,
    TopicHead,
    UsedMemory,
)
from mnemoscope_client.streams import AnswerStream, RunStream

Answer = TypeVar("Answer", bound=Shape)


class AsyncMnemoscope:
    """A memory at an address, for programs with an event loop.

    ``user`` is the chat user of every call that names none. With a ``project`` every call reads and writes in that one,
    beside what is common to all. ``timeout`` are the seconds in which the server has to
    say something, ``retries`` how often a request is sent again if that is safe and may help, and ``longest_wait`` how
    many seconds of ``Retry-After`` are waited for. ``transport`` is one of httpx.

    Every method raises RefusedError for a refusal and UnreachableError if there is no answer.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        user: str | None = None,
        project: str = "",
        timeout: float = 60.0,
        retries: int = 2,
        longest_wait: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.user = user
        self._connecting = Connecting(url, token, timeout, retries, longest_wait, project)
        self._http = httpx.AsyncClient(**self._connecting.options(), transport=transport)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def remember(
        self, messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]], *, user: str | None = None
    ) -> Remembered:
        """Stores up to 1,000 messages, each once. A text alone is said by the user, now."""
        return await self.send(calls.remember(self._named(user), messages))

    async def recall(
        self,
        query: str,
        *,
        user: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        media: Sequence[Mapping[str, Any]] = (),
        strategy: str | None = None,
        parameters: Mapping[str, Any] = {},
        include: Sequence[str] = (),
        as_of: str | None = None,
    ) -> Recalled:
        """Asks the memory, and waits for what it chooses. ``messages`` are the end of the running conversation;
        ``include`` adds the ``messages`` of each chosen topic, or the ``passages`` that answer;
        ``as_of`` is a day or a moment (ISO 8601) whose memory is searched."""
        body = calls.recall_body(self._named(user), query, messages, media, strategy, parameters, include, as_of)
        return await self.send(calls.recall(body))

    def recall_events(
        self,
        query: str,
        *,
        user: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        media: Sequence[Mapping[str, Any]] = (),
        strategy: str | None = None,
        parameters: Mapping[str, Any] = {},
    ) -> AsyncGenerator[RunEvent, None]:
        """Asks the memory, and yields each event of the run as it happens, until ``run_finished``. The run goes on if
        the program leaves."""
        body = calls.recall_body(self._named(user), query, messages, media, strategy, parameters)
        return self._events(calls.recall_events(body))

    async def ask(
        self,
        question: str,
        *,
        user: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        parameters: Mapping[str, Any] = {},
        agent: bool = False,
    ) -> Answered:
        """Answers in words, with citations: by one search, or in several steps with ``agent``."""
        body = calls.question_body(self._named(user), question, messages, parameters)
        return await (self._answer(calls.ask_agent(body)) if agent else self.send(calls.ask(body)))

    async def answered(self, run: UUID | str, text: str) -> UsedMemory:
        """Says what the assistant answered with what a finished run handed over; returns what of it was used."""
        return await self.send(calls.answered(run, text))

    def watch(self, run: UUID | str, *, after: int = 0) -> AsyncGenerator[RunEvent, None]:
        """Yields the events of a run after number ``after`` as they happen, until ``run_finished``. A connection that
        breaks off is made again."""
        return self._events(calls.watch(run), str(run), after)

    async def run(self, run: UUID | str) -> StoredRun:
        """Returns a run, with what it chose once it has finished."""
        return await self.send(calls.run(run))

    async def why_not(self, run: UUID | str, *, topic: str = "", message: str = "", text: str = "") -> Reason:
        """Says why a finished run did not choose a topic, a message, or what some words say; give one of the three."""
        return await self.send(calls.why_not(run, topic=topic, message=message, text=text))

    async def topic(self, id: str) -> FoundTopics:
        """Returns a topic with its messages; if it is retired, the topics that contain them now."""
        return await self.send(calls.topic(id))

    async def topics(self, *, user: str | None = None) -> AsyncIterator[TopicHead]:
        """Yields all topics of a chat user, page after page."""
        name, after = self._named(user), ""
        while True:
            page = await self.send(calls.topics(name, after))
            for head in page.topics:
                yield head
            if not page.next:
                return
            after = page.next

    async def close_sessions(self, session: str | None = None, *, user: str | None = None) -> tuple[TopicHead, ...]:
        """Ends the active sessions, or the one with that label; returns the topics that they became."""
        return (await self.send(calls.close_sessions(self._named(user), session))).topics

    async def decide(self, id: str, recall: str, *, reason: str = "", user: str | None = None) -> MadeDecision:
        """Decides how a topic, a person or a fact is recalled: ``pinned``, ``never`` or ``usual``."""
        return await self.send(calls.decide(self._named(user), id, recall, reason))

    async def forget(self, message: str, *, user: str | None = None) -> Receipt:
        """Erases a message everywhere. This cannot be undone."""
        return await self.send(calls.forget(self._named(user), message))

    async def send(self, call: Call[Answer]) -> Answer:
        """Sends a request of ``mnemoscope_client.calls``, such as those of items, which have no method of their own."""
        attempts = self._connecting.attempts(is_repeatable=call.is_repeatable)
        request = request_of(call)
        while True:
            try:
                response = await self._http.request(**request)
            except httpx.TransportError as error:
                await asyncio.sleep(attempts.after_failure(error))
                continue
            if response.status_code == PENDING:
                await asyncio.sleep(attempts.until_done(response))
                request = request_after(response)
            elif response.is_success:
                return answer_in(response, call.shape)
            else:
                await asyncio.sleep(attempts.after(response))

    def _named(self, user: str | None) -> str:
        return named(user, self.user)

    async def _events(self, call: StreamCall, run: str = "", after: int = 0) -> AsyncGenerator[RunEvent, None]:
        stream = RunStream(call, self._connecting.attempts(is_repeatable=bool(run)), run, after)
        while not stream.is_over:
            broken: httpx.TransportError | None = None
            try:
                async with aclosing(self._connected(stream)) as connected:
                    async for event in connected:
                        yield event
            except httpx.TransportError as error:
                broken = error
            if not stream.is_over:
                await asyncio.sleep(stream.pause(broken))

    async def _connected(self, stream: RunStream) -> AsyncGenerator[RunEvent, None]:
        """Yields the events of one connection."""
        call = stream.call
        async with self._http.stream(call.method, call.path, json=call.body, headers=stream.headers()) as response:
            if not response.is_success:
                await response.aread()
                stream.refused(response)
                return
            stream.opened(response)
            async for line in response.aiter_lines():
                if event := stream.read(line):
                    yield event
                    if stream.is_over:
                        return

    async def _answer(self, call: StreamCall) -> Answered:
        stream = AnswerStream()
        try:
            async with self._http.stream(call.method, call.path, json=call.body) as response:
                if not response.is_success:
                    await response.aread()
                    raise refusal_of(response)
                async for line in response.aiter_lines():
                    if answer := stream.read(line):
                        return answer
        except httpx.TransportError as error:
            raise (stream.broken(error) if stream.run else unreachable(error)) from error
        raise stream.broken(None)
