"""How streams end and how their pieces belong together, as endpoints really send them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.engine.events import Retried
from memoryapp.engine.prompts.rerank import TOOL_NAME
from tests.engine.endpoint import END, FORCED, PLAIN, QUESTION, USAGE, Endpoint, delta, event, failure, reply, streams
from tests.engine.scripted import collect
from tests.support.clock import PATIENCE

ANSWER = '{"topics": [{"id": "Topic:1"}]}'


async def streamed(*pieces: bytes | Exception, request: ChatRequest = PLAIN) -> Reply:
    return await reply(Endpoint(streams(*pieces)), request, stream=True)


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
    whole = (delta("stop", content=ANSWER[:9]), None, delta("stop", content=ANSWER[9:]))
    async with asyncio.timeout(PATIENCE):
        assert (await reply(Endpoint(slowly(*paused)), request, stream=True)).text == "first second"
        got = await reply(Endpoint(slowly(*whole)), request, stream=True)
    assert (got.text, codes(got)) == (ANSWER, [])


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
    got = await streamed(delta(content=ANSWER))
    assert (got.text, codes(got)) == (ANSWER, ["stream_unended"])
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


@pytest.mark.parametrize(
    "pieces",
    [
        [[{"function": function('{"ids": [1]}')}], [{"function": function('{"ids": [2]}')}]],
        [[{"function": function('{"ids": [1]}')}, {"function": function('{"ids": [2]}')}]],
        [[{"index": 0, "function": function('{"ids": [1]}')}], [{"index": 0, "function": function('{"ids": [2]}')}]],
        [[{"index": 0, "id": "", "function": function('{"ids": [1]}{"ids": [2]}')}]],
        [
            [{"function": function("")}],
            [{"function": {"arguments": '{"ids": [1]}'}}],
            [{"function": function("")}],
            [{"function": {"arguments": '{"ids"'}}],
            [{"function": {"arguments": ": [2]}"}}],
        ],
        [
            [{"index": 0, "id": "a", "function": function("{}")}],
            [{"index": 0, "function": {"arguments": '{"ids": [1]}'}}],
            [{"index": 1, "id": "b", "function": function('{"ids": [2]}')}],
            [{"index": 1, "id": "b", "function": function('{"ids": [2]}')}],
        ],
        [
            [{"index": 0, "id": "a", "function": function('{"ids": ')}],
            [{"index": 0, "id": "b", "function": {"name": None, "arguments": "[1]}"}}],
            [{"index": 1, "id": "c", "function": function('{"ids": [2]}')}],
        ],
    ],
    ids=[
        *("two chunks", "one chunk", "all numbered 0", "joined by a gateway", "name and arguments apart"),
        *("an empty object before, and the same again", "an id for every chunk"),
    ],
)
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
