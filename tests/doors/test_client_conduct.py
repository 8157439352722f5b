"""What both clients do when the server refuses, is late, breaks off or is somebody else, and that they work again."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
from mnemoscope_client import (
    AsyncMnemoscope,
    InvalidError,
    Mnemoscope,
    MnemoscopeError,
    NotYetError,
    RefusedError,
    RunEvent,
    TooManyRequestsError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
)

RUN = "8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11"
STORED = {"added": 1, "skipped": 0, "rejected": []}
USED = {"used": ["Topic:1"], "unused": [], "uses": [], "recall": "found"}
Reply = httpx.Response | Exception


def refused(status: int, code: str, *, after: str = "", **more: Any) -> httpx.Response:
    headers = {"Retry-After": after} if after else {}
    return httpx.Response(status, headers=headers, json={"error": {"code": code, "message": "No.", **more}})


def event(seq: int, kind: str = "turn_started", **payload: Any) -> str:
    return f"event: {kind}\nid: {seq}\ndata: {json.dumps(payload)}\n\n"


class Broken(httpx.AsyncByteStream, httpx.SyncByteStream):
    """Pieces of a body, and then the connection is gone."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from (piece.encode() for piece in self.pieces)
        raise httpx.ReadError("reset by peer")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def stream(*pieces: str, broken: bool = False) -> httpx.Response:
    headers = {"Content-Location": f"/v1/runs/{RUN}"}
    body = Broken(*pieces) if broken else None
    return httpx.Response(200, headers=headers, stream=body, text=None if body else "".join(pieces))


