"""What a refusal teaches: which ability of the endpoint is missing, by the words of the refusal and what was sent.

Only words about a parameter of the request teach that the parameter is not understood. A complaint about a field of a
message teaches to leave that field out, one about the order of roles to send another order; words about the length or
the content of the conversation teach nothing. Where two parameters are refused together, the one that matters less is
given up. A refusal that names nothing ("Bad Request", "invalid argument") is met by giving up one thing after the
other; only what helped in the end is remembered. So is a failure of the server (500) that says nothing and comes again.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from memoryapp.engine.beside import table_beside
from memoryapp.engine.chat.capabilities import Abilities, Lesson, forces, step_down
from memoryapp.engine.chat.protocol import ChatRequest
from memoryapp.engine.chat.sent_messages import BELONGING

_FORCED = ("function", "required", "free")
# vLLM refuses "auto" without a parser for it, although it can force tools; no tool is offered then.
_FREE = ("auto", "unsaid", "none", "no tools")
_FORMAT = ("json_schema", "json_object", "none")
_EFFORT = ("reasoning", "reasoning_effort", "none")
# Most endpoints count the tokens of a stream only on request, and some refuse that request.
_STREAM = ("with usage", "without usage", "off")

# Words by which endpoints name what they refuse (OpenRouter, OpenAI, vLLM, llama.cpp, Gemini, Mistral, Groq).
_NAMES_TOOL_CHOICE = re.compile(r"tool[_ ]?choice|forced? (?:tool|function)|function calling config", re.IGNORECASE)
# What they say, each a list of phrases of which one is enough.
_PHRASES = {name: re.compile("|".join(each), re.IGNORECASE) for name, each in table_beside(__file__).items()}
# Mistral, Anthropic and OpenAI refuse ids that other models make; Gemini refuses results without a name.
_CALL_ID = r"(?:(?<![a-z])(?:call|use|calls(?:\.|\[)\d{1,3}\]?)[_ .]|tool(?:call|use))ids?\b"
_NAMES_CALL_ID = re.compile(
    rf"{_CALL_ID}.{{0,120}}(?:must (?:be|match|satisfy)|should (?:be|match)|length|too long|pattern|format|constraint)"
    rf"|invalid\W{{1,3}}(?:\w{{1,20}} ){{0,2}}[\w.\[\]]{{0,40}}{_CALL_ID}",
    re.IGNORECASE,
)
# "Only user, system and assistant roles are supported", "Input should be 'user' or 'assistant'": the others are not.
_LISTS_ROLES = re.compile(
    r"(?:only|one of(?: the following)?|should be|supported values are|expected|allowed)\b\W{0,4}"
    r"((?:\W{0,4}(?:and |or )?\W{0,2}\b(?:system|developer|user|assistant|tool|function)\b){2,6})",
    re.IGNORECASE,
)
_ROLE = re.compile(r"[a-z]+")


def _says(why: str, what: str) -> bool:
    return _PHRASES[what].search(why) is not None


def refused(body: Mapping[str, Any], request: ChatRequest, can: Abilities, why: str) -> Lesson | None:
    """The lesson of a refusal of a request's ``body``; None when ``why`` names nothing that could be left out."""
    if _says(why, "names_content"):
        return None
    if _sends_effort(body) and _says(why, "demands_thoughts"):
        return _down("effort", _EFFORT, can.effort, "reasoning effort", why)
    about_messages = _about_messages(body, can, why)
    demands_reasoning = _says(why, "demands_reasoning")
    if demands_reasoning and not about_messages and any(message.get("tool_calls") for message in body["messages"]):
        # A signature that never came cannot go back; in words, calls need none.
        return _described(why)
    if about_messages or _says(why, "names_a_message") or demands_reasoning:
        return about_messages
    about_parameters = _about_stream(body, can, why) or _about_tools(body, request, can, why)
    about_parameters = about_parameters or _about_parameters(body, can, why)
    # Where a refusal does not say what it refuses, something is given up, unless that would be no use.
    says_nothing = _says(why, "names_nothing") and not _says(why, "names_model")
    return about_parameters or (_guess(body, request, can, why) if says_nothing else None)


