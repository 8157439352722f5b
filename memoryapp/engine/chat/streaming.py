"""Reassembles a streamed chat completion.

``EventStream`` divides the bytes of server-sent events into payloads, wherever the network divided them. ``Transcript``
joins the chunks in those payloads into the answer that an endpoint would have sent without streaming, so that the same
code reads both. A stream is complete only when it says how it ended: half an answer looks just like a whole one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from memoryapp.engine.chat.completions import EndpointError, as_json, error_in, reasoning_of, text_of, without_reasoning
from memoryapp.engine.chat.protocol import PartialReply

DONE = "[DONE]"
# The longest event is an answer that came in one piece.
_MOST_EVENT_BYTES = 2 * 1024 * 1024
# A piece continues one of the latest calls or details: compared with all of them, a long stream would take quadratic
# time.
_LATEST = 256
# Split as bytes, at CR and LF only: str.splitlines would split inside a JSON text that contains U+2028.
_LINE_END = re.compile(rb"\r\n|\n|\r")
# Pieces of these fields are joined; of every other field the last value counts.
_JOINED = frozenset({"content", "reasoning", "reasoning_content", "refusal"})
# Encrypted reasoning arrives in one piece, each with an id of its own.
_GROWING_DETAILS = {"reasoning.text": "text", "reasoning.summary": "summary"}


class EventStream:
    """Divides bytes into server-sent events. ``is_too_long`` is true when an event is longer than any chunk of an
    answer."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[str] = []
        self._size = 0

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
        return [payload for line in (*_LINE_END.split(b"".join(self._line)), b"") for payload in self._take(line)]

    def _take(self, line: bytes) -> list[str]:
        if line:
            self._keep(line.decode("utf-8", "replace").removeprefix("\ufeff"))
            return []
        data, self._data, self._size = self._data, [], 0
        return _payloads(data)

    def _keep(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
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
    """The chunks of one answer, joined. ``is_counted`` is true once the usage has come, at the end."""

    def __init__(self) -> None:
        self.error: EndpointError | None = None
        self.is_done = False
        self.is_counted = False
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}
        self._message: dict[str, Any] = {}
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []

    @property
    def is_complete(self) -> bool:
        """Whether the answer has a reason for its end."""
        return bool(self._choice.get("finish_reason"))

    @property
    def is_broken_off(self) -> bool:
        """Whether the stream ended without a complete answer."""
        return self.error is not None or (self.is_done and not self.is_complete)

    def add(self, payload: str) -> None:
        """Adds the next payload. Raises ValueError when it is not a chunk."""
        if payload == DONE:
            self.is_done = True
            return
        chunk = as_json(payload.encode("utf-8", "replace"))
        if chunk is None:
            raise ValueError("a chunk of the stream is not JSON")
        self.error = self.error or error_in(chunk)
        self._top |= {key: value for key, value in chunk.items() if value and key not in {"choices", "error"}}
        for choice in _mappings(chunk.get("choices"))[:1]:
            self._choice |= {key: choice[key] for key in ("finish_reason", "native_finish_reason") if choice.get(key)}
            self._add_delta(choice.get("delta") or choice.get("message"))
        self.is_counted = self.is_counted or (self.is_complete and bool(chunk.get("usage")))

    def _add_delta(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            return
        for key, value in delta.items():
            if key in _JOINED:
                self._pieces.setdefault(key, []).append(text_of(value))
            elif key == "reasoning_details":
                _join_details(self._details, _mappings(value))
            elif key == "tool_calls":
                _join_calls(self._calls, _mappings(value))
            elif value is not None:
                self._message[key] = value

    def completion(self) -> Mapping[str, Any]:
        """The answer in the format that it would have without streaming."""
        message = {**self._message, **{key: "".join(parts) for key, parts in self._pieces.items() if any(parts)}}
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in self._calls]
        return {**self._top, "choices": [{**self._choice, "message": message}]}

    def progress(self) -> PartialReply:
        """Returns the text that the model has sent so far."""
        thought = {key: "".join(self._pieces.get(key, ())) for key in ("reasoning", "reasoning_content")}
        marked, text = without_reasoning("".join(self._pieces.get("content", ())))
        return PartialReply(text, reasoning_of({**thought, "reasoning_details": self._details}) or marked)


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
    latest = known[-_LATEST:]
    same = latest[-1:] if place is None else [entry for entry in latest if entry.get("index") == place][-1:]
    for entry in same:
        ids = {entry.get("id"), piece.get("id")} - {None}
        if entry.get("type") == piece.get("type") and len(ids) < 2 and not entry.get("signature"):
            return entry
    return None


def _join_calls(known: list[dict[str, Any]], pieces: Iterable[dict[str, Any]]) -> None:
    for piece in pieces:
        call = _continued(known, piece)
        if call is None:
            known.append({**piece, "function": _function(piece)})
            continue
        function, added = call["function"], _function(piece)
        call |= {key: value for key, value in piece.items() if value and key != "function"}
        call["function"] = {
            **function,
            **{key: value for key, value in added.items() if value is not None},
            "name": _name(text_of(function.get("name")), text_of(added.get("name"))),
            "arguments": _arguments(function.get("arguments"), added.get("arguments")),
        }


def _continued(known: list[dict[str, Any]], piece: Mapping[str, Any]) -> dict[str, Any] | None:
    """The call that ``piece`` continues. Some endpoints number every call 0, or none; then ids decide."""
    id, index = piece.get("id"), piece.get("index")
    if index is None and not id:
        return known[-1] if known else None
    for call in reversed(known[-_LATEST:]):
        alike = call.get("index") == index if index is not None else call.get("id") == id
        if alike:
            return None if id and call.get("id") and call["id"] != id else call
    return None


def _name(known: str, added: str) -> str:
    return known if known == added else known + added


def _arguments(known: Any, added: Any) -> Any:
    """Texts are joined; arguments that are not text come in one piece."""
    if isinstance(known, str) and isinstance(added, str):
        return known + added
    return known if added is None else added


def _function(piece: Mapping[str, Any]) -> dict[str, Any]:
    function = piece.get("function")
    return dict(function) if isinstance(function, dict) else {}


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
