"""Stores messages, with the checks of a file's import; a repeated call adds nothing.

Messages may also have the fields that OpenAI's API gives them: ``content`` (text or parts), ``name``, no id, no time.
Calls of tools and their results are no talk: they are counted and left out.

A token that opens every memory creates the chat user that it names; a token for certain chat users does not."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from ninja import Query, Router

from memoryapp import erasure
from memoryapp.doors.api.access import Scope, Token, answered, described, grant_of, owner_named, owner_or_404, within
from memoryapp.doors.api.curation import actor_of
from memoryapp.doors.api.lists import router as users
from memoryapp.doors.api.recall import EXPORT, FilePieces
from memoryapp.doors.api.serving import serves
from memoryapp.doors.api.shapes.curation import CloseBody, ClosedAnswer, ClosedQuery
from memoryapp.doors.api.shapes.fields import LARGEST_ID, KnownName, NotYet, Project, RequestRefused
from memoryapp.doors.api.shapes.lists import MOST_A_CALL, AddedAnswer, ErasedAnswer, MessagesBody, UnstoredErrorAnswer
from memoryapp.engine.memory import parse_item_id
from memoryapp.engine.sight import looking
from memoryapp.erasure import Target
from memoryapp.importers import record
from memoryapp.importers.formats.assistants import openai_messages
from memoryapp.importers.formats.memories.jsonl import conversation
from memoryapp.importers.record import MessageRecord, Rejected
from memoryapp.importers.values import clean
from memoryapp.intake import transfer
from memoryapp.intake.messages import add_messages
from memoryapp.memory import content
from memoryapp.models import ChatUser, Erasure, Message, Person, Topic, Work
from memoryapp.models.audit import Deed
from memoryapp.platform import work
from memoryapp.platform.accounts import tokens
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import entries
from memoryapp.platform.database import in_thread

router = Router(tags=["messages"])


@router.post(
    "/messages",
    operation_id="addMessages",
    auth=Token(Scope.INGEST),
    response={**described(AddedAnswer, 400, 404, 409, 413), 422: UnstoredErrorAnswer},
)
async def add(request: HttpRequest, body: MessagesBody) -> AddedAnswer:
    """Add messages to a memory. A message with a known id is left unchanged, so a call can be repeated. If none of them
    could be stored and at least one was rejected, the answer is 422 with the reasons."""
    if len(body.messages) > MOST_A_CALL:
        raise RequestRefused(413, f"At most {MOST_A_CALL:,} messages a call, not {len(body.messages):,}.")
    return await answered(AddedAnswer, take_in, grant_of(request), body)


def take_in(grant: Grant, body: MessagesBody) -> dict[str, Any]:
    labelled = [_labelled(sent, body.session) for sent in body.messages]
    spoken = [SentMessage(index, sent) for index, sent in enumerate(labelled) if not _is_of_a_tool(sent)]
    read = _read(body, _with_ids_and_times(spoken, _times_of(grant, body.user, spoken)))
    records = [item for item in read if isinstance(item, MessageRecord)]
    rejected = [item for item in read if isinstance(item, Rejected)]
    with looking(within(body.project)):
        owner = owner_to_fill(grant, body.user, is_wanted=bool(records))
        added = add_messages(owner, records) if owner else None
    if added and added.added:
        tokens.captured(grant.token)
    refused = sorted([*rejected, *(added.rejected if added else ())], key=lambda item: int(item.line))
    answer = {
        "added": added.added if added else 0,
        "skipped": added.skipped if added else 0,
        "rejected": [_rejection(item, body.messages) for item in refused],
        **(added.guarded if added else {}),
    }
    if left_out := len(body.messages) - len(spoken):
        answer["left_out"] = [{"reason": str(record.TOOL), "count": left_out}]
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
    owner = content.found_or_made(name) if is_wanted else None
    if owner is not None:
        entries.saw(owner.pk)
    return owner


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
    owner = owner_named(grant, name) if ids else None
    known = Message.objects.of(owner).filter(external_id__in=ids).values_list("external_id", "sent_at") if owner else ()
    return {id: sent_at.isoformat() for id, sent_at in known}


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
        # The same one if it is sent again with the same time.
        words = "\n".join(str(fields.get(name) or "") for name in ("role", "author", "ts", "text"))
        fields["id"] = f"sent:{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:24]}"
    return fields


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


# Ends active sessions: they are archived by the worker, and the answer names the topics that they became.

LOOK_AGAIN = 0.3
# Seconds; a chat model may need longer for a long session, which the worker then archives nevertheless.
PATIENCE = 60.0

sessions_router = Router(tags=["messages"], auth=Token(Scope.INGEST))


@sessions_router.post(
    "/sessions/close", operation_id="closeSessions", response=described(ClosedAnswer, 202, 400, 404, 409, 422)
)
async def close(request: HttpRequest, body: CloseBody) -> ClosedAnswer:
    """Archive the active sessions of a chat user now, or only those with the label `session`. The answer is sent when
    their topics exist. If that takes longer than a minute, the answer is 202: the sessions are archived nevertheless,
    and the address in `Location` says when they are."""
    grant = grant_of(request)
    owner, numbers = await in_thread(_asked, grant, body)
    began, until = timezone.now(), monotonic() + PATIENCE
    while not await in_thread(_is_done, owner, numbers):
        fault = await in_thread(_fault, owner, began)
        if fault or monotonic() > until:
            raise _not_yet(owner, body.session, numbers, fault)
        await asyncio.sleep(LOOK_AGAIN)
    return await answered(ClosedAnswer, _topics, owner, numbers)


@serves(sessions_router.get, "/sessions/closed", "getClosedSessions", ClosedAnswer, 202, 404, 409, 422)
def closed(grant: Grant, query: Query[ClosedQuery]) -> dict[str, Any]:
    """Read what became of sessions whose archiving took longer than the request that closed them. The answer to that
    request has this address in its header `Location`."""
    owner = owner_or_404(grant, query.user)
    rows = Message.objects.of(owner).filter(pk__range=(query.first, query.last))
    if query.session is not None:
        rows = rows.filter(session=clean(query.session))
    numbers = list(rows.order_by("pk").values_list("pk", flat=True))
    if not _is_done(owner, numbers):
        raise _not_yet(owner, query.session, numbers, _fault(owner))
    return _topics(owner, numbers)


def _asked(grant: Grant, body: CloseBody) -> tuple[ChatUser, Sequence[int]]:
    """Asks the worker for the archiving; returns the messages that are to be archived."""
    owner = owner_or_404(grant, body.user)
    active = Message.objects.of(owner).active()
    label = None if body.session is None else clean(body.session)
    if label is not None:
        active = active.filter(session=label)
    numbers = list(active.order_by("pk").values_list("pk", flat=True))
    if numbers and work.is_paused(work.ARCHIVE, owner):
        raise RequestRefused(409, "Archiving is paused; resume it on the page Pipeline.")
    if numbers:
        work.ask_to_archive(owner, actor_of(grant), label)
    return owner, numbers


def _is_done(owner: ChatUser, numbers: Sequence[int]) -> bool:
    return not Message.objects.of(owner).active().filter(pk__in=numbers).exists()


def _fault(owner: ChatUser, began: datetime | None = None) -> str:
    """Why the archiving failed that was asked for; the worker tries again later. Empty while it goes on."""
    if work.AskedSessions.of(owner):
        return ""
    failed = Work.objects.filter(owner=owner, kind=work.ARCHIVE, state=Work.State.FAILED).first()
    return failed.fault if failed and (began is None or failed.at >= began) else ""


def _not_yet(owner: ChatUser, label: str | None, numbers: Sequence[int], fault: str) -> NotYet:
    session = {} if label is None else {"session": clean(label)}
    asked = urlencode({"user": owner.name, **session, "first": numbers[0], "last": numbers[-1]})
    sentence = f"The sessions are not archived yet: {fault}" if fault else "The sessions are not archived yet."
    return NotYet(sentence, f"/v1/sessions/closed?{asked}", wait=30 if fault else 10)


def _topics(owner: ChatUser, numbers: Sequence[int]) -> dict[str, Any]:
    found = Topic.objects.of(owner).live().filter(message__in=numbers).distinct()
    return {"topics": list(found.order_by("started_at", "pk"))}


# Exports and erases memories, for a token with the scope ``curate`` that opens every memory; single messages also for
# one with the scope ``forget``.

BY_CURATOR = Token(Scope.CURATE, deed=Deed.ERASE, whole=True)
FORGETTING = Token(Scope.FORGET, of_all=Scope.CURATE, whole=True)
RECEIVING = Token(Scope.CURATE, Scope.FORGET, whole=True)
erasure_router = Router(tags=["users"], auth=BY_CURATOR)


@serves(erasure_router.delete, "/messages/{path:id}", "eraseMessage", ErasedAnswer, 202, 404, 409, 422, auth=FORGETTING)
def erase_message(grant: Grant, id: str, user: KnownName) -> Erasure:
    """Erase a message of `user` everywhere, for good. What was made from it is deleted, or made again without it. If
    the request is repeated, the answer is 404, because the message is gone. The token has the scope `forget`, or
    `curate` if it opens every memory."""
    owner = owner_or_404(grant, user)
    found = tuple(Message.objects.of(owner).filter(external_id=clean(id)).values_list("pk", flat=True))
    if not found:
        raise RequestRefused(404, "There is no message of that id in this memory.")
    return _finished(grant, Target(owner.pk, found))


@serves(erasure_router.delete, "/users/{path:name}/people/{id}", "erasePerson", ErasedAnswer, 202, 404, 409)
def erase_person(grant: Grant, name: str, id: str) -> Erasure:
    """Erase what is known about a person. Messages that mention them stay. The token must open every memory."""
    owner = _opened(grant, name)
    kind, number = parse_item_id(id, "Person") or ("", 0)
    if kind != "Person" or not Person.objects.filter(owner=owner, pk=min(number, LARGEST_ID)).exists():
        raise RequestRefused(404, "There is no person of that id in this memory.")
    return _finished(grant, Target(owner.pk, person=number, kind=Erasure.Kind.PERSON))


@erasure_router.get(
    "/users/{path:name}/export",
    operation_id="exportUser",
    auth=Token(Scope.CURATE, deed=Deed.EXPORT),
    response=described(None, 404, 409, 422),
    openapi_extra={"responses": {200: EXPORT}},
)
async def export(request: HttpRequest, name: str, project: Project = "") -> StreamingHttpResponse:
    """Export a whole memory, or one `project` of it, as JSON Lines, which `import_chat` can restore. The token must
    open every memory."""
    owner = await in_thread(_opened, grant_of(request), name)
    file = await in_thread(transfer.file_of, owner, within(project).into)
    return FilePieces(file, "application/jsonl", "memory.jsonl")


# Declared last: a name may contain slashes, so this address also matches those above.
@serves(erasure_router.delete, "/users/{path:name}", "eraseUser", ErasedAnswer, 202, 404)
def erase(grant: Grant, name: str) -> Erasure:
    """Erase a chat user with all their data, for good. The answer is sent when nothing is left. The erasure continues
    if the connection is lost; a repeated request waits for its end. The token must open every memory."""
    return erase_user(grant, name)


# A path with both methods belongs to one router.
@serves(users.delete, "/users", "eraseNamedUser", ErasedAnswer, 202, 404, 422, auth=BY_CURATOR, tags=["users"])
def erase_user(grant: Grant, user: KnownName, project: Project = "") -> Erasure:
    """Erase the chat user `user` for good, as above: in a path, the name `bob/people/3` would mean a person of `bob`.
    With a `project` only what has that label is erased. The token must open every memory."""
    if project:
        target = Target.of_project(_opened(grant, user), project)
        if not target.messages:
            raise RequestRefused(404, "There is no project of that name in this memory.")
        return _finished(grant, target)
    begun = content.being_erased(clean(user)) if grant.opens_all else None
    owner = begun or owner_or_404(grant, user)
    if not grant.opens_all:
        raise RequestRefused(403, "Only a token that opens every memory may erase a chat user.")
    entries.saw(owner.pk)
    return _ended(erasure.finish(erasure.begin_user(owner, actor_of(grant))))


@serves(erasure_router.get, "/erasures/{int:number}", "getErasure", ErasedAnswer, 202, 404, auth=RECEIVING)
def erasure_receipt(grant: Grant, number: int) -> Erasure:
    """Read the receipt of an erasure of a memory that the token opens; it exists when the erasure has ended."""
    found = Erasure.objects.filter(pk=min(number, LARGEST_ID)).first()
    if found is None or not (grant.opens_all or grant.visible_owners().filter(pk=found.owner_number).exists()):
        raise RequestRefused(404, "There is no erasure of that number.")
    entries.saw(found.owner_number)
    return _ended(found)


def _opened(grant: Grant, name: str) -> ChatUser:
    """Returns the chat user. Raises RequestRefused unless the token opens every memory."""
    owner = owner_or_404(grant, name)
    if not grant.opens_all:
        raise RequestRefused(403, "Only a token that opens every memory may do that.")
    return owner


def _finished(grant: Grant, target: Target) -> Erasure:
    return _ended(erasure.finish(erasure.begin(target, actor_of(grant))))


def _ended(receipt: Erasure) -> Erasure:
    if receipt.ended_at is None:
        sentence = f"Erasure {receipt.pk} goes on and ends by itself."
        raise NotYet(sentence, f"/v1/erasures/{receipt.pk}", wait=30)
    return receipt
