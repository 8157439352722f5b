"""Refusals in words: what they teach about messages and parameters, and what they do not."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import ChatRequest, LLMRefused, Reply
from memoryapp.engine.chat.refusals import error_in, words_in
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.prompts.rerank import TOOL, TOOL_NAME
from tests.engine.endpoint import (
    END,
    FREE,
    PLAIN,
    QUESTION,
    Endpoint,
    answered,
    error,
    failure,
    has_schema,
    refuses,
    reply,
    says,
    steps_of,
    streams,
    talk,
)
from tests.engine.scripted import collect
from tests.examples import table

BODIES: dict[str, tuple[Any, str]] = table("refusal_bodies")


@pytest.mark.parametrize(("body", "words"), BODIES.values(), ids=BODIES)
async def test_the_endpoints_own_words_are_quoted_whatever_shape_they_come_in(body: Any, words: str) -> None:
    """Google's list: googleapis/python-genai#867; vLLM: QwenLM/Qwen3-Embedding#188; SiliconFlow: apecloud/ApeRAG#716;
    LM Studio: lmstudio-ai/lmstudio-bug-tracker#670; Mistral: BerriAI/litellm#17761."""
    refusal = await failure(Endpoint(httpx.Response(400, json=body)))
    assert words.rstrip(".") in str(refusal)
    assert "secret" not in str(refusal).replace("secret-key", "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"upstream request timeout", "upstream request timeout"),
        (b"<html><head><style>p {}</style></head><body><h1>413</h1> Too\nLarge</body></html>", "413 Too Large"),
        (b"", ""),
        (b"[]", ""),
        (b"[[[", "[[["),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", ""),
    ],
    ids=["text", "a page", "nothing", "an empty list", "broken", "no text", "deep"],
)
def test_a_refusal_without_json_is_quoted_as_text(content: bytes, words: str) -> None:
    assert words_in(content)[: len(words) or None].startswith(words)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [], "message": "all well"},
        {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "detail": "cached", "title": "x"},
    ],
)
async def test_an_answer_that_says_more_than_it_must_is_no_error(body: Any) -> None:
    assert isinstance(await reply(Endpoint(httpx.Response(200, json=body))), Reply)


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens; reasoning and response_format are counted too.",
        "messages[2].content: reasoning about grammar must be a string",
        "The response was stopped by the content filter of json_schema answers.",
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    ],
)
async def test_words_about_the_conversation_teach_nothing_about_the_request(words: str) -> None:
    learnt = Learnt()
    endpoint = Endpoint(error(400, words))
    chat = endpoint.chat(learnt=learnt)
    with pytest.raises(LLMRefused):
        await collect(chat.converse(FREE))
    assert learnt.can == Abilities()
    assert len(endpoint.bodies) == 1


async def test_an_error_in_a_list_ends_a_stream_too(waits: list[float]) -> None:
    broken = streams(b'data: [{"error": {"code": 503, "message": "overloaded"}}]\n\n', END)
    retried, *_, got = await collect(Endpoint(broken, says("hi")).chat(stream=True).converse(PLAIN))
    assert isinstance(retried, Retried)
    assert "overloaded" in retried.why
    assert isinstance(got, Reply)


def test_what_is_known_of_an_error_inside_an_answer_is_its_name() -> None:
    """MiniMax's ``base_resp``, OpenAI's ``insufficient_quota`` with 429, LM Studio's 200 for a wrong address."""
    named = {
        402: {"id": "", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        400: {"error": {"message": "No.", "type": "invalid_request_error", "code": "unsupported_value"}},
        404: {"error": "Unexpected endpoint or method. (POST /chat/completions). Returning 200 anyway"},
        429: {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}},
        502: {"error": {"message": "Provider disconnected unexpectedly", "code": "server_error"}},
    }
    for status, body in named.items():
        found = error_in(body)
        assert found
        assert found.status == status


async def test_an_account_that_is_used_up_is_not_asked_again(waits: list[float]) -> None:
    used_up = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    endpoint = Endpoint(httpx.Response(429, json=used_up))
    assert isinstance(await failure(endpoint), LLMRefused)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    ("body", "seconds"), table("waits_named_in_bodies").values(), ids=table("waits_named_in_bodies")
)
async def test_a_wait_in_the_words_or_details_of_an_error_is_kept(
    body: Any, seconds: float, waits: list[float]
) -> None:
    await reply(Endpoint(httpx.Response(429, json=body), says("hi")))
    assert waits == [seconds]


