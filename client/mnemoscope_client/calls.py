"""The requests of the API as values: both clients send the same ones.

``operation`` is the ``operationId`` of the API's description, against which every call is tested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

from mnemoscope_client.shapes import (
    Answered,
    ClosedSessions,
    FoundItems,
    FoundNamespaces,
    FoundTopics,
    MadeDecision,
    Reason,
    Recalled,
    Receipt,
    Remembered,
    Shape,
    StoredRun,
    TopicPage,
    UsedMemory,
    WrittenItems,
)

Answer = TypeVar("Answer", bound=Shape)
Sent = Mapping[str, Any]
Run = UUID | str
# The operation that keeps items.
WRITING = "writeItems"


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request, and the shape of its answer. If it ``is_repeatable``, it does no more when it is sent twice."""

    operation: str
    method: str
    path: str
    shape: type[Answer]
    body: Sent | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True)
class StreamCall:
    """A request that is answered by server-sent events."""

    operation: str
    method: str
    path: str
    body: Sent | None = None


def remember(user: str, messages: str | Sent | Sequence[Sent]) -> Call[Remembered]:
    """A text alone is a message of the user. A message without an ``id`` gets one, so that it is stored once however
    often it is sent."""
    sent = [{"role": "user", "text": messages}] if isinstance(messages, str) else messages
    listed = [sent] if isinstance(sent, Mapping) else sent
    identified = [{**message, "id": message.get("id") or uuid4().hex} for message in listed]
    body = {"user": user, "messages": identified}
    return Call("addMessages", "POST", "/v1/messages", Remembered, body, is_repeatable=True)


def recall_body(
    user: str,
    query: str,
    messages: Sequence[Sent] | None,
    media: Sequence[Sent],
    strategy: str | None,
    parameters: Sent,
    include: Sequence[str] = (),
    as_of: str | None = None,
) -> dict[str, Any]:
    """The body of a recall; what is not given is left to the server."""
    given = {
        "messages": None if messages is None else [*messages],
        "media": [*media] or None,
        "strategy": strategy,
        "parameters": dict(parameters) or None,
        "include": [*include] or None,
        "as_of": as_of,
    }
    return {"user": user, "query": query, **{name: value for name, value in given.items() if value is not None}}


def recall(body: Sent) -> Call[Recalled]:
    return Call("recall", "POST", "/v1/recall", Recalled, body)


def recall_events(body: Sent) -> StreamCall:
    return StreamCall("streamRecall", "POST", "/v1/recall/stream", body)


def question_body(user: str, query: str, messages: Sequence[Sent] | None, parameters: Sent) -> dict[str, Any]:
    return recall_body(user, query, messages, (), None, parameters)


def ask(body: Sent) -> Call[Answered]:
    return Call("answerQuestion", "POST", "/v1/qa", Answered, body)


def ask_agent(body: Sent) -> StreamCall:
    return StreamCall("streamAnswer", "POST", "/v1/agent/stream", body)


def answered(run: Run, text: str) -> Call[UsedMemory]:
    return Call("deliverAnswer", "POST", f"{_run(run)}/answer", UsedMemory, {"text": text}, is_repeatable=True)


def watch(run: Run) -> StreamCall:
    return StreamCall("streamRun", "GET", f"{_run(run)}/stream")


def run(number: Run) -> Call[StoredRun]:
    return Call("getRun", "GET", _run(number), StoredRun, is_repeatable=True)


def why_not(run: Run, *, topic: str = "", message: str = "", text: str = "") -> Call[Reason]:
    asked = {name: value for name, value in (("topic", topic), ("message", message), ("text", text)) if value}
    return Call("whyNot", "GET", f"{_run(run)}/why_not", Reason, query=asked, is_repeatable=True)


def close_sessions(user: str, session: str | None) -> Call[ClosedSessions]:
    body = {"user": user} if session is None else {"user": user, "session": session}
    return Call("closeSessions", "POST", "/v1/sessions/close", ClosedSessions, body, is_repeatable=True)


def topic(id: str) -> Call[FoundTopics]:
    return Call("getTopic", "GET", f"/v1/topics/{_part(id)}", FoundTopics, is_repeatable=True)


def topics(user: str, after: str = "") -> Call[TopicPage]:
    query: dict[str, str | int] = {"limit": 200, **({"after": after} if after else {})}
    return Call("listTopics", "GET", f"/v1/users/{_part(user)}/topics", TopicPage, query=query, is_repeatable=True)


def decide(user: str, id: str, recall: str, reason: str) -> Call[MadeDecision]:
    body = {"user": user, "id": id, "recall": recall, "reason": reason}
    return Call("decideRecall", "POST", "/v1/decisions", MadeDecision, body)


def forget(user: str, message: str) -> Call[Receipt]:
    return Call("eraseMessage", "DELETE", f"/v1/messages/{_part(message)}", Receipt, query={"user": user})


def write_items(user: str, items: Sequence[Sent]) -> Call[WrittenItems]:
    """Each item has ``namespace``, ``key``, ``value`` (None deletes it), and perhaps the ``text`` that is searched."""
    return Call(WRITING, "PUT", "/v1/items", WrittenItems, {"user": user, "items": [*items]}, is_repeatable=True)


def read_items(user: str, names: Sequence[tuple[Sequence[str], str]]) -> Call[FoundItems]:
    items = [{"namespace": [*namespace], "key": key} for namespace, key in names]
    return Call("readItems", "POST", "/v1/items/read", FoundItems, {"user": user, "items": items}, is_repeatable=True)


def search_items(
    user: str, prefix: Sequence[str], query: str | None, filter: Sent | None, limit: int, offset: int
) -> Call[FoundItems]:
    """The nearest to the query first; without one, the last changed."""
    body: dict[str, Any] = {"user": user, "prefix": [*prefix], "limit": limit, "offset": offset}
    asked = {"query": query or None, "filter": dict(filter or {}) or None}
    body |= {name: value for name, value in asked.items() if value is not None}
    return Call("searchItems", "POST", "/v1/items/search", FoundItems, body, is_repeatable=True)


def namespaces(
    user: str, conditions: Sequence[tuple[str, Sequence[str]]], depth: int | None, limit: int, offset: int
) -> Call[FoundNamespaces]:
    """A condition is ``prefix`` or ``suffix`` with a path, in which ``*`` is any label."""
    listed = [{"at": at, "path": [*path]} for at, path in conditions]
    body: dict[str, Any] = {"user": user, "conditions": listed, "limit": limit, "offset": offset}
    body |= {} if depth is None else {"depth": depth}
    return Call("listNamespaces", "POST", "/v1/items/namespaces", FoundNamespaces, body, is_repeatable=True)


def _run(run: Run) -> str:
    return f"/v1/runs/{_part(str(run))}"


def _part(text: str) -> str:
    """A part of a path: no sign in it begins another part or a query."""
    return quote(text, safe="")
