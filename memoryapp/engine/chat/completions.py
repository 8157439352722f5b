"""Reads OpenAI's chat completions as values. Endpoints deviate from the format: an error inside HTTP 200, content in
parts, tool calls without ids or with arguments that are not text, reasoning under two names or within the content, no
usage. Reading tolerates all of that and never raises."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any
from uuid import uuid4

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import PartialReply, Reply
from memoryapp.engine.chat.refusals import EndpointError, document_in, error_in
from memoryapp.engine.events import ToolCall
from memoryapp.engine.json_values import positive
from memoryapp.engine.notes import Note

_TEXT_PARTS = ("text", "output_text")
# More calls in one reply are noise.
_MOST_CALLS = 64
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")
# How models mark their reasoning in the content, where the server does not know it: DeepSeek and Qwen, Gemma and
# Gemini behind gateways, Mistral, Kimi, Seed, Command.
_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
# The channels of gpt-oss ("harmony"), when the server does not take them apart.
_FINAL = "<|channel|>final<|message|>"
_CHANNEL_MARK = re.compile(r"<\|[a-z]{1,20}\|>(?:analysis|commentary|assistant)?")


def as_json(content: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_objects(text: str) -> list[str]:
    """The JSON objects that ``text`` consists of, one behind the other; empty when it is anything else."""
    text = text.strip()
    decoder, found, start = json.JSONDecoder(), list[str](), 0
    while start < len(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict) or len(found) == _MOST_CALLS:
            return []
        found.append(text[start:end])
        start = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def usage_of(completion: Mapping[str, Any] | None) -> Usage:
    """Tokens and dollars; zero where the answer has none."""
    usage = _mapping((completion or {}).get("usage"))
    return Usage(
        input_tokens=int(positive(usage.get("prompt_tokens"))),
        output_tokens=int(positive(usage.get("completion_tokens"))),
        cost_usd=positive(usage.get("cost")),
        cached_tokens=int(positive(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))),
        reasoning_tokens=int(positive(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))),
    )


def unwrapped(document: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The completion in a document, if a gateway put it into an envelope of its own (``data``, ``result``)."""
    inner = [value for value in (document or {}).values() if isinstance(value, dict) and "choices" in value]
    return inner[0] if document and "choices" not in document and inner else document


def parse_reply(completion: Mapping[str, Any]) -> Reply:
    """The first choice; an empty reply when there is none."""
    choice = _choice(completion)
    message = _mapping(choice.get("message") or choice.get("delta"))
    given = list(_given_calls(message))
    calls = _tool_calls(given)
    functions = [(call["id"], call["function"]) for call in calls]
    reasoning, text = without_reasoning(content_of(message.get("content")))
    return Reply(
        text=text,
        tool_calls=tuple(ToolCall(id, named["name"], named["arguments"]) for id, named in functions),
        reasoning=reasoning_of(message) or reasoning,
        message=_assistant_message(message, [_sendable(call) for call in calls]),
        usage=usage_of(completion),
        model=text_of(completion.get("model")),
        finish_reason=text_of(choice.get("finish_reason")),
        provider=text_of(completion.get("provider")),
        refusal=text_of(message.get("refusal"))
        or "".join(text_of(part.get("refusal")) for part in _mappings(message.get("content"))),
        notes=(Note("calls_taken_apart", {"n": len(calls)}),) if len(calls) > len(given) else (),
    )


def content_of(content: Any) -> str:
    """The text of a message; the JSON of an answer that a server decoded."""
    if isinstance(content, dict) and content.get("type") in _TEXT_PARTS:
        content = [content]
    return json.dumps(content, ensure_ascii=False) if isinstance(content, dict) else text_of(content)


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The model's reasoning, under either of its names; encrypted reasoning has no text."""
    named = text_of(message.get("reasoning")) or text_of(message.get("reasoning_content"))
    details = message.get("reasoning_details")
    if named or not isinstance(details, list):
        return named
    return "".join(text_of(d.get("text")) or text_of(d.get("summary")) for d in details if isinstance(d, dict))


