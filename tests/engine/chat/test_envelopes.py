"""Tool calls, answers and bodies in the wrong envelope: each is read, and the reply says so."""

import html
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, LLMUnavailable, Reply
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.prompts.rerank import TOOL, TOOL_NAME
from tests.engine.endpoint import (
    END,
    FORCED,
    FREE,
    LAST,
    PLAIN,
    Endpoint,
    calls_tool,
    delta,
    error,
    failure,
    reply,
    says,
    steps_of,
    streams,
)
from tests.engine.scripted import collect
from tests.examples import table

ANSWER = {"topics": [{"id": "Topic:42", "reason": "because"}], "people": [], "artifacts": []}
IDS = '{"ids": [42, 18]}'
NAMED = f'{{"name": "{TOOL_NAME}", "arguments": {IDS}}}'
WRITTEN = table("written_calls")


def codes(got: Reply) -> list[str]:
    return [note.code for note in got.notes]


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
async def test_a_call_that_was_written_as_text_is_a_call(text: str) -> None:
    """What servers leave in the content: ollama/ollama-vscode#20, vllm-project/vllm#21571, #25560 and #22917 (Llama 4),
    shell-nlp/gpt_server#47, jundot/omlx#2565, ggml-org/llama.cpp#22786, anomalyco/opencode#26162,
    sgomez/ollama-ai-provider#11, and the chat templates of these families."""
    (got,) = await collect(Endpoint(says(text)).chat().converse(FORCED))
    assert isinstance(got, Reply)
    assert [(call.name, json.loads(call.arguments)) for call in got.tool_calls] == [(TOOL_NAME, {"ids": [42, 18]})]
    assert codes(got) == ["call_in_text"]
    (sent,) = got.message["tool_calls"]
    assert (sent["id"], sent["function"]["name"]) == (got.tool_calls[0].id, TOOL_NAME)
    assert len(sent["id"]) == 9


async def test_several_written_calls_are_several() -> None:
    """sgomez/ollama-ai-provider#11: one object behind the other."""
    other = NAMED.replace("42, 18", "7")
    for text in (
        f"{NAMED} {other}",
        f"<tool_call>{NAMED}</tool_call>\n<tool_call>{other}</tool_call>",
        f"[{NAMED}, {other}]",
    ):
        got = await reply(Endpoint(says(text)), FORCED)
        assert [json.loads(call.arguments) for call in got.tool_calls] == [{"ids": [42, 18]}, {"ids": [7]}]


@pytest.mark.parametrize("text", table("no_calls").values(), ids=table("no_calls"))
async def test_what_only_speaks_of_a_call_is_none(text: str) -> None:
    got = await reply(Endpoint(says(text)), FREE)
    assert (got.tool_calls, codes(got), got.text) == ((), [], text)


async def test_a_call_is_read_only_where_its_tool_was_offered() -> None:
    assert (await reply(Endpoint(says(NAMED)), PLAIN)).tool_calls == ()
    assert len((await reply(Endpoint(says(NAMED)), LAST)).tool_calls) == 1


async def test_a_written_call_does_not_count_as_an_ignored_forced_choice() -> None:
    steps = await collect(Endpoint(says(NAMED)).chat().converse(FORCED))
    assert not [step for step in steps if isinstance(step, SteppedDown)]


