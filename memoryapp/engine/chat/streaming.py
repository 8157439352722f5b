"""Reassembles a streamed chat completion.

``EventStream`` divides the bytes of server-sent events into payloads, wherever the network divided them. ``Transcript``
joins the chunks in those payloads into the answer that an endpoint would have sent without streaming, so that the same
code reads both. Half an answer looks just like a whole one, so the end of an answer is its reason together with an
empty delta, or ``[DONE]``; some gateways give a reason with every chunk, others never.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from memoryapp.engine.chat.call_pieces import LATEST, finished_calls, join_calls
from memoryapp.engine.chat.completions import (
    as_json,
    calls_in,
    content_of,
    reasoning_of,
    text_of,
    without_reasoning,
)
from memoryapp.engine.chat.protocol import PartialReply
from memoryapp.engine.chat.refusals import EndpointError, document_in, error_in

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
    """Divides bytes into server-sent events. ``is_too_long`` is true when an event is longer than any chunk of an
    answer."""

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
    """The chunks of one answer, joined.

    ``deltas`` counts the deltas that contained something. ``is_counted`` is true once the usage has come after the last
    of them.
    """

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