# Messages that an endpoint refuses: fields, contents, the order of roles, and roles that it does not know.


async def test_only_what_belongs_there_goes_back() -> None:
    """Groq refuses ``reasoning`` (karthink/gptel#774, vercel/ai#8056); DeepSeek and Kimi demand
    ``reasoning_content`` (continuedev/continue#10193); Gemini demands its signatures (open-webui/computer#224)."""
    call = {**answered()["tool_calls"][0], "index": 0, "extra_content": {"google": {"thought_signature": "s"}}}
    kept = {"reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}
    endpoint = Endpoint(says("{}"))
    await reply(endpoint, talk(**kept, reasoning="hm", annotations=[], refusal="", audio={}, tool_calls=[call]))
    sent = endpoint.bodies[0]["messages"][2]
    assert set(sent) == {"role", "content", "tool_calls", "reasoning_content", "reasoning_details"}
    assert set(sent["tool_calls"][0]) == {"id", "type", "function", "extra_content"}


REFUSED_FIELDS = {
    "Groq": "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : "
    "property 'reasoning_content' is unsupported, did you mean 'role'?)]",
    "Groq, newer": "`messages[2].reasoning_content`: reasoning is not supported with this model",
    "OpenAI": "Unknown parameter: 'messages[2].reasoning_content'.",
    "Azure": "Additional properties are not allowed ('reasoning_content' was unexpected) - 'messages.2'",
    "Gemini": "Invalid JSON payload received. Unknown name \"reasoning_content\" at 'messages[2]': Cannot find field.",
    "Fireworks": "Extra inputs are not permitted, field: 'messages[2].reasoning_content', value: 'hm'",
    "a gateway": "property 'reasoning_content' is unsupported",
}


@pytest.mark.parametrize("words", [*REFUSED_FIELDS.values(), None], ids=[*REFUSED_FIELDS, "Mistral"])
async def test_a_refused_field_of_a_message_is_left_out_and_nothing_else(words: str | None) -> None:
    """janhq/jan#8136, tashfeenahmed/freellmapi#1070, vercel/ai#8056; Mistral names the place in a list."""
    place = ["body", "messages", 2, "assistant", "reasoning_content"]
    detail = {"detail": [{"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}]}
    refusal = error(400, words) if words else httpx.Response(422, json=detail)
    learnt = Learnt()

    def strict(sent: dict[str, Any]) -> httpx.Response:
        return refusal if "reasoning_content" in sent["messages"][2] else says("{}")

    endpoint = Endpoint(strict)
    chat = endpoint.chat(learnt=learnt)
    steps = await collect(chat.converse(talk(reasoning_content="hm")))
    assert steps_of(steps) == [("messages of the model", "without reasoning_content")]
    await collect(chat.converse(talk(reasoning_content="hm")))
    assert len(endpoint.bodies) == 3
    assert learnt.can == Abilities(left_out=frozenset({"reasoning_content"}))


@pytest.mark.parametrize(
    "words",
    [
        "Missing `reasoning_content` field in the assistant message at message index 2.",
        "The reasoning_content in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    ],
)
async def test_reasoning_that_must_come_back_comes_back_under_the_name_asked_for(words: str) -> None:
    """DeepSeek (abhigyanpatwari/GitNexus#43, earendil-works/pi#3636) and Kimi; vLLM gives ``reasoning`` instead."""

    def demanding(sent: dict[str, Any]) -> httpx.Response:
        return says("{}") if "reasoning_content" in sent["messages"][2] else error(400, words)

    endpoint = Endpoint(demanding)
    steps = await collect(endpoint.chat().converse(talk(reasoning="hm")))
    assert steps_of(steps) == [("messages of the model", "with their reasoning")]
    assert endpoint.bodies[1]["messages"][2]["reasoning_content"] == "hm"
    assert "reasoning" in endpoint.bodies[1]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Unexpected role 'user' after role 'tool'"),
        (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "After the optional system message, conversation roles must alternate user and assistant roles"),
    ],
)
async def test_no_user_speaks_after_a_tool_where_that_is_forbidden(status: int, words: str) -> None:
    """Mistral, also behind vLLM, Azure and LiteLLM (BerriAI/litellm#17761, avante-corp/avante.nvim#2695,
    zed-industries/zed#37021, aliou/pi-neuralwatt#12)."""

    def ordered(sent: dict[str, Any]) -> httpx.Response:
        roles = [message["role"] for message in sent["messages"]]
        return error(status, words) if ("tool", "user") in zip(roles, roles[1:], strict=False) else says("{}")

    endpoint = Endpoint(ordered)
    chat = endpoint.chat()
    now = talk({"role": "user", "content": "Answer now."})
    assert steps_of(await collect(chat.converse(now)))[0][0] == "a user's message after a tool's"
    assert [message["role"] for message in endpoint.bodies[-1]["messages"][-3:]] == ["tool", "assistant", "user"]
    assert "tools" in endpoint.bodies[-1]
    await collect(chat.converse(now))
    assert len(endpoint.bodies) == 3


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, "System role not supported"),
        (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    ],
)
async def test_the_systems_text_moves_into_the_users_where_there_is_no_such_role(status: int, words: str) -> None:
    """Gemma's chat template in llama.cpp and vLLM, Gemma at Google, and OpenAI's first o-models."""

    def without(sent: dict[str, Any]) -> httpx.Response:
        return error(status, words) if sent["messages"][0]["role"] == "system" else says("hi")

    endpoint = Endpoint(without)
    steps = await collect(endpoint.chat().converse(talk()))
    assert steps_of(steps) == [("system message", "its text in the user's message")]
    assert endpoint.bodies[1]["messages"][0] == {"role": "user", "content": "You choose.\n\nhello"}


@pytest.mark.parametrize(
    ("status", "words", "content"), table("refused_null_contents").values(), ids=table("refused_null_contents")
)
async def test_a_call_without_content_gets_one_where_that_is_demanded(status: int, words: str, content: str) -> None:
    """cloudflare/ai, Moonshot's platform, BerriAI/litellm behind Bedrock."""

    def full(sent: dict[str, Any]) -> httpx.Response:
        given = sent["messages"][2]["content"]
        return error(status, words) if given is None or (content and not given) else says("{}")

    endpoint = Endpoint(full)
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(talk())))[0][0] == "calls without content"
    assert endpoint.bodies[-1]["messages"][2]["content"] == content
    await collect(chat.converse(talk()))
    assert len(endpoint.bodies) == 3