def _about_messages(body: Mapping[str, Any], can: Abilities, why: str) -> Lesson | None:
    """The lesson of a complaint about the messages: a field, a missing content, or their roles."""
    messages = body.get("messages", ())
    if "reasoning_content" in why and _says(why, "demands"):
        step = step_down("messages of the model", "with their reasoning", why)
        return None if can.owes_reasoning else Lesson("owes_reasoning", False, True, step)
    if any(message.get("role") == "tool" for message in messages) and (lesson := _about_results(can, why)):
        return lesson
    for name in sorted(_fields(messages), key=len, reverse=True):
        if re.search(rf"(?<![a-z_]){re.escape(name)}(?![a-z_])", why, re.IGNORECASE) and not _says(why, "demands"):
            step = step_down("messages of the model", f"without {name}", why)
            return Lesson("left_out", can.left_out, can.left_out | {name}, step)
    roles = [message.get("role") for message in messages]
    is_blank = any(message.get("role") == "assistant" and not message.get("content") for message in messages)
    if _says(why, "refuses_blank") and can.blank != "in words" and is_blank:
        lower = "in words" if can.blank == "empty" or _says(why, "says_empty") else "empty"
        return Lesson("blank", can.blank, lower, step_down("calls without content", f"content {lower}", why))
    if _says(why, "names_order") and can.user_after_tool and ("tool", "user") in zip(roles, roles[1:], strict=False):
        step = step_down("a user's message after a tool's", "a message of the model between them", why)
        return Lesson("user_after_tool", True, False, step)
    return _about_roles(body, can, why, roles)


def _about_roles(body: Mapping[str, Any], can: Abilities, why: str, roles: Collection[Any]) -> Lesson | None:
    """The lesson where a role is unknown, or where the model's template cannot render the messages."""
    known = {role for listed in _LISTS_ROLES.findall(why) for role in _ROLE.findall(listed.lower())}
    is_template, lacks_tool = (_says(why, "names_template"), _says(why, "lacks_tool_role") or _says(why, "names_order"))
    if "tool" in roles and (lacks_tool or is_template or (known and "tool" not in known)):
        return _described(why)
    if "system" in roles and (_says(why, "lacks_system") or is_template or (known and "system" not in known)):
        return _without_system(why)
    return _described(why) if is_template and "tools" in body else None


def _about_results(can: Abilities, why: str) -> Lesson | None:
    """The lesson of a complaint about ids of calls, perhaps another model's, or about the names of results."""
    if _NAMES_CALL_ID.search(why) and not can.short_ids:
        return Lesson("short_ids", False, True, step_down("ids of calls", "short ids", why))
    if _says(why, "wants_name") and not can.named_results:
        return Lesson("named_results", False, True, step_down("results of tools", "results with a name", why))
    return None


