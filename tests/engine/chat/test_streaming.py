"""Streamed answers: assembled to the same as whole ones, shown while they grow, never accepted when cut off."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.chat import attempt
from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.chat.completions import EventStream, Transcript
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMTimeout, LLMUnavailable, PartialReply, Reply
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.prompts.rerank import TOOL_NAME
from tests.engine.endpoint import (
    END,
    FORCED,
    PLAIN,
    QUESTION,
    USAGE,
    Endpoint,
    calls_tool,
    delta,
    error,
    event,
    failure,
    reply,
    says,
    streams,
)
from tests.engine.scripted import collect
from tests.examples import table
from tests.support.clock import PATIENCE

ANSWER = (delta(role="assistant", content=""), delta(content="Приве"), delta(content="т\u2028!"), delta("stop"), USAGE)


async def streamed(*pieces: bytes | Exception, request: ChatRequest = PLAIN) -> Reply:
    return await reply(Endpoint(streams(*pieces)), request, stream=True)


def streaming_chat(answer: Callable[[httpx.Request], Awaitable[httpx.Response]]) -> HttpChat:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return HttpChat(client, "https://models.example/v1", "", "m", ChatOptions(stream=True))


async def test_a_streamed_answer_is_what_a_whole_one_would_be() -> None:
    endpoint = Endpoint(streams(*ANSWER, END))
    got = await reply(endpoint, stream=True)
    assert (got.text, got.finish_reason, got.model) == ("Привет\u2028!", "stop", "acme/flash-001")
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.cost_usd) == (100, 20, 0.5)
    assert got.message == {"role": "assistant", "content": "Привет\u2028!"}
    assert endpoint.bodies[0]["stream"] is True
    assert endpoint.bodies[0]["stream_options"] == {"include_usage": True}


@given(st.data())
def test_the_network_may_cut_a_stream_anywhere(data: Any) -> None:
    ends = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    whole = b"".join((b"\xef\xbb\xbf: OPENROUTER PROCESSING\n\n", *ANSWER, END)).replace(b"\n", ends)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=20)))
    events, heard = EventStream(), Transcript()
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        for payload in events.feed(whole[start:stop]):
            heard.add(payload)
    for payload in events.rest():
        heard.add(payload)
    assert heard.is_done
    assert heard.progress().text == "Привет\u2028!"
    assert heard.completion()["usage"]["cost"] == 0.5


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"choices": [{"delta": {"content": "hi"},\ndata: "finish_reason": "stop"}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "hi"}}]}\ndata: {"choices": [{"finish_reason": "stop"}]}\n\n',
        b'event: message\nid: 7\nretry: 10\ndata:{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}',
        b'data:\n\n: ping\n\ndata: {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}\n\n',
    ],
    ids=["one JSON on two lines", "no empty line between", "no end of line", "keep-alives and a whole message"],
)
async def test_events_are_read_however_they_are_written(stream: bytes) -> None:
    assert (await streamed(stream)).text == "hi"


async def test_an_answer_grows_before_the_readers_eyes() -> None:
    step = asyncio.Event()

    async def slowly(sent: httpx.Request) -> httpx.Response:
        async def content() -> AsyncIterator[bytes]:
            yield delta(reasoning="Let me see.")
            await step.wait()
            yield delta(content="Topic ") + delta(content="42") + delta("stop") + END

        return httpx.Response(200, content=content(), headers={"Content-Type": "text/event-stream"})

    chat = streaming_chat(slowly)
    steps = chat.converse(PLAIN)
    assert await anext(steps) == PartialReply("", "Let me see.")
    step.set()
    *_, got = await collect(steps)
    assert isinstance(got, Reply)
    assert (got.text, got.reasoning) == ("Topic 42", "Let me see.")


async def test_a_fast_stream_shows_itself_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr("memoryapp.engine.chat.attempt.time.monotonic", lambda: now[0])

    async def fast(sent: httpx.Request) -> httpx.Response:
        async def content() -> AsyncIterator[bytes]:
            for place in range(200):
                now[0] += 0.01
                yield delta(content=f"{place} ")
            yield delta("stop") + END

        return httpx.Response(200, content=content(), headers={"Content-Type": "text/event-stream"})

    steps = await collect(streaming_chat(fast).converse(PLAIN))
    shown = [step.text for step in steps if isinstance(step, PartialReply)]
    assert 15 < len(shown) <= 20
    assert all(later.startswith(earlier) for earlier, later in zip(shown, shown[1:], strict=False))


async def test_streamed_tool_calls_are_put_together_by_their_numbers() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"index": index, "function": function}

    got = await streamed(
        delta(tool_calls=[{"id": "a", "type": "function", **call(0, name=TOOL_NAME, arguments="")}]),
        delta(tool_calls=[call(0, arguments='{"ids"')]),
        delta(tool_calls=[{"id": "b", "type": "function", **call(1, name=TOOL_NAME, arguments='{"ids": [2]}')}]),
        delta(tool_calls=[call(0, arguments=": [1]}")]),
        delta("tool_calls"),
        USAGE,
        END,
        request=FORCED,
    )
    assert [(c.id, c.name, json.loads(c.arguments)) for c in got.tool_calls] == [
        ("a", TOOL_NAME, {"ids": [1]}),
        ("b", TOOL_NAME, {"ids": [2]}),
    ]
    function = {"name": TOOL_NAME, "arguments": '{"ids": [1]}'}
    assert got.message["tool_calls"][0] == {"id": "a", "type": "function", "function": function}


@pytest.mark.parametrize("numbers", [{}, {"index": 0}], ids=["without numbers", "all numbered 0"])
async def test_calls_that_differ_only_in_their_ids_stay_separate(numbers: dict[str, int]) -> None:
    def call(id: str, topic: int) -> dict[str, Any]:
        function = {"name": TOOL_NAME, "arguments": json.dumps({"ids": [topic]})}
        return {**numbers, "id": id, "function": function, "extra_content": {"google": {"thought_signature": id * 3}}}

    got = await streamed(delta(tool_calls=[call("a", 1), call("b", 2)]), delta("tool_calls"), END, request=FORCED)
    assert [json.loads(c.arguments) for c in got.tool_calls] == [{"ids": [1]}, {"ids": [2]}]
    assert got.message["tool_calls"][1]["extra_content"] == {"google": {"thought_signature": "bbb"}}


async def test_streamed_reasoning_details_come_back_as_the_endpoint_would_have_sent_them_whole() -> None:
    thought = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    secret = {"type": "reasoning.encrypted", "data": "abc", "id": "tool_1", "format": "google-gemini-v1", "index": 1}
    got = await streamed(
        delta(reasoning="I ", reasoning_details=[{**thought, "text": "I "}]),
        delta(reasoning="think", reasoning_details=[{**thought, "text": "think"}]),
        delta(reasoning_details=[{**thought, "text": None, "signature": "signed"}]),
        delta(reasoning_details=[secret]),
        delta(reasoning_details=[{**secret, "data": "def", "id": "tool_2"}]),
        delta(reasoning_details=[{**thought, "text": "anew"}]),
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": TOOL_NAME, "arguments": "{}"}}]),
        delta("tool_calls"),
        END,
        request=FORCED,
    )
    assert got.message["reasoning_details"] == [
        {**thought, "text": "I think", "signature": "signed"},
        secret,
        {**secret, "data": "def", "id": "tool_2"},
        {**thought, "text": "anew"},
    ]
    assert got.message["reasoning"] == got.reasoning == "I think"


async def test_thoughts_under_another_name_or_in_summaries_are_shown() -> None:
    got = await streamed(delta(reasoning_content="Hm"), delta(reasoning_content="m."), delta("stop", content="ok"))
    assert got.reasoning == "Hmm."
    parts = [delta(reasoning_details=[{"type": "reasoning.summary", "summary": part}]) for part in ("So", " be it.")]
    got = await streamed(*parts, delta("stop", content="ok"))
    assert got.reasoning == "So be it."
    assert got.message["reasoning_details"] == [{"type": "reasoning.summary", "summary": "So be it."}]


@pytest.mark.parametrize(
    "cut",
    [
        (delta(content="half an"),),
        (delta(content="half an"), httpx.RemoteProtocolError("peer closed connection")),
        (delta(content="half an"), httpx.ReadError("")),
        (delta(content="half an"), b'data: {"choices": [{"del'),
        (delta(content="half an"), b"data: {oops}\n\n", delta("stop"), END),
        (delta(content="half an"), b"data: [1]\n\n", delta("stop"), END),
        (END,),
        (b"",),
    ],
    ids=["ends", "disconnected", "broken", "cut in a chunk", "bad chunk", "no object", "only done", "empty"],
)
async def test_a_stream_that_does_not_say_how_it_ended_is_no_answer(
    cut: tuple[bytes | Exception, ...], waits: list[float]
) -> None:
    endpoint = Endpoint(streams(*cut), streams(*ANSWER, END))
    retried, got = [step async for step in endpoint.chat(stream=True).converse(PLAIN) if type(step) is not PartialReply]
    assert isinstance(retried, Retried)
    assert isinstance(got, Reply)
    assert got.text == "Привет\u2028!"
    assert waits == [0.5]


async def test_a_line_that_breaks_after_the_answer_is_complete_does_no_harm() -> None:
    for trouble in (httpx.ReadError("reset"), b"data: {oops}\n\n", b'data: {"cho'):
        got = await streamed(delta(content="hi"), delta("stop"), trouble)
        assert (got.text, got.finish_reason) == ("hi", "stop")


def stream_of(content: AsyncIterator[bytes]) -> httpx.Response:
    return httpx.Response(200, content=content, headers={"Content-Type": "text/event-stream"})


async def test_usage_counts_though_a_broken_chunk_stands_between_it_and_the_end_of_the_answer() -> None:
    got = await streamed(delta(content="hi"), delta("stop") + b"data: {oops}\n\n" + USAGE)
    assert (got.usage.input_tokens, got.usage.cost_usd) == (100, 0.5)


async def test_pings_after_the_end_of_an_answer_do_not_hold_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.engine.chat.attempt._USAGE_SECONDS", 0.05)

    async def pinging() -> AsyncIterator[bytes]:
        yield delta(content="hi") + delta("stop")
        while True:
            await asyncio.sleep(0.01)
            yield b": ping\n\n"

    async with asyncio.timeout(PATIENCE):
        got = await reply(Endpoint(lambda _: stream_of(pinging())), ChatRequest(QUESTION, seconds=600), stream=True)
    assert got.text == "hi"


async def test_a_server_that_never_closes_its_stream_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.engine.chat.attempt._USAGE_SECONDS", 0.01)

    async def open_end(sent: httpx.Request) -> httpx.Response:
        async def content() -> AsyncIterator[bytes]:
            yield delta(content="hi") + delta("stop")
            await asyncio.Event().wait()

        return httpx.Response(200, content=content(), headers={"Content-Type": "text/event-stream"})

    chat = streaming_chat(open_end)
    async with asyncio.timeout(PATIENCE):
        *_, got = await collect(chat.converse(ChatRequest(QUESTION, seconds=600)))
    assert isinstance(got, Reply)


async def test_a_stream_that_stalls_ends_with_the_time_given() -> None:
    async def stalls(sent: httpx.Request) -> httpx.Response:
        async def content() -> AsyncIterator[bytes]:
            yield delta(content="half an")
            await asyncio.Event().wait()

        return httpx.Response(200, content=content(), headers={"Content-Type": "text/event-stream"})

    chat = streaming_chat(stalls)
    with pytest.raises(LLMTimeout, match="no answer within"):
        await collect(chat.converse(ChatRequest(QUESTION, seconds=0.05)))


@pytest.mark.parametrize(
    "broken_off",
    [
        event(error={"code": 429, "message": "limit"}, choices=[{"delta": {"content": ""}, "finish_reason": "error"}]),
        event(error={"code": 502, "message": "provider disconnected", "metadata": {"error_type": "server"}}),
        event(choices=[{"delta": {}, "finish_reason": "error", "native_finish_reason": "MALFORMED_FUNCTION_CALL"}]),
        b'error: {"code": 500, "message": "slot unavailable"}\n\n',
        b"error: overloaded\n\n",
    ],
    ids=["with a finish reason", "alone", "as finish reason", "as a field of the event", "as text"],
)
async def test_an_error_in_the_middle_of_a_stream_is_tried_again_and_its_cost_kept(
    broken_off: bytes, waits: list[float]
) -> None:
    endpoint = Endpoint(streams(delta(content="half an"), USAGE, broken_off), streams(*ANSWER, END))
    got = await reply(endpoint, stream=True)
    assert got.text == "Привет\u2028!"
    assert got.usage.cost_usd == 1.0


async def test_a_refusal_in_the_middle_of_a_stream_is_a_refusal() -> None:
    endpoint = Endpoint(streams(event(error={"code": 402, "message": "no credit"})))
    assert isinstance(await failure(endpoint, stream=True), LLMRefused)
    assert len(endpoint.bodies) == 1


async def test_trouble_before_a_stream_begins_is_trouble_as_ever(waits: list[float]) -> None:
    endpoint = Endpoint(error(429, "slow down", **{"Retry-After": "2"}), streams(*ANSWER, END))
    assert (await reply(endpoint, stream=True)).text == "Привет\u2028!"
    assert waits == [2.0]
    assert isinstance(await failure(Endpoint(error(401, "no")), stream=True), LLMRefused)


async def test_a_whole_answer_in_place_of_a_stream_is_read_and_reported() -> None:
    step, got = await collect(Endpoint(says("hi")).chat(stream=True).converse(PLAIN))
    assert isinstance(step, SteppedDown)
    assert (step.capability, step.instead) == ("streaming", "off")
    assert isinstance(got, Reply)
    assert (got.text, got.usage.cost_usd) == ("hi", 0.5)


async def test_an_endpoint_that_refuses_streaming_is_asked_less_and_less() -> None:
    def strict(sent: dict[str, Any]) -> httpx.Response:
        for name in ("stream_options", "stream"):
            if name in sent:
                return error(422, f"{name}: Extra inputs are not permitted")
        return says("hi")

    *steps, got = await collect(Endpoint(strict).chat(stream=True).converse(PLAIN))
    assert [s.instead for s in steps if isinstance(s, SteppedDown)] == ["without usage", "off"]
    assert isinstance(got, Reply)


async def test_an_upstream_failure_is_no_refusal_to_stream(waits: list[float]) -> None:
    endpoint = Endpoint(error(500, "upstream error"), streams(*ANSWER, END))
    await reply(endpoint, stream=True)
    assert "stream" in endpoint.bodies[1]


async def test_an_error_or_nothing_readable_in_place_of_a_stream_teaches_nothing(waits: list[float]) -> None:
    failed = httpx.Response(200, json={"error": {"code": 502, "message": "provider failed"}})
    endpoint = Endpoint(failed, httpx.Response(200, content=b"<html>"), streams(*ANSWER, END))
    await reply(endpoint, stream=True)
    assert endpoint.bodies[2]["stream"] is True


async def test_a_stream_under_a_wrong_name_is_read_all_the_same(waits: list[float]) -> None:
    body = b"".join((b": hello\n\n", *ANSWER, END))
    endpoint = Endpoint(httpx.Response(200, content=body, headers={"Content-Type": "text/plain"}))
    (got,) = await collect(endpoint.chat(stream=True).converse(PLAIN))
    assert isinstance(got, Reply)
    assert got.text == "Привет\u2028!"
    assert isinstance(await failure(Endpoint(httpx.Response(200, content=body[:80])), stream=True), LLMUnavailable)


async def test_an_ignored_forced_choice_is_found_in_a_stream_too() -> None:
    endpoint = Endpoint(streams(*ANSWER, END), calls_tool())
    steps = await collect(endpoint.chat(stream=True).converse(FORCED))
    assert [s.capability for s in steps if isinstance(s, SteppedDown)] == ["forced tool choice", "streaming"]
    assert isinstance(steps[-1], Reply)
    assert steps[-1].usage.cost_usd == 1.0


async def test_a_stream_without_end_is_given_up(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.engine.chat.attempt._MOST_BYTES", 1_000)
    endpoint = Endpoint(lambda _: streams(*(delta(content="x" * 100) for _ in range(200))))
    assert "too long" in str(await failure(endpoint, stream=True))


async def test_a_line_without_end_is_given_up_and_never_copied_twice(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryapp.engine.chat.completions._MOST_EVENT_BYTES", 1_000)
    endpoint = Endpoint(lambda _: streams(b"data: ", *(b"x" * 100 for _ in range(50))))
    assert "too long" in str(await failure(endpoint, stream=True))
    events, chunk = EventStream(), b"x" * 1_000
    for _ in range(100):
        assert events.feed(chunk) == []
    assert all(part is chunk for part in events._line)


async def test_a_long_body_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    read_by: list[int] = []
    honest = attempt.parse_reply

    def parse(message: Mapping[str, Any]) -> Reply:
        read_by.append(threading.get_ident())
        return honest(message)

    monkeypatch.setattr(attempt, "parse_reply", parse)
    assert len((await reply(Endpoint(says("x" * 100_000)))).text) == 100_000
    assert (await reply(Endpoint(says("hi")))).text == "hi"
    assert read_by[0] != threading.get_ident() == read_by[1]


# How streams end and how their pieces belong together, as endpoints really send them.


ENDING_ANSWER = '{"topics": [{"id": "Topic:1"}]}'


def codes(got: Reply) -> list[str]:
    return [note.code for note in got.notes]


def counted(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    return event(choices=[choice], usage={"prompt_tokens": 1, "completion_tokens": 1})


@pytest.mark.parametrize("piece", [lambda text: delta("stop", content=text), counted], ids=["alone", "with usage"])
@pytest.mark.parametrize("end", [(END,), ()], ids=["done", "end of the connection"])
async def test_a_reason_with_every_chunk_cuts_nothing(piece: Any, end: tuple[bytes, ...]) -> None:
    """Gemini behind one-api and gcli2api gives ``stop`` with each chunk (songquanpeng/one-api#1477,
    BerriAI/litellm#2195, su-kaka/gcli2api#403)."""
    got = await streamed(*(piece(part) for part in ("Four ", "pieces ", "of one ", "answer.")), *end)
    assert got.text == "Four pieces of one answer."
    assert codes(got) == []


async def test_reasoning_and_calls_that_each_give_a_reason_are_one_reply() -> None:
    """su-kaka/gcli2api#403: ``stop`` with the thought, and again with the call."""
    call = {"index": 0, "id": "a", "function": {"name": TOOL_NAME, "arguments": '{"ids": [1]}'}}
    got = await streamed(delta("stop", reasoning_content="hm"), delta("stop", tool_calls=[call]), END, request=FORCED)
    assert (got.reasoning, [each.arguments for each in got.tool_calls]) == ("hm", ['{"ids": [1]}'])


def slowly(*pieces: bytes | None) -> httpx.Response:
    """A stream that yields to other work at each None, and never closes."""

    async def content() -> AsyncIterator[bytes]:
        for piece in pieces:
            if piece is None:
                await asyncio.sleep(0.05)
            else:
                yield piece
        await asyncio.Event().wait()

    return httpx.Response(200, content=content(), headers={"Content-Type": "text/event-stream"})


async def test_silence_ends_an_answer_only_where_it_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause after a reason that came with text is no end; after an empty delta, or whole JSON, it is."""
    monkeypatch.setattr("memoryapp.engine.chat.attempt._USAGE_SECONDS", 0.01)
    request = ChatRequest(QUESTION, seconds=600)
    paused = (delta("stop", content="first "), None, delta("stop", content="second"), None, delta("stop"))
    whole = (delta("stop", content=ENDING_ANSWER[:9]), None, delta("stop", content=ENDING_ANSWER[9:]))
    async with asyncio.timeout(PATIENCE):
        assert (await reply(Endpoint(slowly(*paused)), request, stream=True)).text == "first second"
        got = await reply(Endpoint(slowly(*whole)), request, stream=True)
    assert (got.text, codes(got)) == (ENDING_ANSWER, [])


async def test_an_answer_that_falls_silent_is_taken_before_the_time_is_over_and_says_so() -> None:
    pieces = (delta("stop", content="perhaps more follows"),)
    async with asyncio.timeout(PATIENCE):
        got = await reply(Endpoint(slowly(*pieces)), ChatRequest(QUESTION, seconds=0.5), stream=True)
    assert (got.text, codes(got)) == ("perhaps more follows", ["stream_silent"])


@pytest.mark.parametrize(
    "pieces",
    [
        (delta(content="in May"), END),
        (delta(content="in May"), USAGE, END),
        (event(choices=[{"delta": {"content": "in May"}, "finish_reason": ""}]), END),
    ],
    ids=["done", "counted", "an empty reason"],
)
async def test_done_ends_an_answer_without_a_reason(pieces: tuple[bytes, ...]) -> None:
    """Gemini's compatible API at times, and gateways (jakobdylanc/llmcord#84)."""
    (got,) = [
        step async for step in Endpoint(streams(*pieces)).chat(stream=True).converse(PLAIN) if isinstance(step, Reply)
    ]
    assert (got.text, codes(got)) == ("in May", ["stream_unended"])


async def test_a_reason_under_another_name_is_one() -> None:
    """jakobdylanc/llmcord#84: only ``finishReason`` in Gemini's last chunk."""
    last = event(choices=[{"delta": {"content": "."}, "finish_reason": None, "finishReason": "stop"}])
    got = await streamed(delta(content="in May"), last)
    assert (got.text, got.finish_reason, codes(got)) == ("in May.", "stop", [])


async def test_whole_json_and_whole_calls_need_no_end() -> None:
    got = await streamed(delta(content=ENDING_ANSWER))
    assert (got.text, codes(got)) == (ENDING_ANSWER, ["stream_unended"])
    call = {"id": "a", "function": {"name": TOOL_NAME, "arguments": '{"ids": [1]}'}}
    got = await streamed(delta(tool_calls=[call]), request=FORCED)
    assert [each.arguments for each in got.tool_calls] == ['{"ids": [1]}']


async def test_an_endpoint_that_never_says_the_end_of_a_text_costs_one_more_request(waits: list[float]) -> None:
    """A text that breaks off looks like one that is over: only the second of the kind is taken for the latter."""
    endpoint = Endpoint(lambda _: streams(delta(content="in May")))
    steps = await collect(endpoint.chat(stream=True).converse(PLAIN))
    got = steps[-1]
    assert isinstance(got, Reply)
    assert (got.text, codes(got)) == ("in May", ["stream_unended"])
    assert [type(step) for step in steps if not isinstance(step, PartialReply)] == [Retried, Reply]


async def test_a_call_that_breaks_off_is_never_taken(waits: list[float]) -> None:
    half = {"id": "a", "function": {"name": TOOL_NAME, "arguments": '{"ids": [1'}}
    whole = {"id": "a", "function": {"name": TOOL_NAME, "arguments": '{"ids": [12]}'}}
    torn = streams(delta(tool_calls=[half]))
    endpoint = Endpoint(torn, streams(delta(tool_calls=[half])), streams(delta(tool_calls=[whole]), END))
    got = await reply(endpoint, FORCED, stream=True)
    assert [each.arguments for each in got.tool_calls] == ['{"ids": [12]}']


def function(arguments: str, name: str = TOOL_NAME) -> dict[str, str]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize("pieces", table("separate_calls").values(), ids=table("separate_calls"))
async def test_whole_calls_without_numbers_and_ids_stay_separate(pieces: list[list[dict[str, Any]]]) -> None:
    """NousResearch/hermes-agent#57939 and #62937, omnigent-ai/omnigent#28, su-kaka/gcli2api#406,
    open-webui/computer#224: parallel calls of Gemini, each of its own in the stream."""
    chunks = [delta(tool_calls=calls) for calls in pieces]
    got = await streamed(*chunks, delta("stop"), END, request=FORCED)
    assert [json.loads(each.arguments) for each in got.tool_calls] == [{"ids": [1]}, {"ids": [2]}]
    assert len({each.id for each in got.tool_calls}) == 2
    assert [json.loads(each["function"]["arguments"]) for each in got.message["tool_calls"]] == [
        {"ids": [1]},
        {"ids": [2]},
    ]


@pytest.mark.parametrize("mark", [{"id": "a"}, {"index": 0}], ids=["by its id", "by its number"])
async def test_a_call_whose_name_is_repeated_stays_one(mark: dict[str, Any]) -> None:
    """Some servers repeat the name with each piece, or once more at the end."""
    pieces = ('{"ids"', ": [1]}", "")
    chunks = [delta(tool_calls=[{**mark, "function": function(piece)}]) for piece in pieces]
    got = await streamed(*chunks, delta("tool_calls"), END, request=FORCED)
    assert [(each.name, each.arguments) for each in got.tool_calls] == [(TOOL_NAME, '{"ids": [1]}')]


async def test_a_signature_that_comes_alone_belongs_to_the_call_before() -> None:
    """open-webui/computer#224: Gemini's thought signature in a delta of its own."""
    call = {"id": "a", "type": "function", "function": function('{"ids": [1]}')}
    sign = {"extra_content": {"google": {"thought_signature": "SIG=="}}}
    got = await streamed(delta(tool_calls=[call]), delta(tool_calls=[sign]), delta("stop"), END, request=FORCED)
    assert got.message["tool_calls"][0]["extra_content"] == sign["extra_content"]


async def test_the_older_single_call_is_read_whole_and_in_pieces() -> None:
    """OpenAI's ``function_call``, which gateways still send."""
    pieces = (function('{"ids"'), {"arguments": ": [1]}"})
    got = await streamed(*(delta(function_call=piece) for piece in pieces), delta("function_call"), END, request=FORCED)
    assert [(each.name, each.arguments) for each in got.tool_calls] == [(TOOL_NAME, '{"ids": [1]}')]


WHOLE = "Four pieces of one answer."


def whole_so_far(end: int, reason: str | None = None, **more: Any) -> bytes:
    message = {"role": "assistant", "content": WHOLE[:end]}
    return event(choices=[{"index": 0, "message": message, "finish_reason": reason, **more}])


@pytest.mark.parametrize(
    "pieces",
    [
        (whole_so_far(5), whole_so_far(11), whole_so_far(26), whole_so_far(26, "stop")),
        (whole_so_far(5, delta={"content": WHOLE[:5]}), whole_so_far(26, "stop", delta={"content": WHOLE[5:]})),
        (delta(content=WHOLE), whole_so_far(26, "stop")),
        (delta(content=WHOLE), whole_so_far(26, "stop", delta={})),
        (b": OPENROUTER PROCESSING\n\n", b"data: keep-alive\n\n", delta(content=WHOLE), delta("stop")),
        (delta(content=WHOLE), delta("stop"), event(error={"code": 502, "message": "late"})),
        (event(choices=[{"index": 1, "delta": {"content": "Or"}}]), delta(content=WHOLE), delta("stop")),
    ],
    ids=["messages", "both", "a message last", "both last", "signs of life", "an error after the end", "two choices"],
)
async def test_no_text_is_doubled_mixed_or_asked_for_again(pieces: tuple[bytes, ...], waits: list[float]) -> None:
    """Perplexity sends the whole message with every chunk, others at the end; OpenRouter's documentation of comments;
    proxies that keep a stream alive with words."""
    endpoint = Endpoint(streams(*pieces, END))
    assert (await reply(endpoint, stream=True)).text == WHOLE
    assert len(endpoint.bodies) == 1


async def test_chunks_of_one_line_each_are_a_stream_and_an_error_event_is_quoted(waits: list[float]) -> None:
    chunks = (delta(content=WHOLE[:9]), delta("stop", content=WHOLE[9:]))
    lines = [chunk.removeprefix(b"data: ").strip() for chunk in chunks]
    body = httpx.Response(200, content=b"\n".join(lines), headers={"Content-Type": "application/x-ndjson"})
    assert (await reply(Endpoint(body), stream=True)).text == WHOLE
    whole = json.dumps({"choices": [{"message": {"content": WHOLE}, "finish_reason": "stop"}]}).encode()
    assert (await reply(Endpoint(streams(whole)), stream=True)).text == WHOLE, "JSON that is only called a stream"
    assert (await reply(Endpoint(streams(delta(content=WHOLE), b'data: "[DONE]"\n\n')), stream=True)).text == WHOLE
    failing = Endpoint(lambda _: streams(b"event: error\ndata: upstream connect error\n\n"))
    assert "upstream connect error" in str(await failure(failing, stream=True))