def role_of(sent: dict[str, Any]) -> set[str]:
    return {message["role"] for message in sent["messages"]}


ROLES = {
    "OpenAI's o-models": (400, "Invalid value: 'system'. Supported values are: 'developer', 'assistant', 'user'."),
    "pydantic": (422, "messages.0.role: Input should be 'user', 'assistant' or 'tool'"),
    "MiniMax": (400, "invalid params, invalid message role: system"),
    "a template": (500, "Jinja Exception: Unexpected message role."),
}  # fmt: skip


@pytest.mark.parametrize(("status", "words"), ROLES.values(), ids=ROLES)
async def test_a_system_message_that_is_unknown_moves_into_the_users(status: int, words: str) -> None:
    """The roles that are known are listed, or the unknown one is named (0xku/kon#5, llama.cpp's templates)."""
    endpoint = refuses(status, {"error": {"message": words}}, lambda sent: "system" in role_of(sent))
    chat = endpoint.chat()
    system, user = talk().messages[:2]
    assert steps_of(await collect(chat.converse(ChatRequest((system, user))))) == [
        ("system message", "its text in the user's message")
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (422, "messages.3.role: Input should be 'system', 'user' or 'assistant'"),
        (500, "Only user, system and assistant roles are supported! at row 1, column 5"),
        (400, 'Error rendering prompt with jinja template: "Only user and assistant roles are supported!".'),
        (500, "While executing CallExpression at line 14 in source: raise_exception('Unknown role')"),
    ],
    ids=["pydantic", "llama.cpp", "LM Studio", "another template"],
)
async def test_results_become_texts_where_their_role_is_unknown(status: int, words: str) -> None:
    """eclipse-theia/theia#17104, lmstudio-ai/lmstudio-bug-tracker: templates of models that know no tools."""
    endpoint = refuses(status, {"error": words}, lambda sent: "tool" in role_of(sent))
    steps = steps_of(await collect(endpoint.chat().converse(talk())))
    assert steps == [("tools", "described in the prompt")]
    assert "system" in role_of(endpoint.bodies[-1])