def _fields(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The fields of the model's messages and their calls that an endpoint may not know."""
    for message in messages:
        if message.get("role") == "assistant":
            yield from message.keys() - BELONGING
            for call in message.get("tool_calls", ()):
                yield from (call.keys() | call["function"].keys()) - BELONGING - {"name", "arguments"}


def _about_stream(body: Mapping[str, Any], can: Abilities, why: str) -> Lesson | None:
    """The lesson where only a stream is accepted, or none together with something else that was asked for."""
    if "stream" not in body:
        demands = _says(why, "demands_stream") and not can.must_stream
        return Lesson("must_stream", False, True, step_down("whole answers", "streaming", why)) if demands else None
    names_both = _says(why, "refuses_streamed") and (_says(why, "names_format") or "tool" in why or "function" in why)
    if names_both and not _says(why, "demands_stream") and not can.must_stream:
        return Lesson("stream", can.stream, "off", step_down("streaming", "off", why))
    return None


def _about_tools(body: Mapping[str, Any], request: ChatRequest, can: Abilities, why: str) -> Lesson | None:
    if "tools" not in body:
        return None
    if not request.tools and "tool" in why.lower():
        step = step_down("declaring unused tools", "no tools", why)
        return Lesson("declares_unused_tools", True, False, step)
    if _says(why, "names_schema_word") and not _says(why, "demands") and can.schemas == "strict":
        return _with_plain_schemas(why)
    lacks_tools = _says(_NAMES_TOOL_CHOICE.sub("", why), "lacks_tools") and not _says(why, "names_format")
    if lacks_tools and not (_sends_effort(body) and _says(why, "names_effort")):
        return _described(why)
    is_object = forces(request, can) and can.forced_choice == "function"
    if _NAMES_TOOL_CHOICE.search(why) or (is_object and _says(why, "wants_text")):
        return _without_tool_choice(request, can, why)
    # vLLM and llama.cpp force a call by a grammar that they make of the tool.
    if "response_format" not in body and forces(request, can) and _says(why, "names_format"):
        return _without_tool_choice(request, can, why)
    return None


def _described(why: str) -> Lesson:
    return Lesson("tools", "declared", "described", step_down("tools", "described in the prompt", why))


def _without_system(why: str) -> Lesson:
    return Lesson("system_role", True, False, step_down("system message", "its text in the user's message", why))


def _with_plain_schemas(why: str) -> Lesson:
    return Lesson("schemas", "strict", "plain", step_down("strict schemas", "plain schemas", why))


def _sends_effort(body: Mapping[str, Any]) -> bool:
    return "reasoning" in body or "reasoning_effort" in body


def _about_parameters(body: Mapping[str, Any], can: Abilities, why: str) -> Lesson | None:
    if "response_format" in body:
        if _says(why, "names_schema_word") and not _says(why, "demands") and can.schemas == "strict":
            return _with_plain_schemas(why)
        if _says(why, "names_format"):
            return _without_format(body, can, why)
    if _sends_effort(body) and _says(why, "names_effort"):
        return _down("effort", _EFFORT, can.effort, "reasoning effort", why)
    if "stream" in body and _says(why, "names_stream") and _says(why, "refuses"):
        return _down("stream", _STREAM, can.stream, "streaming", why)
    return None


def silent_failure(body: Mapping[str, Any], request: ChatRequest, can: Abilities, why: str) -> Lesson | None:
    """What is given up next where a server fails again without a word about it. Servers that meet a parameter or a
    message that they cannot read often do so; but it may also be chance."""
    guess = _guess(body, request, can, why) if _says(why, "names_failure_alone") else None
    return replace(guess, may_be_chance=True) if guess else None


def _guess(body: Mapping[str, Any], request: ChatRequest, can: Abilities, why: str) -> Lesson | None:
    """The next thing to give up, the least important first."""
    roles = [message.get("role") for message in body.get("messages", ())]
    if _sends_effort(body):
        guess = _down("effort", _EFFORT, can.effort, "reasoning effort", why)
    elif "response_format" in body:
        guess = _without_format(body, can, why)
    elif forces(request, can) and "tool_choice" in body:
        guess = _without_tool_choice(request, can, why)
    elif "stream_options" in body:
        guess = _down("stream", _STREAM, can.stream, "streaming", why)
    elif "tools" in body or "tool" in roles:
        guess = _described(why)
    elif "system" in roles:
        guess = _without_system(why)
    else:
        return None
    return replace(guess, is_guess=True)


def failed_generation(body: Mapping[str, Any], request: ChatRequest, can: Abilities, why: str) -> Lesson | None:
    """The lesson when the model twice wrote what the endpoint could not read as a call, or as an answer in a format.
    None when neither was asked for."""
    if "tools" in body and not ("response_format" in body and "json" in why.lower()):
        if forces(request, can):
            lesson = _without_tool_choice(request, can, why)
        elif request.tools:
            lesson = _described(why)
        else:
            step = step_down("declaring unused tools", "no tools", why)
            lesson = Lesson("declares_unused_tools", True, False, step)
        return replace(lesson, may_be_chance=True)
    if "response_format" in body:
        return replace(_without_format(body, can, why), may_be_chance=True)
    return None


def unstreamed(can: Abilities) -> Lesson:
    """The lesson of a whole answer where a stream was requested: the next request asks for a whole answer."""
    why = "The endpoint answered at once instead of streaming."
    return Lesson("stream", can.stream, "off", step_down("streaming", "off", why), may_be_chance=True)


def ignored(request: ChatRequest, can: Abilities) -> Lesson | None:
    """The lesson of an answer without a tool call where a tool was forced; None when none was forced."""
    if not forces(request, can):
        return None
    lesson = _without_tool_choice(request, can, "The endpoint ignored the forced tool choice.")
    return replace(lesson, may_be_chance=True)


def _without_tool_choice(request: ChatRequest, can: Abilities, why: str) -> Lesson:
    if forces(request, can):
        return _down("forced_choice", _FORCED, can.forced_choice, "forced tool choice", why)
    return _down("free_choice", _FREE, can.free_choice, "free tool choice", why)


def _without_format(body: Mapping[str, Any], can: Abilities, why: str) -> Lesson:
    if "tools" in body:
        return _down("format_with_tools", _FORMAT, can.format_with_tools, "answer format with tools", why)
    return _down("format_alone", _FORMAT, can.format_alone, "answer format", why)


def _down(ability: str, ladder: tuple[str, ...], rung: str, capability: str, why: str) -> Lesson:
    lower = ladder[ladder.index(rung) + 1]
    return Lesson(ability, rung, lower, step_down(capability, lower, why))
