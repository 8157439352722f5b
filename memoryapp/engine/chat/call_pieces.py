"""Joins the pieces of tool calls that a stream sends.

Endpoints number their calls, or give them ids, or both; some number every call 0, and some do neither. Then a piece
that brings a name begins a new call once the arguments of the one before are whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memoryapp.engine.chat.completions import as_json, text_of

# A piece continues one of the latest calls or details: compared with all of them, a long stream would take quadratic
# time.
LATEST = 256


def join_calls(known: list[dict[str, Any]], pieces: Iterable[dict[str, Any]]) -> None:
    """Adds the pieces to the ``known`` calls."""
    for piece in pieces:
        call = _continued(known, piece)
        if call is None:
            known.append({**piece, "function": _function(piece)})
            continue
        function, added = call["function"], _function(piece)
        call |= {key: value for key, value in piece.items() if value and key not in {"function", "id"}}
        call["id"] = call.get("id") or piece.get("id")
        call["function"] = {
            **function,
            **{key: value for key, value in added.items() if value is not None},
            "name": _name(text_of(function.get("name")), text_of(added.get("name"))),
            "arguments": _arguments(function.get("arguments"), added.get("arguments")),
        }


def finished_calls(known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls as they would have come in one piece: without numbers, and without an empty echo of the call before."""
    calls: list[dict[str, Any]] = []
    for call in known:
        is_echo = calls and not _function(call).get("arguments") and _of_one_name(calls[-1], call)
        if not is_echo:
            calls.append({key: value for key, value in call.items() if key != "index"})
    return calls


def _of_one_name(call: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _function(call).get("name") == _function(other).get("name") and bool(_function(call).get("arguments"))


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
    """Whether the arguments of a call are a whole JSON object."""
    arguments = call["function"].get("arguments")
    if not isinstance(arguments, str):
        return isinstance(arguments, dict)
    return arguments.rstrip().endswith("}") and as_json(arguments.encode("utf-8", "replace")) is not None


def _name(known: str, added: str) -> str:
    return known if known == added else known + added


def _arguments(known: Any, added: Any) -> Any:
    """Texts are joined, unless the same came again, whole or continued: no object continues with its own beginning.
    Arguments that are not text come in one piece."""
    if isinstance(known, str) and isinstance(added, str):
        return added if known.startswith("{") and len(known) > 1 and added.startswith(known) else known + added
    return known if added is None else added


def _function(piece: Mapping[str, Any]) -> dict[str, Any]:
    function = piece.get("function")
    return dict(function) if isinstance(function, dict) else {}