async def test_reasoning_is_given_up_where_its_signed_thoughts_are_demanded() -> None:
    """Claude behind LiteLLM and Bedrock: anomalyco/opencode#3077, pydantic/pydantic-ai#2040."""
    words = (
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block."
    )
    endpoint = refuses(400, {"error": {"message": words}}, lambda sent: "reasoning" in str(list(sent)))
    steps = steps_of(await collect(endpoint.chat().converse(talk())))
    assert steps == [("reasoning effort", "reasoning_effort"), ("reasoning effort", "none")]


async def test_calls_whose_signature_never_came_go_back_in_words() -> None:
    """Gateways lose Gemini's signature, which is then demanded with each call."""
    words = "Function call is missing a thought_signature in functionCall parts."
    endpoint = refuses(400, [{"error": {"code": 400, "message": words}}], lambda sent: "tool" in role_of(sent))
    assert steps_of(await collect(endpoint.chat().converse(talk()))) == [("tools", "described in the prompt")]
    assert "=== Topic 1 ===" in str(endpoint.bodies[-1]["messages"])


async def test_a_refused_field_within_the_function_of_a_call_is_left_out() -> None:
    """LiteLLM puts Gemini's signature into ``function.provider_specific_fields``, which others refuse."""
    (call,) = talk().messages[2]["tool_calls"]
    kept = {"provider_specific_fields": {"thought_signature": "s"}}
    words = "Unrecognized request argument supplied: messages[2].tool_calls[0].function.provider_specific_fields"
    endpoint = refuses(400, {"error": {"message": words}}, lambda sent: "provider_specific_fields" in json.dumps(sent))
    steps = await collect(
        endpoint.chat().converse(talk(tool_calls=[{**call, "function": {**call["function"], **kept}}]))
    )
    assert steps_of(steps) == [("messages of the model", "without provider_specific_fields")]


# Parameters that an endpoint refuses in words: what is given up, and that nothing else is.


