"""Stores messages, with the checks of a file's import; a repeated call adds nothing.

A token that opens every memory creates the chat user that it names; a token for certain chat users does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Router

from memoryapp import chat_users
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.messages import MOST_A_CALL, AddedAnswer, MessagesBody
from memoryapp.importers.jsonl import conversation
from memoryapp.importers.record import MessageRecord, Rejected
from memoryapp.ingestion.messages import add_messages
from memoryapp.models import ChatUser
from memoryapp.operations.database import in_thread

router = Router(tags=["messages"])


@router.post("/messages", auth=Token(Scope.INGEST), response=described(AddedAnswer, 400, 404, 409, 413, 422))
async def add(request: HttpRequest, body: MessagesBody) -> JsonResponse:
    """Add messages to a memory. A message with a known id is left unchanged, so a call can be repeated."""
    if len(body.messages) > MOST_A_CALL:
        raise RequestRefused(413, f"At most {MOST_A_CALL:,} messages a call, not {len(body.messages):,}.")
    return JsonResponse(await in_thread(_added, grant_of(request), body))


def _added(grant: Grant, body: MessagesBody) -> dict[str, Any]:
    read = _read(body)
    records = [item for item in read if isinstance(item, MessageRecord)]
    rejected = [item for item in read if isinstance(item, Rejected)]
    owner = _owner(grant, body.user, is_wanted=bool(records))
    added = add_messages(owner, records) if owner else None
    refused = [*rejected, *(added.rejected if added else ())]
    return {
        "added": added.added if added else 0,
        "skipped": added.skipped if added else 0,
        "rejected": [_rejection(item, body.messages) for item in sorted(refused, key=lambda item: int(item.line))],
    }


def _owner(grant: Grant, name: str, *, is_wanted: bool) -> ChatUser | None:
    """Returns the chat user. A token that opens every memory creates a missing one; without a message to store, it gets
    None."""
    if not grant.opens_all:
        return owner_or_404(grant, name)
    if not name.isprintable():
        raise RequestRefused(422, "user: a chat user's name is one line of printable characters")
    return chat_users.found_or_made(name) if is_wanted else None


def _read(body: MessagesBody) -> Sequence[MessageRecord | Rejected]:
    """Returns one result for each message, in order, with its index in ``line``."""
    sent = {**(body.model_extra or {}), "user": body.user, "messages": body.messages}
    return [replace(item, line=index) for index, item in enumerate(conversation(sent, "messages"))]


def _rejection(item: Rejected, messages: Sequence[Any]) -> dict[str, Any]:
    index = int(item.line)
    sent = messages[index]
    external_id = str(sent.get("id", ""))[:300] if isinstance(sent, Mapping) else ""
    return {"index": index, "id": external_id, "reason": item.reason}
