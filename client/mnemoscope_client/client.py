"""The client for programs that wait."""

import time
from collections.abc import Iterator, Mapping, Sequence
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


class Mnemoscope:
    """A memory at an address, for programs that wait. It may be used by several threads.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.user = user
        self._connecting = Connecting(url, token, timeout, retries, longest_wait, project)
        self._http = httpx.Client(**self._connecting.options(), transport=transport)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def remember(
        self, messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]], *, user: str | None = None
    ) -> Remembered:
        """Stores up to 1,000 messages, each once. A text alone is said by the user, now."""
        return self.send(calls.remember(self._named(user), messages))

    def recall(
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
        return self.send(calls.recall(body))

    def recall_events(
        self,
        query: str,
        *,
        user: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        media: Sequence[Mapping[str, Any]] = (),
        strategy: str | None = None,
        parameters: Mapping[str, Any] = {},
    ) -> Iterator[RunEvent]:
        """Asks the memory, and yields each event of the run as it happens, until ``run_finished``. The run goes on if
        the program leaves."""
        body = calls.recall_body(self._named(user), query, messages, media, strategy, parameters)
        return self._events(calls.recall_events(body))

    def ask(
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
        return self._answer(calls.ask_agent(body)) if agent else self.send(calls.ask(body))

    def answered(self, run: UUID | str, text: str) -> UsedMemory:
        """Says what the assistant answered with what a finished run handed over; returns what of it was used."""
        return self.send(calls.answered(run, text))

    def watch(self, run: UUID | str, *, after: int = 0) -> Iterator[RunEvent]:
        """Yields the events of a run after number ``after`` as they happen, until ``run_finished``. A connection that
        breaks off is made again."""
        return self._events(calls.watch(run), str(run), after)

    def run(self, run: UUID | str) -> StoredRun:
        """Returns a run, with what it chose once it has finished."""
        return self.send(calls.run(run))

    def why_not(self, run: UUID | str, *, topic: str = "", message: str = "", text: str = "") -> Reason:
        """Says why a finished run did not choose a topic, a message, or what some words say; give one of the three."""
        return self.send(calls.why_not(run, topic=topic, message=message, text=text))

    def topic(self, id: str) -> FoundTopics:
        """Returns a topic with its messages; if it is retired, the topics that contain them now."""
        return self.send(calls.topic(id))

    def topics(self, *, user: str | None = None) -> Iterator[TopicHead]:
        """Yields all topics of a chat user, page after page."""
        name, after = self._named(user), ""
        while True:
            page = self.send(calls.topics(name, after))
            yield from page.topics
            if not page.next:
                return
            after = page.next

    def close_sessions(self, session: str | None = None, *, user: str | None = None) -> tuple[TopicHead, ...]:
        """Ends the active sessions, or the one with that label; returns the topics that they became."""
        return self.send(calls.close_sessions(self._named(user), session)).topics

    def decide(self, id: str, recall: str, *, reason: str = "", user: str | None = None) -> MadeDecision:
        """Decides how a topic, a person or a fact is recalled: ``pinned``, ``never`` or ``usual``."""
        return self.send(calls.decide(self._named(user), id, recall, reason))

    def forget(self, message: str, *, user: str | None = None) -> Receipt:
        """Erases a message everywhere. This cannot be undone."""
        return self.send(calls.forget(self._named(user), message))

    def send(self, call: Call[Answer]) -> Answer:
        """Sends a request of ``mnemoscope_client.calls``, such as those of items, which have no method of their own."""
        attempts = self._connecting.attempts(is_repeatable=call.is_repeatable)
        request = request_of(call)
        while True:
            try:
                response = self._http.request(**request)
            except httpx.TransportError as error:
                time.sleep(attempts.after_failure(error))
                continue
            if response.status_code == PENDING:
                time.sleep(attempts.until_done(response))
                request = request_after(response)
            elif response.is_success:
                return answer_in(response, call.shape)
            else:
                time.sleep(attempts.after(response))

    def _named(self, user: str | None) -> str:
        return named(user, self.user)

    def _events(self, call: StreamCall, run: str = "", after: int = 0) -> Iterator[RunEvent]:
        stream = RunStream(call, self._connecting.attempts(is_repeatable=bool(run)), run, after)
        while not stream.is_over:
            broken: httpx.TransportError | None = None
            try:
                yield from self._connected(stream)
            except httpx.TransportError as error:
                broken = error
            if not stream.is_over:
                time.sleep(stream.pause(broken))

    def _connected(self, stream: RunStream) -> Iterator[RunEvent]:
        """Yields the events of one connection."""
        call = stream.call
        with self._http.stream(call.method, call.path, json=call.body, headers=stream.headers()) as response:
            if not response.is_success:
                response.read()
                return stream.refused(response)
            stream.opened(response)
            for line in response.iter_lines():
                if event := stream.read(line):
                    yield event
                    if stream.is_over:
                        return

    def _answer(self, call: StreamCall) -> Answered:
        stream = AnswerStream()
        try:
            with self._http.stream(call.method, call.path, json=call.body) as response:
                if not response.is_success:
                    response.read()
                    raise refusal_of(response)
                for line in response.iter_lines():
                    if answer := stream.read(line):
                        return answer
        except httpx.TransportError as error:
            raise (stream.broken(error) if stream.run else unreachable(error)) from error
        raise stream.broken(None)
