"""Stores messages, with the checks of a file's import; a repeated call adds nothing.

Messages may also have the fields that OpenAI's API gives them: ``content`` (text or parts), ``name``, no id, no time.
Calls of tools and their results are no talk: they are counted and left out.

A token that opens every memory creates the chat user that it names; a token for certain chat users does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router

from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.messages import MOST_A_CALL, AddedAnswer, MessagesBody, UnstoredErrorAnswer
from memoryapp.content import chat_users
from memoryapp.importers import reasons
from memoryapp.importers.formats.assistants import openai_messages
from memoryapp.importers.formats.memories.jsonl import conversation
from memoryapp.importers.record import MessageRecord, Rejected, clean
from memoryapp.ingestion.messages import add_messages
from memoryapp.models import ChatUser, Message

router = Router(tags=["messages"])


@router.post(
    "/messages",
    operation_id="addMessages",
    auth=Token(Scope.INGEST),
    response={**described(AddedAnswer, 400, 404, 409, 413), 422: UnstoredErrorAnswer},
)
async def add(request: HttpRequest, body: MessagesBody) -> AddedAnswer:
    """Add messages to a memory. A message with a known id is left unchanged, so a call can be repeated.

    If none of them could be stored and at least one was rejected, the answer is 422 with the reasons.
    """
    if len(body.messages) > MOST_A_CALL:
        raise RequestRefused(413, f"At most {MOST_A_CALL:,} messages a call, not {len(body.messages):,}.")
    return await answered(AddedAnswer, take_in, grant_of(request), body)


def take_in(grant: Grant, body: MessagesBody) -> dict[str, Any]:
    labelled = [_labelled(sent, body.session) for sent in body.messages]
    spoken = [SentMessage(index, sent) for index, sent in enumerate(labelled) if not _is_of_a_tool(sent)]
    read = _read(body, _with_ids_and_times(spoken, _times_of(grant, body.user, spoken)))
    records = [item for item in read if isinstance(item, MessageRecord)]
    rejected = [item for item in read if isinstance(item, Rejected)]
    owner = owner_to_fill(grant, body.user, is_wanted=bool(records))
    added = add_messages(owner, records) if owner else None
    refused = sorted([*rejected, *(added.rejected if added else ())], key=lambda item: int(item.line))
    answer = {
        "added": added.added if added else 0,
        "skipped": added.skipped if added else 0,
        "rejected": [_rejection(item, body.messages) for item in refused],
    }
    if left_out := len(body.messages) - len(spoken):
        answer["left_out"] = [{"reason": str(reasons.TOOL), "count": left_out}]
    if refused and not answer["added"] and not answer["skipped"]:
        reason = f"No message could be stored. Of message {refused[0].line}: {refused[0].reason}."
        raise RequestRefused(422, reason, rejected=answer["rejected"])
    return answer


def owner_to_fill(grant: Grant, name: str, *, is_wanted: bool) -> ChatUser | None:
    """Returns the chat user. A token that opens every memory creates a missing one; where nothing is to be stored, it
    gets None."""
    if not grant.opens_all:
        return owner_or_404(grant, name)
    if not name.isprintable():
        raise RequestRefused(422, "user: a chat user's name is one line of printable characters")
    return chat_users.found_or_made(name) if is_wanted else None


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message of the call that is no tool's, with its index there."""

    index: int
    sent: Any


def _labelled(sent: Any, session: str | None) -> Any:
    """A message with the ``session`` of the whole call, unless it has one of its own."""
    if not session or not isinstance(sent, Mapping) or sent.get("session") is not None:
        return sent
    return {**sent, "session": session}


def _is_of_a_tool(sent: Any) -> bool:
    """Whether a message is the result of a tool, or calls tools without saying anything."""
    if not isinstance(sent, Mapping):
        return False
    has_calls = bool(sent.get("tool_calls") or sent.get("function_call"))
    is_silent = not sent.get("text") and not openai_messages.said(sent)
    return sent.get("role") in openai_messages.TOOLS or (has_calls and is_silent)


def _times_of(grant: Grant, name: str, spoken: Sequence[SentMessage]) -> Mapping[str, str]:
    """Returns the times of messages that are stored already and come again without one, by their ids."""
    sent = [item.sent for item in spoken if isinstance(item.sent, Mapping) and not item.sent.get("ts")]
    ids = [clean(str(message["id"])) for message in sent if message.get("id")]
    known = Message.objects.filter(owner__in=grant.visible_owners().filter(name=clean(name)), external_id__in=ids)
    return {id: sent_at.isoformat() for id, sent_at in known.values_list("external_id", "sent_at")} if ids else {}


def _with_ids_and_times(spoken: Sequence[SentMessage], times: Mapping[str, str]) -> list[SentMessage]:
    """Returns the messages in the program's own fields. Where no message of a call has a time, all were said now."""
    is_timed = any(isinstance(item.sent, Mapping) and item.sent.get("ts") for item in spoken)
    now = "" if is_timed else datetime.now(UTC).isoformat()
    return [replace(item, sent=_own_fields(item.sent, times, now)) for item in spoken]


def _own_fields(sent: Any, times: Mapping[str, str], now: str) -> Any:
    if not isinstance(sent, Mapping):
        return sent
    fields = {key: value for key, value in sent.items() if key not in ("content", "name", "refusal")}
    if fields.get("text") is None:
        fields["text"] = openai_messages.said(sent) or None
    if isinstance(sent.get("name"), str):
        fields.setdefault("author", sent["name"])
    role = sent.get("role")
    fields["role"] = openai_messages.ROLES.get(role, role) if isinstance(role, str) else role
    if not fields.get("ts"):
        fields["ts"] = times.get(clean(str(sent.get("id"))), now)
    if sent.get("id") is None:
        fields["id"] = _id_of(fields)
    return fields


def _id_of(fields: Mapping[str, Any]) -> str:
    """Returns an id for a message that has none: the same one if it is sent again with the same time."""
    words = "\n".join(str(fields.get(name) or "") for name in ("role", "author", "ts", "text"))
    return f"sent:{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _read(body: MessagesBody, spoken: Sequence[SentMessage]) -> Sequence[MessageRecord | Rejected]:
    """Returns one result for each message, in order, with its index in the call in ``line``."""
    sent = {**(body.model_extra or {}), "user": body.user, "messages": [item.sent for item in spoken]}
    read = conversation(sent, "messages")
    return [replace(item, line=message.index) for message, item in zip(spoken, read, strict=True)]


def _rejection(item: Rejected, messages: Sequence[Any]) -> dict[str, Any]:
    index = int(item.line)
    sent = messages[index]
    external_id = str(sent.get("id", ""))[:300] if isinstance(sent, Mapping) else ""
    return {"index": index, "id": external_id, "reason": item.reason}