class Script:
    """Replies in turn, requests as they came, and the pauses between them in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_awaited: bool) -> None:
        self.is_awaited = is_awaited
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []
        self.replies: Iterator[Reply] = iter(())

        async def paused(seconds: float) -> None:
            self.pauses.append(seconds)

        monkeypatch.setattr(time, "sleep", self.pauses.append)
        monkeypatch.setattr(asyncio, "sleep", paused)

    def reply(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self.replies)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def play(self, use: Callable[[Any], Any], *replies: Reply, **options: Any) -> Any:
        """Returns what ``use`` of a client brings while the server replies so; of a stream, all its events."""
        self.replies = iter(replies)
        options = {"user": "anna", **options}
        transport = httpx.MockTransport(self.reply)
        if not self.is_awaited:
            with Mnemoscope("http://memory", "mnemo_x", transport=transport, **options) as client:
                answer = use(client)
                return list(answer) if isinstance(answer, Iterator) else answer
        async with AsyncMnemoscope("http://memory", "mnemo_x", transport=transport, **options) as waiting:
            answer = use(waiting)
            return [each async for each in answer] if isinstance(answer, AsyncIterator) else await answer


@pytest.fixture(params=[False, True], ids=["waits", "awaited"])
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch, request.param)


def pending(after: str = "10", **more: Any) -> httpx.Response:
    headers = {"Retry-After": after, "Location": "/v1/sessions/closed?user=anna&first=1&last=2"}
    body = {"message": "Not yet.", "url": "http://memory/v1/sessions/closed?user=anna&first=1&last=2", **more}
    return httpx.Response(202, headers=headers, json=body)


def remember(client: Any) -> Any:
    return client.remember("Hello")


def recall(client: Any) -> Any:
    return client.recall("Which cake?")


async def test_a_message_is_sent_again_under_the_same_id(script: Script) -> None:
    replies = [refused(503, "unavailable", after="2"), httpx.ReadError("reset"), httpx.Response(200, json=STORED)]
    stored = await script.play(remember, *replies)
    assert (stored.added, script.pauses) == (1, [2.0, 0.2])
    assert len({request.content for request in script.requests}) == 1
    assert script.requests[0].headers["Authorization"] == "Bearer mnemo_x"


async def test_a_recall_that_may_have_begun_is_not_asked_twice(script: Script) -> None:
    with pytest.raises(UnavailableError) as away:
        await script.play(recall, refused(503, "unavailable", after="5"))
    assert away.value.retry_after == 5.0
    with pytest.raises(UnreachableError, match="reset"):
        await script.play(recall, httpx.ReadError("reset"))
    with pytest.raises(UnreachableError, match="silent for too long"):
        await script.play(recall, httpx.ReadTimeout("60 s"))
    assert len(script.requests) == 3
    # Nobody listened, or there was no room: nothing can have begun.
    replies = [httpx.ConnectError("refused"), refused(429, "too_many_requests", after="1"), refused(404, "not_found")]
    with pytest.raises(RefusedError, match="404 not_found"):
        await script.play(recall, *replies)
    assert script.pauses == [0.2, 1.0]


async def test_a_wait_that_is_too_long_is_left_to_the_program(script: Script) -> None:
    with pytest.raises(TooManyRequestsError) as limited:
        await script.play(recall, refused(429, "too_many_requests", after="90"))
    assert (limited.value.retry_after, limited.value.code, script.pauses) == (90.0, "too_many_requests", [])
    with pytest.raises(TooManyRequestsError):
        await script.play(remember, *[refused(429, "too_many_requests", after="1")] * 2, retries=1)
    assert (await script.play(remember, httpx.Response(200, json=STORED))).added == 1


async def test_a_refusal_keeps_what_programs_need(script: Script) -> None:
    rejected = [{"index": 0, "id": "m1", "reason": "no text"}]
    with pytest.raises(InvalidError) as invalid:
        await script.play(remember, refused(422, "invalid", rejected=rejected))
    assert (invalid.value.message, invalid.value.details) == ("No.", {"rejected": rejected})


@pytest.mark.parametrize("page", ["<html>Welcome</html>", '{"added": "many"}', "[1]", ""])
async def test_somebody_else_at_the_address_is_noticed(script: Script, page: str) -> None:
    with pytest.raises(UnreadableAnswerError):
        await script.play(remember, httpx.Response(200, text=page))
    with pytest.raises(RefusedError, match="502 error"):
        await script.play(remember, httpx.Response(502, text=page))
    assert (await script.play(remember, httpx.Response(200, json=STORED))).added == 1


async def test_a_stream_that_breaks_goes_on_where_it_was(script: Script) -> None:
    events: Sequence[RunEvent] = await script.play(
        lambda client: client.recall_events("Which cake?"),
        stream(": nothing new yet\n\n", event(1, query="Which cake?"), event(2)[:-9], broken=True),
        refused(503, "unavailable", after="2"),
        httpx.ConnectError("refused"),
        stream(event(1), event(2), event(3), broken=True),
        stream(event(4, "run_finished", fallback="")),
    )
    assert [(each.run, each.seq) for each in events] == [(RUN, 1), (RUN, 2), (RUN, 3), (RUN, 4)]
    assert events[-1].payload == {"fallback": ""}
    asked = [(request.method, request.headers.get("Last-Event-ID")) for request in script.requests]
    assert asked == [("POST", None), ("GET", "1"), ("GET", "1"), ("GET", "1"), ("GET", "3")]
    assert {request.url.path for request in script.requests[1:]} == {f"/v1/runs/{RUN}/stream"}


async def test_a_stream_that_brings_nothing_ends(script: Script) -> None:
    with pytest.raises(UnreachableError, match="broke off") as broken:
        await script.play(lambda client: client.watch(RUN, after=3), *[stream()] * 9)
    assert (broken.value.run, len(script.requests), script.requests[0].headers["Last-Event-ID"]) == (RUN, 6, "3")
    with pytest.raises(UnreachableError, match="reset"):
        await script.play(lambda client: client.recall_events("Which cake?"), httpx.ReadError("reset"))
    with pytest.raises(UnreadableAnswerError):
        await script.play(lambda client: client.watch(RUN), stream("id: one\ndata: {}\n\n"))
    [last] = await script.play(lambda client: client.watch(RUN), stream(event(1, "run_finished")))
    assert last.kind == "run_finished"


async def test_an_answer_that_breaks_off_names_its_run(script: Script) -> None:
    begun = event(0, "run", run=RUN)
    for broken in (stream(begun, broken=True), stream(begun)):
        with pytest.raises(UnreachableError, match="broke off") as left:
            await script.play(lambda client: client.ask("Which cake?", agent=True), broken)
        assert left.value.run == RUN
    with pytest.raises(UnavailableError):
        await script.play(lambda client: client.ask("Which cake?", agent=True), refused(503, "unavailable"))


async def test_a_call_without_a_chat_user_is_not_sent(script: Script) -> None:
    with pytest.raises(MnemoscopeError, match="Name the chat user"):
        await script.play(recall, user=None)
    assert script.requests == []
    with pytest.raises(ValueError, match="no address"):
        Mnemoscope("memory:8000", "mnemo_x")
    assert (await script.play(lambda client: client.answered(RUN, "A."), httpx.Response(200, json=USED))).uses == ()


async def test_ids_cannot_reach_another_address(script: Script) -> None:
    with pytest.raises(RefusedError):
        await script.play(lambda client: client.topic("../users/anna?x=1#"), refused(404, "not_found"))
    assert script.requests[0].url.raw_path == b"/v1/topics/..%2Fusers%2Fanna%3Fx%3D1%23"


async def test_work_that_goes_on_is_asked_for_at_its_address_until_it_is_done(script: Script) -> None:
    done = httpx.Response(200, json={"topics": []})
    assert await script.play(lambda client: client.close_sessions(), pending(), pending(), done) == ()
    assert script.pauses == [10.0, 10.0]
    assert [(each.method, each.url.path) for each in script.requests] == [
        ("POST", "/v1/sessions/close"),
        *[("GET", "/v1/sessions/closed")] * 2,
    ]


async def test_work_that_goes_on_for_too_long_is_said_with_its_address_and_the_next_call_works(script: Script) -> None:
    with pytest.raises(NotYetError) as late:
        await script.play(lambda client: client.close_sessions(), *[pending()] * 4)
    assert (late.value.url.partition("?")[0], late.value.retry_after) == ("http://memory/v1/sessions/closed", 10.0)
    with pytest.raises(NotYetError) as going:
        await script.play(recall, pending("5", run=RUN))
    assert going.value.run == RUN
    assert (await script.play(remember, httpx.Response(200, json=STORED))).added == 1
