"""Messages that an endpoint refuses: fields, contents, the order of roles, and roles that it does not know."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Abilities, Learnt
from memoryapp.engine.chat.protocol import ChatRequest
from tests.engine.endpoint import Endpoint, answered, error, refuses, reply, says, steps_of, talk
from tests.engine.scripted import collect


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
    ("status", "words", "content"),
    [
        (400, "Type mismatch of '/messages/2/content', 'string' not in 'null'", ""),
        (422, "messages.2.content: Input should be a valid string", ""),
        (400, "messages.2.content: Field required", ""),
        (422, "Failed to deserialize the JSON body: messages[2]: invalid type: null, expected a string", ""),
        (400, "messages.2.content: minimum length of 1, but got 0", "I call the tools."),
        (400, "the message at position 2 with role 'assistant' must not be empty", "I call the tools."),
        (400, "The content field in the Message object at messages.2 is empty.", "I call the tools."),
    ],
    ids=["Cloudflare", "NIM", "Fireworks", "DeepSeek", "Cerebras", "Moonshot", "Bedrock"],
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