LLAMA = "Cannot use custom grammar constraints with tools."


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, LLAMA),
        (400, "Function calling with a response mime type: 'application/json' is unsupported"),
        (500, "litellm.UnsupportedParamsError: groq does not support parameters: ['response_format']"),
        (400, "json mode cannot be combined with tool/function calling"),
        (400, "'response_format.type' must be 'json_schema' or 'text'"),
    ],
)
async def test_a_format_that_is_refused_with_tools_is_left_out_and_remembered(status: int, words: str) -> None:
    """llama.cpp refuses with 500 (``tools/server``), Gemini with a list (googleapis/python-genai#867), LiteLLM with
    500 (BerriAI/litellm#11940), Groq with 400, LM Studio only ``json_object`` (lmstudio-bug-tracker#189)."""

    def strict(sent: dict[str, Any]) -> httpx.Response:
        refuses = "tools" in sent and "response_format" in sent
        return httpx.Response(status, json=[{"error": {"message": words}}]) if refuses else says("{}")

    endpoint = Endpoint(strict)
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(FREE)))[-1] == ("answer format with tools", "none")
    asked = len(endpoint.bodies)
    await collect(chat.converse(FREE))
    assert len(endpoint.bodies) == asked + 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (404, 'No endpoints found that support tool use. Try disabling "get_topics_content".'),
        (400, "`tool calling` is not supported with this model"),
        (400, "Function calling is not enabled for models/gemma-3-27b-it"),
        (500, "tools param requires --jinja flag"),
    ],
    ids=["Ollama", "OpenRouter", "Groq", "Google", "llama.cpp"],
)
async def test_tools_that_an_endpoint_lacks_are_described_in_words(status: int, words: str) -> None:
    """Ollama, OpenRouter, Groq and Google refuse tools for whole models; a described tool is called in the text."""

    def toolless(sent: dict[str, Any]) -> httpx.Response:
        if "tools" in sent:
            return error(status, words)
        return says(f'<tool_call>\n{{"name": "{TOOL_NAME}", "arguments": {{"ids": [1]}}}}\n</tool_call>')

    endpoint = Endpoint(toolless)
    chat = endpoint.chat()
    forced = ChatRequest(({"role": "system", "content": "You choose."}, *QUESTION), tools=(TOOL,), force_tool=TOOL_NAME)
    *steps, got = await collect(chat.converse(forced))
    assert steps_of(steps) == [("tools", "described in the prompt")]
    assert isinstance(got, Reply)
    assert [call.arguments for call in got.tool_calls] == ['{"ids":[1]}']
    assert TOOL_NAME in endpoint.bodies[-1]["messages"][0]["content"]
    await collect(chat.converse(talk({"role": "user", "content": "Answer now."})))
    roles = [message["role"] for message in endpoint.bodies[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "=== Topic 1 ===" in endpoint.bodies[-1]["messages"][-1]["content"]
    assert all("tool_calls" not in message for message in endpoint.bodies[-1]["messages"])


@pytest.mark.parametrize(
    ("words", "when", "step"),
    [
        (
            "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions.",
            lambda sent: "tools" in sent and ("reasoning" in sent or "reasoning_effort" in sent),
            ("reasoning effort", "none"),
        ),
        (
            "This model doesn't support tool use in streaming mode.",
            lambda sent: "tools" in sent and "stream" in sent,
            ("streaming", "off"),
        ),
        (
            "`response_format` does not support streaming",
            lambda sent: "response_format" in sent and "stream" in sent,
            ("streaming", "off"),
        ),
        (
            "does not support parameters: ['tools', 'tool_choice'], for model=x. To drop these, set `drop_params`",
            lambda sent: "tools" in sent,
            ("tools", "described in the prompt"),
        ),
        (
            "The specified schema produces a constraint that has too many states for serving.",
            has_schema,
            ("answer format with tools", "json_object"),
        ),
        (
            "unknown field: parameter 'strict' is not a valid field.",
            lambda sent: "strict" in json.dumps(sent.get("response_format", {})),
            ("strict schemas", "plain schemas"),
        ),
        (
            "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0]': Cannot find field.",
            lambda sent: "additionalProperties" in json.dumps(sent.get("tools", [])),
            ("strict schemas", "plain schemas"),
        ),
        (
            "Invalid role 'tool'. Must be one of: system, user, assistant",
            lambda sent: any(message["role"] == "tool" for message in sent["messages"]),
            ("tools", "described in the prompt"),
        ),
    ],
    ids=["OpenAI", "Bedrock", "Groq", "LiteLLM", "Gemini", "Cohere", "Gemini's tools", "a role"],
)
async def test_of_two_things_refused_together_the_one_goes_that_matters_less(
    words: str, when: Callable[[dict[str, Any]], Any], step: tuple[str, str]
) -> None:
    """OpenAI's gpt-5, Bedrock's Llama, Groq (docs), BerriAI/litellm#35382, OpenRouterTeam/openrouter-examples#71."""
    endpoint = refuses(400, {"error": {"message": words}}, when)
    chat = endpoint.chat(stream=True)
    first = [each for each in await collect(chat.converse(talk())) if isinstance(each, SteppedDown)]
    assert step in steps_of(first)
    assert {each.capability for each in first if each.why == words} == {step[0]}
    asked = len(endpoint.bodies)
    await collect(chat.converse(talk()))
    assert len(endpoint.bodies) == asked + 1


@pytest.mark.parametrize(
    "words",
    [
        "This model only support stream mode, please enable the stream parameter to access the model.",
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "Stream must be set to true",
    ],
)
async def test_a_model_that_only_streams_is_asked_for_a_stream(words: str) -> None:
    """DashScope's QwQ and Qwen 3, proxies of Codex."""
    answer = b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'

    def live(sent: dict[str, Any]) -> httpx.Response:
        return streams(answer, END) if sent.get("stream") else error(400, words)

    endpoint = Endpoint(live)
    chat = endpoint.chat()
    assert steps_of(await collect(chat.converse(PLAIN))) == [("whole answers", "streaming")]
    await collect(chat.converse(PLAIN))
    assert len(endpoint.bodies) == 3
