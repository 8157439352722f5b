"""Replies whose call or answer came in the wrong envelope.

Servers that do not know a model's marks leave its tool call in the text, or everything in the reasoning; gateways turn
an answer in a requested format into the call of a tool that was never offered; models write JSON into a text of JSON.
Gateways escape an answer as if it were shown in a page. What is meant is unmistakable, so it is read; every such
reading leaves a note."""

import ast
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import ToolCall
from memoryapp.engine.json_values import to_text
from memoryapp.engine.text.answers import decoded, embedded, fulfils, mended, plain_key, unpacked

# Tool calls that a model wrote as text, where the server did not take them out of the answer.
#
# Each family of models has its own marks: Hermes and Qwen ``<tool_call>{…}``, Qwen Coder
# ``<function=…><parameter=…>``, Llama ``<function=…>{…}`` and Python, Mistral ``[TOOL_CALLS]…[ARGS]``, DeepSeek
# ``…<｜tool▁sep｜>``, Kimi, GLM, gpt-oss ``to=functions.…``; many write the bare JSON. So no format is read as such: a
# call is the name of an offered tool in JSON, or behind any of the marks, together with arguments.

# A longer text is no call, and each call is short.
_MOST_CHARS = 50_000
_MOST_CALLS = 64
# How far behind the name arguments may begin: marks, a language word and an opened fence.
_NEAR = 120
# What stands before the name of the tool.
_MARKS = (
    *("<function=", "name=", "<name>", "<tool_name>", "tool_call>", "<toolcall>"),
    *("[tool_calls]", "[tool_call]", "tool▁sep｜>", "tool▁call▁begin｜>", "tool_call_begin|>", "<|tool_call>call:"),
    *("to=", "call:", ">>>", "action:", "<|python_tag|>", "<tool_use>", "<|tool_call|>", "<"),
)
# Mistral marks the arguments; servers lose its mark before the name, and Kimi's, and leave name and arguments alone.
_MARK_BEHIND = re.compile(r'\[ARGS\]|(?::\d{1,3})?\{"')
# The tags in which Olmo writes its calls.
_AROUND = re.compile(r"^\s*<[a-z_|]{1,40}>|</[a-z_|]{1,40}>\s*$")
# Where LFM and Gemma mark their code, or Llama puts its calls in brackets, words may stand around it.
_CODE = re.compile(
    r"(?:<\|tool_call_start\|>|```(?:tool_code|python|py)?\s|<tool_code>)(.*?)(?:<\|tool_call_end\|>|```|</tool_code>|\Z)",
    re.DOTALL,
)
_BRACKETED = re.compile(r"\[(?=[A-Za-z_][\w.]{0,60}\()[^\n]{0,4000}\]")
_SPACES = ("functions.", "default_api.", "default_api:", "tools.", "function")
# Keys as ``plain_key`` has them.
_NAME_KEYS = ("name", "tool", "toolname", "function", "functionname", "action", "recipientname")
ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "input", "params", "kwargs", "toolinput", "actioninput", "toolargs"),
    *("toolarguments", "functionarguments", "toolparameters"),
)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call with its ``arguments`` as a JSON object."""

    name: str
    arguments: Mapping[str, Any]


def written_calls(text: str, tools: Sequence[Mapping[str, Any]]) -> list[WrittenCall]:
    """The calls of offered ``tools`` (in OpenAI's format) in a text, in order; empty when it has none."""
    text = text[:_MOST_CHARS]
    offered = {
        name: list(tool["function"].get("parameters", {}).get("properties", {}))
        for tool in tools
        if (name := tool["function"]["name"]) in text
    }
    if not offered:
        return []
    for reading in (_as_json, _behind_marks, _as_python):
        calls = list(
            dict.fromkeys(
                (call.name, json.dumps(call.arguments, ensure_ascii=False)) for call in reading(text, offered)
            )
        )[:_MOST_CALLS]
        if calls:
            return [WrittenCall(name, json.loads(arguments)) for name, arguments in calls]
    return []


def _as_json(text: str, offered: Mapping[str, list[str]]) -> Iterator[WrittenCall]:
    """JSON that names a tool and its arguments, wherever it stands; broken JSON is repaired."""
    found = [call for value in embedded(text) for call in _named(value, offered)]
    if not found and "{" in text:
        found = list(_named(mended(text[max(text.find("{"), 0) :]), offered))
    yield from found


def _named(value: Any, offered: Mapping[str, list[str]], depth: int = 3) -> Iterator[WrittenCall]:
    if isinstance(value, list):
        for item in value:
            yield from _named(item, offered, depth - 1) if depth else ()
    elif isinstance(value, dict):
        keyed = {plain_key(key): item for key, item in value.items()}
        inner = keyed.get("toolcalls") or keyed.get("function")
        named = [name for key in _NAME_KEYS if (name := _plain(keyed.get(key))) in offered]
        keys = [key for key in value if _plain(key) in offered and len(value) == 1]
        if named:
            beside = {key: value[key] for key in offered[named[0]] if key in value}
            yield from _called(named[0], next((keyed[key] for key in ARGUMENT_KEYS if key in keyed), beside))
        elif keys:
            yield from _called(_plain(keys[0]), value[keys[0]])
        elif isinstance(inner, list | dict) and depth:
            yield from _named(inner, offered, depth - 1)


def _called(name: str, arguments: Any) -> Iterator[WrittenCall]:
    if isinstance(arguments, str):
        arguments = mended(arguments)
    if isinstance(arguments, dict):
        yield WrittenCall(name, arguments)


def _plain(name: Any) -> str:
    """A name without the space that models put before it."""
    plain = name if isinstance(name, str) else ""
    return next((plain[len(space) :] for space in _SPACES if plain.startswith(space)), plain)


def _behind_marks(text: str, offered: Mapping[str, list[str]]) -> Iterator[WrittenCall]:
    places = sorted((at, name) for name in offered for at in _marked(text, name))
    for (at, name), (end, _) in zip(places, [*places[1:], (len(text), "")], strict=False):
        arguments = _arguments(text[at + len(name) : end], offered[name])
        if arguments is not None:
            yield WrittenCall(name, arguments)


def _marked(text: str, name: str) -> Iterator[int]:
    """Where the name stands behind a mark."""
    at = text.find(name)
    while at >= 0:
        before = text[max(at - 40, 0) : at].lower().rstrip("\"' \n\t")
        before = next((before.removesuffix(space) for space in _SPACES if before.endswith(space)), before)
        if before.rstrip("\"' \n\t").endswith(_MARKS) or _MARK_BEHIND.match(text, at + len(name)):
            yield at
        at = text.find(name, at + len(name))


def _arguments(text: str, names: Sequence[str]) -> dict[str, Any] | None:
    """The arguments behind the name of a tool: in tags of their own, or as JSON."""
    given = {name: value for name in names if (value := _tagged(text, name)) is not None}
    brace = text.find("{")
    if given or not 0 <= brace <= _NEAR:
        return given or None
    try:
        value = json.JSONDecoder().raw_decode(text, brace)[0]
    except (ValueError, RecursionError):
        value = mended(text[brace:])
    return value if isinstance(value, dict) else None


def _tagged(text: str, name: str) -> Any:
    """The value of a parameter that has tags of its own; None when it has none."""
    ways = (
        (f"<parameter={name}>", ""),
        (f'parameter name="{name}"', ">"),
        (f"arg_key>{name}</", "arg_value>"),
        (f"<{name}>", ""),
    )
    for opening, then in ways:
        start = text.find(opening)
        begins = text.find(then, start + len(opening)) + len(then) if start >= 0 else -1
        if begins > start >= 0:
            value = text[begins:].partition("</")[0].strip()
            decoded = mended(value) if value[:1] in ("[", "{") or value.isdecimal() else value
            return value if decoded is None else decoded
    return None


def _as_python(text: str, offered: Mapping[str, list[str]]) -> Iterator[WrittenCall]:
    """Calls in Python, as Llama and Gemini write them: the whole text, a marked part of it, or one in brackets."""
    marked, bracketed = _CODE.search(text), _BRACKETED.search(text)
    places = [marked[1] if marked else text, *([bracketed[0]] if bracketed else [])]
    yield from next(filter(None, (_python_calls(place, offered) for place in places)), [])


def _python_calls(text: str, offered: Mapping[str, list[str]]) -> list[WrittenCall]:
    code = _AROUND.sub("", text.strip().strip("`")).strip()
    for word in ("tool_code", "python", "<|python_tag|>", "tool_call"):
        code = code.removeprefix(word).strip()
    try:
        tree = ast.parse(code, mode="eval")
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        return [call for node in calls for call in _python_call(node, offered)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _python_call(node: ast.Call, offered: Mapping[str, list[str]]) -> Iterator[WrittenCall]:
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "call" and isinstance(function.value, ast.Name):
        function = function.value
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name not in offered:
        return
    placed = zip(offered[name], node.args, strict=False)
    arguments = {key: ast.literal_eval(value) for key, value in placed}
    arguments |= {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
    first = next(iter(arguments.values()), None)
    yield WrittenCall(name, first if isinstance(first, dict) and len(arguments) == 1 else arguments)


# What gateways and models call the tool that they make of an answer format.
_ANSWER_TOOLS = frozenset({
    *("json", "answer", "final_answer", "response", "final_response", "output", "result", "json_tool_call"),
    *("json_object", "json_response", "structured_output", "respond", "return_json", "submit", "finish"),
})  # fmt: skip
_ESCAPED = re.compile(r"[{\[]\s{0,20}&(?:quot|#34|#x22);", re.IGNORECASE)


def opened(reply: Reply, request: ChatRequest) -> Reply:
    """The reply with its call or its answer where they belong; unchanged when they are there already."""
    if reply.declined:
        return reply
    schema = request.answer_schema or {}
    reply = _straightened(reply, request)
    if reply.tool_calls:
        names = {tool["function"]["name"] for tool in _offered(request)}
        return _answer_in_call(reply, names, schema) if schema else reply
    if not reply.text.strip():
        reply = _from_reasoning(reply, request, schema)
    if not (schema and any(fulfils(value, schema) for value in embedded(reply.text))) and not reply.tool_calls:
        reply = _with_calls(reply, reply.text, request, "call_in_text")
    if not schema or reply.tool_calls:
        return reply
    value = unpacked(reply.text, schema)
    return reply if value is None else replace(reply, text=to_text(value)).noted("answer_in_text")


def _offered(request: ChatRequest) -> Sequence[Mapping[str, Any]]:
    """The tools that the model knows of, those that are switched off too: a call of one is no answer."""
    return (*request.tools, *request.tools_off)


def _straightened(reply: Reply, request: ChatRequest) -> Reply:
    """The reply without escapes of HTML, and with calls that name an offered tool and its arguments as they should."""
    offered = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in _offered(request)}
    calls = tuple(_straight(call, offered) for call in reply.tool_calls)
    text = _unescaped(reply.text)
    if (text, calls) == (reply.text, reply.tool_calls):
        return reply
    given = reply.message.get("tool_calls", ())
    sent = [
        {**each, "function": {**each["function"], "name": call.name, "arguments": call.arguments}}
        for each, call in zip(given, calls, strict=True)
    ]
    message = {**reply.message, **({"tool_calls": sent} if sent else {}), **({"content": text} if text else {})}
    return replace(reply, text=text, tool_calls=calls, message=message).noted("reply_straightened")


def _unescaped(text: str) -> str:
    return html.unescape(text) if _ESCAPED.search(text) else text


def _straight(call: ToolCall, offered: Mapping[str, Mapping[str, Any]]) -> ToolCall:
    """The call; where its name differs from an offered one only in case and signs, or its arguments have one more
    envelope, or were escaped, or more stands around a whole object, the call that is meant."""
    name = next((name for name in offered if plain_key(name) == plain_key(call.name)), call.name)
    if name not in offered:
        return call
    arguments, schema = _unescaped(call.arguments), offered[name]
    inner = decoded(arguments)
    if inner is None:
        whole = next(
            (value for value in embedded(arguments) if fulfils(value, schema) and schema.get("required")), None
        )
        arguments = arguments if whole is None else to_text(whole)
    if isinstance(inner, Mapping) and len(inner) == 1 and not inner.keys() & schema.get("properties", {}).keys():
        ((key, value),) = inner.items()
        value = decoded(value) if isinstance(value, str) else value
        if plain_key(key) in ARGUMENT_KEYS and isinstance(value, Mapping):
            arguments = to_text(value)
    return ToolCall(call.id, name, arguments)


def _answer_in_call(reply: Reply, offered: set[str], schema: Mapping[str, Any]) -> Reply:
    """The reply with the arguments of a call as its text, when no offered tool is called."""
    if any(call.name in offered for call in reply.tool_calls):
        return reply
    for call in reply.tool_calls:
        answer = unpacked(call.arguments, schema) or decoded(call.arguments)
        partly = isinstance(answer, Mapping) and bool(answer.keys() & schema.get("properties", {}).keys())
        if fulfils(answer, schema) or (call.name.lower() in _ANSWER_TOOLS and partly):
            text = to_text(answer)
            message = {"role": "assistant", "content": text}
            return replace(reply, text=text, tool_calls=(), message=message).noted(
                "answer_in_call", name=call.name[:80]
            )
    return reply


def _from_reasoning(reply: Reply, request: ChatRequest, schema: Mapping[str, Any]) -> Reply:
    """An empty reply, with the call or the answer that its reasoning ends with."""
    called = _with_calls(reply, reply.reasoning, request, "call_in_reasoning")
    text = reply.reasoning.rstrip()
    if called.tool_calls or not (schema and text.endswith(("}", "`"))):
        return called
    answers = [value for value in embedded(text) if fulfils(value, schema)]
    if not answers:
        return reply
    answer = to_text(answers[-1])
    message = {**reply.message, "content": answer}
    return replace(reply, text=answer, message=message).noted("answer_in_reasoning")


def _with_calls(reply: Reply, text: str, request: ChatRequest, note: str) -> Reply:
    """The reply with the calls of offered tools that are written in ``text``."""
    written = written_calls(text, _offered(request))
    if not written:
        return reply
    calls = tuple(ToolCall(uuid4().hex[:9], call.name, to_text(call.arguments)) for call in written)
    sent = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    message = {**reply.message, "content": None, "tool_calls": sent}
    return replace(reply, tool_calls=calls, message=message).noted(note)