async def test_a_call_within_the_reasoning_of_an_empty_reply_is_read() -> None:
    """Qwen3 behind a wrong parser: everything stands in the reasoning (vllm-project/vllm, ``--reasoning-parser``)."""
    got = await reply(Endpoint(says("", reasoning_content=f"I load them.\n<tool_call>{NAMED}</tool_call>")), FORCED)
    assert [json.loads(call.arguments) for call in got.tool_calls] == [{"ids": [42, 18]}]
    assert codes(got) == ["call_in_reasoning"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("shape", [dict, lambda call: {"0": call}, lambda call: json.dumps([call])])
async def test_calls_that_are_no_list_are_calls(shape: Any, stream: bool) -> None:
    """One object in place of the list, calls by their numbers, and the list as a text."""
    call = {"id": "t1", "type": "function", "function": {"name": TOOL_NAME, "arguments": IDS}}
    whole, pieces = says(None, tool_calls=shape(call)), streams(delta(tool_calls=shape(call)), delta("tool_calls"), END)
    got = await reply(Endpoint(pieces if stream else whole), FORCED, stream=stream)
    assert [(each.id, each.arguments) for each in got.tool_calls] == [("t1", IDS)]
    assert got.message["tool_calls"] == [call]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (TOOL_NAME.title(), IDS),
        (TOOL_NAME.replace("_", "-"), IDS),
        (TOOL_NAME, html.escape(IDS)),
        (TOOL_NAME, f'{{"arguments": {IDS}}}'),
        (TOOL_NAME, json.dumps({"parameters": IDS})),
    ],
    ids=["capitals", "dashes", "escaped", "wrapped", "wrapped as a text"],
)
async def test_a_call_that_is_nearly_right_is_put_right_and_so_goes_back(name: str, arguments: str) -> None:
    """Gateways that rename tools, and models that repeat the envelope (acon96/home-llm#349)."""
    got = await reply(Endpoint(calls_answer(name, arguments)), FORCED)
    assert [(call.name, json.loads(call.arguments)) for call in got.tool_calls] == [(TOOL_NAME, {"ids": [42, 18]})]
    assert codes(got) == ["reply_straightened"]
    (sent,) = got.message["tool_calls"]
    assert (sent["function"]["name"], json.loads(sent["function"]["arguments"])) == (TOOL_NAME, {"ids": [42, 18]})


@pytest.mark.parametrize("text", [f"<tool_call>{html.escape(NAMED)}</tool_call>", html.escape(WRITTEN["Hermes, Qwen"])])
async def test_a_written_call_is_read_without_its_escapes(text: str) -> None:
    got = await reply(Endpoint(says(text)), FORCED)
    assert [json.loads(call.arguments) for call in got.tool_calls] == [{"ids": [42, 18]}]
    assert codes(got) == ["reply_straightened", "call_in_text"]


async def test_an_escaped_answer_is_read_and_words_about_escapes_stay() -> None:
    got = await reply(Endpoint(says(html.escape(json.dumps(ANSWER)))), FREE)
    assert (json.loads(got.text), codes(got)) == (ANSWER, ["reply_straightened"])
    words = "In HTML a quotation mark is &quot; and so on."
    assert (await reply(Endpoint(says(words)), PLAIN)).text == words


async def test_calls_in_the_formats_of_others_are_calls() -> None:
    """Anthropic's parts, and a call without OpenAI's inner object."""
    part = {"type": "tool_use", "id": "t1", "name": TOOL_NAME, "input": {"ids": [42]}}
    flat = {"id": "t1", "name": TOOL_NAME, "arguments": {"ids": [42]}}
    for answer in (says([{"type": "text", "text": "so"}, part]), says(None, tool_calls=[flat])):  # type: ignore[arg-type]
        got = await reply(Endpoint(answer), FORCED)
        assert [(call.id, json.loads(call.arguments)) for call in got.tool_calls] == [("t1", {"ids": [42]})]


def calls_answer(name: str, arguments: Any) -> httpx.Response:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return says(None, tool_calls=[{"id": "c1", "type": "function", "function": {"name": name, "arguments": written}}])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("json_tool_call", ANSWER),
        ("json", ANSWER),
        ("answer", {"topics": ANSWER["topics"]}),
        ("final_answer", {"answer": ANSWER}),
        ("select_topics", ANSWER),
        ("answer", json.dumps(json.dumps(ANSWER))),
        ("answer", {key: json.dumps(value) for key, value in ANSWER.items()}),
    ],
    ids=["LiteLLM", "the AI SDK", "in part", "wrapped", "any name", "encoded twice", "lists as texts"],
)
async def test_an_answer_given_as_the_call_of_a_tool_is_the_answer(name: str, arguments: Any) -> None:
    """LiteLLM makes a tool ``json_tool_call`` of an answer format, and the AI SDK one named ``json``
    (antropia-studio/linguito#21); the calls of both reach clients."""
    got = await reply(Endpoint(calls_answer(name, arguments)), FREE)
    assert (got.tool_calls, codes(got)) == ((), ["answer_in_call"])
    assert json.loads(got.text)["topics"] == ANSWER["topics"]
    assert got.message == {"role": "assistant", "content": got.text}


