"""Messages in: the same checks and the same idempotence as an import of a file.

A token that opens every memory makes the chat user it names; one that was made for some chat users does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Router

from memoryapp import erasure
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described
from memoryapp.api.refusals import Refused
from memoryapp.api.shapes import AddedAnswer, MessagesBody
from memoryapp.database import in_thread
from memoryapp.importers.jsonl import conversation
from memoryapp.importers.record import MessageRecord, Rejected
from memoryapp.ingestion import BATCH, add_messages
from memoryapp.models import ChatUser
from memoryapp.tokens import Grant

router = Router(tags=["messages"])


@router.post("/messages", auth=Token(Scope.INGEST), response=described(AddedAnswer, 400, 404, 409, 413, 422))
async def add(request: HttpRequest, body: MessagesBody) -> JsonResponse:
    """Add messages to a memory. Those whose id is there already are left as they are, so a call can be repeated."""
    if len(body.messages) > BATCH:
        raise Refused(413, f"At most {BATCH:,} messages a call, not {len(body.messages):,}.")
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
        "rejected": [_told(item, body.messages) for item in sorted(refused, key=lambda item: int(item.line))],
    }


def _owner(grant: Grant, name: str, *, is_wanted: bool) -> ChatUser | None:
    """The chat user, made if the token opens every memory and there is a message to keep for them."""
    if not grant.opens_all:
        return owner_or_404(grant, name)
    if not name.isprintable():
        raise Refused(422, "user: a chat user's name is one line of printable characters")
    return erasure.found_or_made(name) if is_wanted else None


def _read(body: MessagesBody) -> Sequence[MessageRecord | Rejected]:
    """One result a message, in order, each with its place in the list."""
    said = {**(body.model_extra or {}), "user": body.user, "messages": body.messages}
    return [replace(item, line=index) for index, item in enumerate(conversation(said, "messages"))]


def _told(item: Rejected, messages: Sequence[Any]) -> dict[str, Any]:
    index = int(item.line)
    said = messages[index]
    named = str(said.get("id", ""))[:300] if isinstance(said, Mapping) else ""
    return {"index": index, "id": named, "reason": item.reason}