def without_reasoning(content: str) -> tuple[str, str]:
    """The reasoning at the beginning of the content, and the rest. Servers that do not know how a model marks its
    reasoning leave it there. Without its closing mark the model was cut off before it answered."""
    if _FINAL in content:
        thought, _, rest = content.rpartition(_FINAL)
        return _CHANNEL_MARK.sub("", thought).strip(), _CHANNEL_MARK.sub("", rest).strip()
    text = content.lstrip()
    for opening, closing in _MARKS:
        if text.startswith(opening):
            thought, _, rest = text[len(opening) :].partition(closing)
            return thought.strip(), rest.lstrip()
        # The opening mark is missing where the prompt ends with it. A closing mark in prose is a word like others.
        thought, mark, rest = content.partition(closing)
        if mark and (_stands_alone(thought, rest) or rest.lstrip().startswith(("{", "[", "```"))):
            return thought.strip(), rest.lstrip()
    return "", content


def _stands_alone(before: str, after: str) -> bool:
    """Whether nothing else stands on the line between the two."""
    return not (before.rpartition("\n")[2].strip() or after.partition("\n")[0].strip())


def _assistant_message(message: Mapping[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The message to send back later: as it came, with its ``reasoning_details`` above all. Empty fields are left out,
    because strict endpoints refuse nulls that they sent themselves; ``content`` is always kept."""
    kept = {key: value for key, value in message.items() if value is not None and key != "tool_calls"}
    back = {"role": "assistant", "content": message.get("content"), **kept}
    return {**back, "tool_calls": calls} if calls else back


def _tool_calls(given: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tool calls in OpenAI's format; each gets an id of its own, and arguments as text."""
    calls: dict[str, dict[str, Any]] = {}
    for call in chain.from_iterable(map(_taken_apart, given)):
        id = text_of(call.get("id"))
        # Two calls with one id could not both be answered. Mistral accepts only ids of nine letters and digits.
        id = id if id and id not in calls else uuid4().hex[:9]
        calls[id] = {**call, "id": id}
    return list(calls.values())


def _given_calls(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls of a message as they came: in OpenAI's list, as its older single call, or as Anthropic's parts."""
    yield from map(_tool_call, calls_in(message.get("tool_calls")))
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield _tool_call(part)
    if not message.get("tool_calls") and isinstance(message.get("function_call"), dict):
        yield _tool_call({"function": message["function_call"]})


def calls_in(value: Any) -> list[dict[str, Any]]:
    """The calls in a field ``tool_calls``: a list; or an object that is one call, or has calls by their numbers; or
    either of them as JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if isinstance(value, dict):
        value = [value] if value.keys() & {"function", "name"} else list(value.values())
    return [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict):
        # Without OpenAI's inner object, name and arguments stand in the call itself.
        given = next((call[key] for key in ("arguments", "parameters", "input") if key in call), None)
        function, call = {"name": call.get("name"), "arguments": given}, {"id": call.get("id")}
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    named = {**function, "name": _plain_name(text_of(function.get("name"))), "arguments": written}
    return {**call, "type": "function", "function": named}


def _taken_apart(call: dict[str, Any]) -> list[dict[str, Any]]:
    """The call; several, if a gateway wrote the arguments of several calls one behind the other."""
    objects = json_objects(call["function"]["arguments"])
    if len(objects) < 2:
        return [call]
    # Some gateways begin a stream of arguments with an empty object.
    objects = [written for written in objects if written.strip("{} \n")] or objects[:1]
    return [{**call, "function": {**call["function"], "arguments": arguments}} for arguments in objects]


def _plain_name(name: str) -> str:
    """A tool's name without what models add to it: ``functions.search:0``, ``search<|channel|>json``."""
    name = name.partition("<|")[0].strip()
    before, _, number = name.rpartition(":")
    name = before if number.isdecimal() else name
    return name.replace("/", ".").replace(":", ".").rpartition(".")[2]


def _sendable(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call as it is sent back: strict endpoints refuse unusual names, and arguments that are not a JSON object."""
    function = call["function"]
    name = _UNNAMEABLE.sub("_", function["name"])[:64] or "unnamed"
    return {**call, "function": {**function, "name": name, "arguments": _object_text(function["arguments"])}}


def _object_text(arguments: str) -> str:
    """The JSON object in ``arguments``, even if it was encoded twice; an empty object when there is none."""
    if as_json(arguments.encode("utf-8", "replace")) is not None:
        return arguments
    try:
        inner = json.loads(arguments)
    except (ValueError, RecursionError):
        return "{}"
    return inner if isinstance(inner, str) and as_json(inner.encode("utf-8", "replace")) is not None else "{}"


def _choice(completion: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = completion.get("choices")
    return _mapping(choices[0]) if isinstance(choices, list) and choices else {}


def text_of(value: Any) -> str:
    """A text, or the texts of content in parts; empty for any other value."""
    if isinstance(value, list):
        return "".join(text_of(part.get("text") if isinstance(part, dict) else part) for part in value)
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# Joins the pieces of tool calls that a stream sends.
#
# Endpoints number their calls, or give them ids, or both; some number every call 0, and some do neither. Then a piece
# that brings a name begins a new call once the arguments of the one before are whole.

# A piece continues one of the latest calls or details: compared with all of them, a long stream would take quadratic
# time.
LATEST = 256


def join_calls(known: list[dict[str, Any]], pieces: Iterable[dict[str, Any]]) -> None:
    for piece in pieces:
        call = _continued(known, piece)
        if call is None:
            known.append({**piece, "function": _function(piece)})
            continue
        function, added = call["function"], _function(piece)
        name, more = text_of(function.get("name")), text_of(added.get("name"))
        call |= {key: value for key, value in piece.items() if value and key not in {"function", "id"}}
        call["id"] = call.get("id") or piece.get("id")
        call["function"] = {
            **function,
            **{key: value for key, value in added.items() if value is not None},
            "name": name if name == more else name + more,
            "arguments": _arguments(function.get("arguments"), added.get("arguments")),
        }


def finished_calls(known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls as they would have come in one piece: without numbers, and without an empty echo of the call before."""
    calls: list[dict[str, Any]] = []
    for call in known:
        before, function = _function(calls[-1]) if calls else {}, _function(call)
        is_empty = not function.get("arguments") and bool(before.get("arguments"))
        if not (is_empty and before.get("name") == function.get("name")):
            calls.append({key: value for key, value in call.items() if key != "index"})
    return calls


def _continued(known: list[dict[str, Any]], piece: Mapping[str, Any]) -> dict[str, Any] | None:
    """The call that ``piece`` continues; None where it begins a new one."""
    call = _of_its_number(known, piece)
    if call is None or not text_of(_function(piece).get("name")) or not _is_object(call):
        return call
    # A name for a call whose arguments are whole: the next call, or the same one sent again.
    is_same = bool(piece.get("id")) and piece.get("id") == call.get("id")
    return call if is_same and _function(piece).get("arguments") in (None, "", call["function"]["arguments"]) else None


def _of_its_number(known: list[dict[str, Any]], piece: Mapping[str, Any]) -> dict[str, Any] | None:
    id, index = piece.get("id"), piece.get("index")
    if index is None and not id:
        return known[-1] if known else None
    for call in reversed(known[-LATEST:]):
        alike = call.get("index") == index if index is not None else call.get("id") == id
        if alike:
            # A new id without a name is no new call: some gateways make up an id for every chunk.
            is_other = id and call.get("id") and call["id"] != id and text_of(_function(piece).get("name"))
            return None if is_other else call
    return None


def _is_object(call: Mapping[str, Any]) -> bool:
    arguments = call["function"].get("arguments")
    if not isinstance(arguments, str):
        return isinstance(arguments, dict)
    return arguments.rstrip().endswith("}") and as_json(arguments.encode("utf-8", "replace")) is not None


def _arguments(known: Any, added: Any) -> Any:
    """Texts are joined, unless the same came again, whole or continued: no object continues with its own beginning.
    Arguments that are not text come in one piece."""
    if isinstance(known, str) and isinstance(added, str):
        return added if known.startswith("{") and len(known) > 1 and added.startswith(known) else known + added
    return known if added is None else added


def _function(piece: Mapping[str, Any]) -> dict[str, Any]:
    function = piece.get("function")
    return dict(function) if isinstance(function, dict) else {}


# Reassembles a streamed chat completion.
#
# ``EventStream`` divides the bytes of server-sent events into payloads, wherever the network divided them.
# ``Transcript`` joins the chunks in those payloads into the answer that an endpoint would have sent without
# streaming, so that the same code reads both. Half an answer looks just like a whole one, so the end of an answer is
# its reason together with an empty delta, or ``[DONE]``; some gateways give a reason with every chunk, others never.

DONE = "[DONE]"
# The longest event is an answer that came in one piece.
_MOST_EVENT_BYTES = 2 * 1024 * 1024
# How often JSON alone that may be whole is read; after that, what came is read at the end of the stream.
_MOST_TRIES = 64
# What a gateway puts behind an answer that it does not stream.
GLUED_END = re.compile(r"\s{0,9}data: ?\[DONE\]\s*\Z")
# Split as bytes, at CR and LF only: str.splitlines would split inside a JSON text that contains U+2028.
_LINE_END = re.compile(rb"\r\n|\n|\r")
# Pieces of these fields are joined; of every other field the last value counts.
_JOINED = frozenset({"content", "reasoning", "reasoning_content", "refusal"})
# A delta without any of these may accompany the end of an answer.
_SAYING = (*sorted(_JOINED), "reasoning_details", "tool_calls", "function_call")
# Encrypted reasoning arrives in one piece, each with an id of its own.
_GROWING_DETAILS = {"reasoning.text": "text", "reasoning.summary": "summary"}


class EventStream:
    """Divides bytes into server-sent events. ``is_too_long`` when an event is longer than any chunk of an answer."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[str] = []
        self._size = 0
        self._is_error = False
        self._bare: list[str] = []
        self._tries = 0

    @property
    def is_too_long(self) -> bool:
        return self._size > _MOST_EVENT_BYTES

    def feed(self, chunk: bytes) -> list[str]:
        """The payloads that are complete with ``chunk``."""
        self._size += len(chunk)
        ends = _LINE_END.search(chunk) or (self._line and self._line[-1].endswith(b"\r"))
        if not ends:
            # Joined at the end of the line; otherwise every chunk would copy a long line.
            self._line.append(chunk)
            return []
        text = b"".join((*self._line, chunk))
        # A CR at the very end may be half of a CRLF.
        kept_back = text[-1:] if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(kept_back))
        self._line = [rest + kept_back]
        return [payload for line in lines for payload in self._take(line)]

    def rest(self) -> list[str]:
        """The payloads left at the end of a stream that lacks its last empty line."""
        lines = (*_LINE_END.split(b"".join(self._line)), b"")
        left = [payload for line in lines for payload in self._take(line)]
        return [*left, "\n".join(self._bare).strip()] if self._bare else left

    def _take(self, line: bytes) -> list[str]:
        if self._bare or (line.startswith((b"{", b"[", b"\xef\xbb\xbf{")) and not self._data):
            return self._take_bare(line.decode("utf-8", "replace").removeprefix("\ufeff"))
        if line:
            self._keep(line.decode("utf-8", "replace").removeprefix("\ufeff"))
            return []
        data, self._data, self._size = self._data, [], 0
        is_error, self._is_error = self._is_error, False
        if is_error and data and not data[0].lstrip().startswith(("{", "[")):
            return [json.dumps({"error": " ".join(data)})]
        return _payloads(data)

    def _take_bare(self, line: str) -> list[str]:
        """JSON alone, which some gateways send though they call it a stream of events: an object a line, or one over
        many lines, which ends at the first bracket that is not indented."""
        self._bare.append(line)
        is_start = len(self._bare) == 1 and len(line) > 1
        if not (is_start or line.startswith(("}", "]"))) or self._tries == _MOST_TRIES:
            return []
        whole = GLUED_END.sub("", "\n".join(self._bare))
        if document_in(whole.encode("utf-8", "replace")) is None:
            self._tries += 1
            return []
        self._bare, self._size, self._tries = [], 0, 0
        return [whole]

    def _keep(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._is_error = value.strip() == "error"
        elif name == "error":
            # Older llama.cpp servers report an error this way instead of in the data.
            self._data.append(json.dumps({"error": as_json(value.encode()) or value.strip()}))


def _payloads(data: list[str]) -> list[str]:
    """The payload of an event. Some servers omit the empty line between events: then each line is a payload."""
    whole = "\n".join(data).strip()
    if len(data) > 1 and as_json(whole.encode("utf-8", "replace")) is None:
        return [line.strip() for line in data if line.strip()]
    return [whole] if whole else []


class Transcript:
    """The chunks of one answer, joined. ``deltas`` counts the deltas that contained something. ``is_counted`` is true
    once the usage has come after the last of them."""

    def __init__(self) -> None:
        self.error: EndpointError | None = None
        self.is_done = False
        self.is_counted = False
        self.deltas = 0
        self._ends = False
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}
        self._message: dict[str, Any] = {}
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []

    @property
    def has_reason(self) -> bool:
        """Whether the answer gave a reason for its end, which some gateways do with every chunk."""
        return bool(self._choice.get("finish_reason"))

    @property
    def is_whole(self) -> bool:
        """Whether what was said needs no continuation: whole tool calls, or text that is whole JSON."""
        if self._calls:
            return all(_is_whole(call["function"].get("arguments")) for call in self._calls)
        pieces = self._pieces.get("content", ())
        last = next((piece.rstrip() for piece in reversed(pieces) if piece.strip()), "")
        return last.endswith(("}", "]", "```")) and _is_whole(without_reasoning("".join(pieces))[1])

    @property
    def may_end(self) -> bool:
        """Whether nothing is missing, so that silence or a broken connection does no harm."""
        return self.is_done or (self.has_reason and (self._ends or self.is_whole))

    @property
    def is_answer(self) -> bool:
        """Whether a complete answer has come: ``[DONE]`` ends one as well as a reason does."""
        return self.has_reason or (self.is_done and self._has_answered)

    @property
    def _has_answered(self) -> bool:
        return bool(self._calls or any(map(str.strip, self._pieces.get("content", ()))))

    @property
    def is_broken_off(self) -> bool:
        """Whether the stream ended without a complete answer."""
        return self.error is not None or (self.is_done and not self.is_answer)

    def add(self, payload: str) -> None:
        """Adds the next payload. Raises ValueError when it is not a chunk."""
        if payload.strip('"') == DONE:
            self.is_done = True
            return
        chunk = document_in(payload.encode("utf-8", "replace"))
        if chunk is None:
            if payload.startswith(("{", "[{")) or _is_whole(payload):
                raise ValueError("a chunk of the stream is not JSON")
            # A sign of life, such as "data: keep-alive".
            return
        if self.may_end and chunk.get("error"):
            return
        self.error = self.error or error_in(chunk)
        self._top |= {key: value for key, value in chunk.items() if value and key not in {"choices", "error"}}
        for choice in [each for each in _mappings(chunk.get("choices")) if not each.get("index")][:1]:
            reason = choice.get("finish_reason") or choice.get("finishReason")
            named = {"finish_reason": reason, "native_finish_reason": choice.get("native_finish_reason")}
            self._choice |= {key: value for key, value in named.items() if value}
            says = self._add_delta(choice["delta"] if "delta" in choice else self._unsaid(_message(choice)))
            self.deltas += says
            self._ends = bool(reason or self._ends) and not says
            self.is_counted = self.is_counted and not says
        self.is_counted = self.is_counted or (self._ends and bool(chunk.get("usage")))

    def _unsaid(self, message: Any) -> Any:
        """What a message adds that contains all that was said so far."""
        if not isinstance(message, dict):
            return message
        known = {key: "".join(pieces) for key, pieces in self._pieces.items()}
        return {
            key: value[len(known[key]) :]
            if isinstance(value, str) and value.startswith(known.get(key, "\0"))
            else value
            for key, value in message.items()
        }

    def _add_delta(self, delta: Any) -> bool:
        """Adds what a chunk says, and returns whether it says anything."""
        if not isinstance(delta, dict):
            return False
        for key, value in delta.items():
            if key in _JOINED:
                self._pieces.setdefault(key, []).append(content_of(value))
                self._add_parts(key, value)
            elif key == "reasoning_details":
                _join_details(self._details, _mappings(value))
            elif key == "tool_calls":
                join_calls(self._calls, calls_in(value))
            elif key == "function_call":
                join_calls(self._calls, [{"index": 0, "function": value}] if value else [])
            elif value is not None:
                self._message[key] = value
        return any(delta.get(key) for key in _SAYING)

    def _add_parts(self, key: str, value: Any) -> None:
        """Keeps the thoughts among the parts of the content, where Mistral has them."""
        if key == "content" and isinstance(value, list):
            thoughts = [text_of(part.get("thinking")) for part in _mappings(value)]
            self._pieces.setdefault("reasoning", []).append("".join(thoughts))

    def completion(self) -> Mapping[str, Any]:
        """The answer in the format that it would have without streaming."""
        message = {**self._message, **{key: "".join(parts) for key, parts in self._pieces.items() if any(parts)}}
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = finished_calls(self._calls)
        return {**self._top, "choices": [{**self._choice, "message": message}]}

    def progress(self) -> PartialReply:
        """Returns the text that the model has sent so far."""
        thought = {key: "".join(self._pieces.get(key, ())) for key in ("reasoning", "reasoning_content")}
        marked, text = without_reasoning("".join(self._pieces.get("content", ())))
        return PartialReply(text, reasoning_of({**thought, "reasoning_details": self._details}) or marked)


def _message(choice: Mapping[str, Any]) -> Any:
    """The message of a choice; in the older format a choice has only a text."""
    return choice.get("message") or {"content": choice.get("text")}


def _join_details(known: list[dict[str, Any]], pieces: Iterable[dict[str, Any]]) -> None:
    """Adds pieces of reasoning, so that the list becomes what the endpoint would have sent in one piece."""
    for piece in pieces:
        grown = _grown(known, piece)
        if grown is None:
            known.append(dict(piece))
            continue
        field = _GROWING_DETAILS[str(piece.get("type"))]
        joined = text_of(grown.get(field)) + text_of(piece.get(field))
        grown |= {**{key: value for key, value in piece.items() if value is not None}, field: joined}


def _grown(known: list[dict[str, Any]], piece: Mapping[str, Any]) -> dict[str, Any] | None:
    """The reasoning that ``piece`` continues; None when it begins a new one. Signed reasoning is finished."""
    if piece.get("type") not in _GROWING_DETAILS or not known:
        return None
    place = piece.get("index")
    latest = known[-LATEST:]
    same = latest[-1:] if place is None else [entry for entry in latest if entry.get("index") == place][-1:]
    for entry in same:
        ids = {entry.get("id"), piece.get("id")} - {None}
        if entry.get("type") == piece.get("type") and len(ids) < 2 and not entry.get("signature"):
            return entry
    return None


def _is_whole(text: Any) -> bool:
    """Whether a text is whole JSON; arguments that are no text came in one piece."""
    if not isinstance(text, str):
        return text is not None
    try:
        json.loads(text.strip().removeprefix("```json").strip("`"))
    except (ValueError, RecursionError):
        return False
    return True


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