async def test_a_call_of_an_unknown_tool_without_an_answer_stays_one() -> None:
    got = await reply(Endpoint(calls_answer("search_web", {"query": "Georgia"})), FREE)
    assert [call.name for call in got.tool_calls] == ["search_web"]


@pytest.mark.parametrize("text", table("unpacked_answers").values(), ids=table("unpacked_answers"))
async def test_json_written_into_a_text_of_json_is_unpacked(text: str) -> None:
    got = await reply(Endpoint(says(text)), LAST)
    assert (json.loads(got.text), codes(got)) == (ANSWER, ["answer_in_text"])


async def test_an_answer_that_a_server_decoded_is_read_and_a_filter_is_one_by_any_name() -> None:
    """Gateways that decode the content; Google's reasons, handed through."""
    message = {"message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    got = await reply(Endpoint(httpx.Response(200, json={"choices": [message]})), LAST)
    assert json.loads(got.text) == ANSWER
    for reason in ("SAFETY", "content_filter: PROHIBITED_CONTENT"):
        choice = {"message": {"content": ""}, "finish_reason": reason}
        got = await reply(Endpoint(httpx.Response(200, json={"choices": [choice]})), LAST)
        assert got.declined == "content_filter"


async def test_an_answer_that_came_as_it_should_is_left_as_it_is() -> None:
    text = json.dumps({**ANSWER, "topics": [{"id": "Topic:42", "reason": '{"quoted": "json"}'}]}, indent=1)
    got = await reply(Endpoint(says(text)), LAST)
    assert (got.text, codes(got)) == (text, [])


async def test_an_answer_at_the_end_of_the_reasoning_of_an_empty_reply_is_the_answer() -> None:
    """Qwen behind vLLM with a reasoning parser: the content is empty, the answer stands in ``reasoning_content``."""
    draft = json.dumps({**ANSWER, "topics": []})
    got = await reply(Endpoint(says("", reasoning_content=f"Perhaps {draft}? No. {json.dumps(ANSWER)}")), LAST)
    assert (json.loads(got.text), codes(got)) == (ANSWER, ["answer_in_reasoning"])
    cut = await reply(Endpoint(says("", reasoning_content=f"Perhaps {draft}? No, because")), LAST)
    assert cut.text == ""


@pytest.mark.parametrize(
    "content",
    [
        "[THINK]May or June?[/THINK]In May.",
        "<thought>May or June?</thought>In May.",
        "<thinking>May or June?</thinking>\n\nIn May.",
        "◁think▷May or June?◁/think▷In May.",
        "<|channel|>analysis<|message|>May or June?<|end|><|channel|>final<|message|>In May.<|return|>",
    ],
    ids=["Mistral", "Gemma", "others", "Kimi", "gpt-oss"],
)
async def test_reasoning_in_the_marks_of_each_family_is_no_part_of_the_answer(content: str) -> None:
    got = await reply(Endpoint(says(content)))
    assert (got.text, got.reasoning) == ("In May.", "May or June?")


async def test_hostile_text_is_read_in_bounded_time() -> None:
    for text in (
        f"{TOOL_NAME}(" * 20_000,
        "<tool_call>" + "[" * 40_000 + TOOL_NAME,
        f'{{"name": "{TOOL_NAME}", ' * 8_000,
    ):
        got = await reply(Endpoint(says(text), calls_tool()), ChatRequest(PLAIN.messages, tools=(TOOL,)))
        assert len(got.tool_calls) <= 64


@pytest.mark.parametrize(
    "arguments",
    [
        f'{IDS}{{"ids": [',
        f'{IDS}{{"ids": [4}}',
        f'{{"ids": [42{IDS}',
        f"{IDS} I will read these.",
        f"Reading. {IDS}",
        f"{{{IDS}}}",
    ],
    ids=["its beginning again", "a broken one", "behind a beginning", "prose behind", "prose before", "in braces"],
)
async def test_a_whole_object_among_the_arguments_of_a_call_is_the_call(arguments: str) -> None:
    """What streams that were joined wrongly leave (simonw/llm#1130, lidge-jun/opencodex#361); the first whole object
    counts, and goes back to the endpoint alone."""
    call = {"id": "c1", "type": "function", "function": {"name": TOOL_NAME, "arguments": arguments}}
    got = await reply(Endpoint(says("", tool_calls=[call])), FORCED)
    assert [json.loads(each.arguments) for each in got.tool_calls] == [{"ids": [42, 18]}]
    assert json.loads(got.message["tool_calls"][0]["function"]["arguments"]) == {"ids": [42, 18]}
    assert codes(got) == ["reply_straightened"]


# Answers in bodies that are not what they are called: JSON in place of a stream, glued ends, envelopes, limits.


TEXT = '{"topics": [{"id": "Topic:42"}]}'
CHOICE = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
WHOLE: dict[str, Any] = {"choices": [CHOICE], "usage": {"prompt_tokens": 100, "completion_tokens": 20}}
ONE_LINE = json.dumps(WHOLE).encode()


@pytest.mark.parametrize(
    "body",
    [
        ONE_LINE,
        json.dumps(WHOLE, indent=2).encode(),
        ONE_LINE + b"data: [DONE]\n\n",
        ONE_LINE + b"\n\ndata: [DONE]\n\n",
    ],
    ids=["a line", "indented", "with an end", "with an end below"],
)
@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for a whole answer"])
@pytest.mark.parametrize("called", ["text/event-stream", "application/json"])
async def test_json_is_read_whatever_it_is_called_and_whatever_is_glued_to_it(
    body: bytes, stream: bool, called: str
) -> None:
    """decolua/9router#3492 and #3301, aaamoon/copilot-gpt4-service#176."""
    response = httpx.Response(200, content=body, headers={"Content-Type": called})
    got = await reply(Endpoint(response), stream=stream)
    assert (got.text, got.usage.output_tokens) == (TEXT, 20)


@pytest.mark.parametrize(
    "start", [b"id: 0\n", b"retry: 3000\n\n", b"\xef\xbb\xbf", b": hi\n\n"], ids=["id", "retry", "a mark", "a comment"]
)
async def test_a_stream_under_a_wrong_name_is_known_by_any_of_its_fields(start: bytes) -> None:
    body = start + delta(content=TEXT) + delta("stop") + END
    got = await reply(Endpoint(httpx.Response(200, content=body, headers={"Content-Type": "text/plain"})), stream=True)
    assert got.text == TEXT


async def test_one_chunk_that_is_the_whole_stream_is_an_answer() -> None:
    line = delta("stop", content=TEXT).removeprefix(b"data: ")
    body = httpx.Response(200, content=line, headers={"Content-Type": "application/x-ndjson"})
    assert (await reply(Endpoint(body), stream=True)).text == TEXT


@pytest.mark.parametrize("envelope", [{"code": 0, "msg": "success", "data": WHOLE}, {"success": True, "result": WHOLE}])
async def test_an_answer_in_the_envelope_of_a_gateway_is_no_error(envelope: Any) -> None:
    """Cloudflare's own addresses put ``result`` around, other gateways ``data`` beside ``code`` and ``msg``."""
    assert (await reply(Endpoint(httpx.Response(200, json=envelope)))).text == TEXT


async def test_whole_json_counts_though_the_connection_breaks_behind_it() -> None:
    """A gateway that closes without a last chunk (anomalyco/opencode#39968)."""
    endpoint = Endpoint(streams(delta(content=TEXT), httpx.RemoteProtocolError("incomplete chunked read")))
    got = await reply(endpoint, stream=True)
    assert (got.text, codes(got), len(endpoint.bodies)) == (TEXT, ["stream_unended"], 1)


async def test_json_that_breaks_off_before_done_is_asked_for_once_more(waits: list[float]) -> None:
    """``[DONE]`` alone ends a text as well as half of one; JSON says which."""
    half, whole = streams(delta(content=TEXT[:20]), END), streams(delta(content=TEXT), END)
    steps = await collect(Endpoint(half, whole).chat(stream=True).converse(PLAIN))
    assert [step.attempt for step in steps if isinstance(step, Retried)] == [1]
    got = steps[-1]
    assert isinstance(got, Reply)
    assert got.text == TEXT


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS"])
async def test_a_reply_that_ran_into_its_limit_says_so(reason: str) -> None:
    got = await reply(Endpoint(streams(delta(content=TEXT[:20]), delta(reason), END)), stream=True)
    assert codes(got) == ["reply_at_limit"]
    answer = {"choices": [{**CHOICE, "finish_reason": reason}]}
    assert codes(await reply(Endpoint(httpx.Response(200, json=answer)))) == ["reply_at_limit"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_call_that_google_could_not_read_is_tried_again_and_then_not_forced(
    stream: bool, waits: list[float]
) -> None:
    """googleapis/python-genai#1836, pydantic/pydantic-ai#3300: no content, and a reason that names the fault."""
    reason = "function_call_filter: MALFORMED_FUNCTION_CALL"

    def broken(sent: dict[str, Any]) -> httpx.Response:
        if sent["tool_choice"] == "auto":
            return calls_tool()
        empty = httpx.Response(200, json={"choices": [{"message": {"content": None}, "finish_reason": reason}]})
        return streams(delta(reason), END) if "stream" in sent else empty

    steps = await collect(Endpoint(broken).chat(stream=stream).converse(FORCED))
    assert isinstance(steps[0], Retried)
    assert [step.instead for step in steps if isinstance(step, SteppedDown)][:2] == ["required", "free"]
    assert steps[-1].tool_calls  # type: ignore[union-attr]


async def test_arguments_that_are_sent_from_their_beginning_each_time_are_not_joined() -> None:
    """DashScope without ``incremental_output``: each chunk has all that is known so far."""
    whole = '{"ids": [42, 18]}'
    pieces = [{"index": 0, "id": "c1", "function": {"name": TOOL_NAME, "arguments": whole[:end]}} for end in (3, 9, 17)]
    chunks = (delta(tool_calls=[piece]) for piece in pieces)
    got = await reply(Endpoint(streams(*chunks, delta("tool_calls"), END)), FORCED, stream=True)
    assert [call.arguments for call in got.tool_calls] == [whole]


async def test_an_answer_in_a_fence_within_a_text_of_json_is_read() -> None:
    answer = {"topics": [], "people": [], "artifacts": []}
    got = await reply(Endpoint(says(json.dumps(f"```json\n{json.dumps(answer)}\n```"))), FREE)
    assert (json.loads(got.text), codes(got)) == (answer, ["answer_in_text"])


async def test_a_page_in_place_of_an_answer_is_quoted(waits: list[float]) -> None:
    """An address without ``/v1`` is often answered with the page of a program, and status 200."""
    page = b"<html><head><style>p {}</style></head><body><h1>Open WebUI</h1></body></html>"
    answered = httpx.Response(200, content=page, headers={"Content-Type": "text/html"})
    assert "the answer is not JSON: Open WebUI" in str(await failure(Endpoint(answered)))


async def test_half_a_json_in_place_of_a_stream_is_no_answer(waits: list[float]) -> None:
    assert isinstance(await failure(Endpoint(lambda _: streams(ONE_LINE[:40])), stream=True), LLMUnavailable)


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "network_error", "abort", "stop"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_that_was_cut_is_asked_for_once_more_and_then_read_with_a_note(
    reason: str, stream: bool, waits: list[float]
) -> None:
    """DeepSeek's and Zhipu's lists of reasons, vLLM's ``abort``; ``stop`` in the middle of JSON."""
    half, topics = TEXT[:26], {"topics": [], "people": [], "artifacts": []}

    def says_half() -> httpx.Response:
        choice = {**CHOICE, "message": {"content": half}, "finish_reason": reason}
        whole = httpx.Response(200, json={**WHOLE, "choices": [choice]})
        return streams(delta(content=half), delta(reason), END) if stream else whole

    steps = await collect(Endpoint(says_half(), says(json.dumps(topics))).chat(stream=stream).converse(FREE))
    assert [step.attempt for step in steps if isinstance(step, Retried)] == [1]
    assert isinstance(steps[-1], Reply)
    assert (json.loads(steps[-1].text), codes(steps[-1])) == (topics, [])
    endpoint = Endpoint(lambda _: says_half())
    got = await reply(endpoint, FREE, stream=stream)
    assert (got.text, codes(got), len(endpoint.bodies)) == (half, ["reply_breaks_off"], 2)


@pytest.mark.parametrize(
    "content",
    [[TEXT], [{"type": "text", "text": {"value": TEXT}}], {"type": "text", "text": TEXT}],
    ids=["a list of texts", "the assistants' parts", "one part"],
)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_content_in_other_parts_is_text(content: Any, stream: bool) -> None:
    pieces = streams(delta(content=content), delta("stop"), END)
    assert (await reply(Endpoint(pieces if stream else says(content)), stream=stream)).text == TEXT


# What a model wrote wrongly, which endpoints report as a refusal of the request.


FAILED_CALL = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
FAILED_JSON = "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."


def failed(words: str, code: str) -> httpx.Response:
    return httpx.Response(400, json={"error": {"message": words, "type": "invalid_request_error", "code": code}})


def failed_in_stream(words: str, code: str) -> httpx.Response:
    document = {"error": {"message": words, "code": code, "failed_generation": "x", "status_code": 400}}
    return streams(b"event: error\ndata: " + json.dumps(document).encode() + b"\n\n")


@pytest.mark.parametrize("answer", [failed, failed_in_stream], ids=["whole", "in a stream"])
async def test_a_generation_that_failed_once_is_tried_once_more(
    answer: Callable[[str, str], httpx.Response], waits: list[float]
) -> None:
    """Groq's documentation of errors: ``tool_use_failed`` with 400, or as an event of the stream."""
    endpoint = Endpoint(answer(FAILED_CALL, "tool_use_failed"), calls_tool())
    retried, *_, got = await collect(endpoint.chat(stream=True).converse(FORCED))
    assert isinstance(retried, Retried)
    assert isinstance(got, Reply)
    assert endpoint.bodies[0] == endpoint.bodies[1]


async def test_a_generation_that_always_fails_steps_down_and_is_not_remembered_at_once(waits: list[float]) -> None:
    """Groq: ``json_validate_failed`` while a format is asked for, ``tool_use_failed`` while a tool is forced."""

    def picky(sent: dict[str, Any]) -> httpx.Response:
        if sent.get("tool_choice") not in (None, "auto", "none"):
            return failed(FAILED_CALL, "tool_use_failed")
        return failed(FAILED_JSON, "json_validate_failed") if "response_format" in sent else says("{}")

    learnt = Learnt()
    chat = Endpoint(picky).chat(learnt=learnt)
    assert steps_of(await collect(chat.converse(FORCED))) == [
        ("forced tool choice", "required"),
        ("forced tool choice", "free"),
    ]
    assert steps_of(await collect(chat.converse(LAST)))[-1] == ("answer format", "none")
    assert learnt.can == Abilities()


async def test_a_generation_that_fails_without_any_wish_is_given_up(waits: list[float]) -> None:
    endpoint = Endpoint(failed("The model produced invalid content: failed_generation", ""))
    assert isinstance(await failure(endpoint), LLMUnavailable | LLMRefused)
    assert len(endpoint.bodies) <= 5


@pytest.mark.parametrize(
    "words",
    [
        "Failed to parse fc related info to json format!",
        "Model produced invalid sequence as part of ToolUse.",
        "error parsing tool call: raw='{', err=unexpected end of JSON input",
        "Parsing failed. The model generated output that could not be parsed.",
        'unexpected tokens remaining in message header: Some("to=functions.get_topics_content")',
        "Unexpected token 12606 while expecting start token 200006",
    ],
    ids=["SGLang", "Bedrock", "Ollama", "Groq", "gpt-oss", "gpt-oss, a token"],
)
async def test_what_the_model_wrote_wrongly_may_be_right_the_next_time(words: str, waits: list[float]) -> None:
    endpoint = Endpoint(error(400, words), calls_tool())
    await collect(endpoint.chat().converse(FORCED))
    assert endpoint.bodies[0] == endpoint.bodies[1]
