"""Takes traces as OTLP/HTTP, in protobuf or JSON, compressed or not, and answers as that protocol wishes.
https://opentelemetry.io/docs/specs/otlp/#otlphttp-response: the answer has the encoding of the request; what was not
taken is counted in ``partialSuccess``; 400, 413 and 415 are not sent again, 429 and 503 are."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from memoryapp.doors.api.access import Scope, Token, described, grant_of, owner_named, owner_or_404
from memoryapp.doors.api.shapes.fields import CODES, RequestRefused
from memoryapp.doors.api.shapes.runs import TracesAnswer
from memoryapp.doors.traces import arrival, wire
from memoryapp.doors.traces.span import SentSpan
from memoryapp.doors.traces.wire import JSON, PROTOBUF, UnreadableTraces
from memoryapp.engine.cells import within
from memoryapp.importers.values import clean
from memoryapp.memory import content
from memoryapp.memory.content import BeingErased
from memoryapp.models import ChatUser, Trace
from memoryapp.platform import cells
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import entries
from memoryapp.platform.database import in_thread
from memoryapp.runs.notices import announce

router = Router(tags=["traces"])
USER_HEADER = "X-Mnemoscope-User"
# Codes of google.rpc for the statuses with which a body is refused.
_RPC_CODES = {400: 3, 413: 8, 415: 3}
_UNNAMED = "{n} spans name no chat user: send the header X-Mnemoscope-User, or the attribute user.id."
_UNKNOWN = "{n} spans name a chat user that does not exist or that this token does not open."
_ERASING = "{n} spans name a chat user that is being erased."
_INVALID = "{n} spans have no valid ids."
_LATE = "{n} spans came after their trace was closed."
_BODY: dict[str, Any] = {
    "description": "ExportTraceServiceRequest of OTLP",
    "required": True,
    "content": {
        JSON: {"schema": {"$ref": "#/components/schemas/TracesBody"}},
        PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
    },
}


@dataclass
class TakenTraces:
    """What became of a request: the runs that changed, and how many spans were rejected, by the reason's sentence."""

    runs: list[UUID] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def sentence(self) -> str:
        return " ".join(reason.format(n=n) for reason, n in self.rejected.items() if n)


@router.post(
    "/otlp/v1/traces",
    operation_id="addTraces",
    auth=Token(Scope.INGEST),
    response=described(TracesAnswer, 400, 404, 409, 413, 415),
    openapi_extra={"requestBody": _BODY},
)
async def add(request: HttpRequest) -> HttpResponse:
    """Take traces of another program's memory as foreign runs, as an exporter of OpenTelemetry sends them.

    Searches, reranks, and calls of models and tools are understood, by the conventions of OpenInference and of
    OpenTelemetry. A span that is known already changes nothing. The header ``X-Mnemoscope-User`` names the chat user;
    without it the attribute ``user.id`` does."""
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type not in (JSON, PROTOBUF):
        return _refused(JSON, UnreadableTraces(415, f"Send {PROTOBUF} or {JSON}."))
    try:
        spans = await in_thread(_read, request, media_type)
    except UnreadableTraces as unreadable:
        return _refused(media_type, unreadable)
    named = clean(unquote(request.headers.get(USER_HEADER, ""))).strip()
    taken = await in_thread(take_in, grant_of(request), spans, named)
    for run in taken.runs:
        await announce(run)
    return _answer(media_type, sum(taken.rejected.values()), taken.sentence)


def _read(request: HttpRequest, media_type: str) -> list[SentSpan]:
    return wire.spans_in(wire.unpacked(request.body, request.headers.get("Content-Encoding", "")), media_type)


def take_in(grant: Grant, spans: Sequence[SentSpan], named: str) -> TakenTraces:
    """Stores the spans, for each chat user at once. Raises RequestRefused for a chat user that the header names, and
    BeingErased."""
    taken = TakenTraces()
    of_trace: dict[str, list[SentSpan]] = defaultdict(list)
    for span in spans:
        if span.trace and span.id:
            of_trace[span.trace].append(span)
        else:
            taken.rejected[_INVALID] += 1
    of_owner: dict[ChatUser, list[SentSpan]] = defaultdict(list)
    header_owner = _owner(grant, named) if named and of_trace else None
    for owner, sent in _sorted_out(grant, of_trace, header_owner, taken):
        of_owner[owner] += sent
    for owner, sent in of_owner.items():
        entries.saw(owner.pk)
        try:
            with within(owner.cell):
                arrived = arrival.take(owner, sent, grant.token)
        except BeingErased:
            taken.rejected[_ERASING] += len(sent)
            continue
        taken.runs += arrived.runs
        taken.rejected[_LATE] += arrived.refused
    return taken


def _sorted_out(
    grant: Grant, of_trace: Mapping[str, list[SentSpan]], header_owner: ChatUser | None, taken: TakenTraces
) -> list[tuple[ChatUser, list[SentSpan]]]:
    """The traces with their chat users; counts the spans of those that have none."""
    if header_owner:
        return [(header_owner, spans) for spans in of_trace.values()]
    running = _owners_of_known(grant, of_trace)
    only = [] if grant.opens_all else list(grant.visible_owners()[:2])
    owners: dict[str, ChatUser | str] = {}
    found = []
    for number, spans in of_trace.items():
        name = arrival.user_of_spans(spans)
        if not name and (owner := running.get(UUID(number)) or (only[0] if len(only) == 1 else None)):
            found.append((owner, spans))
            continue
        name = name or arrival.session_of_spans(spans)
        if name not in owners:
            owners[name] = _owner_or_reason(grant, name)
        owned = owners[name]
        if isinstance(owned, ChatUser):
            found.append((owned, spans))
        else:
            taken.rejected[owned] += len(spans)
    return found


def _owners_of_known(grant: Grant, of_trace: Mapping[str, Any]) -> dict[UUID, ChatUser]:
    """The chat users of traces that are known; those of several chat users are left out."""
    numbers = [UUID(number) for number in of_trace]
    rows = Trace.objects.filter(number__in=numbers, owner__in=grant.visible_owners()).select_related("owner")
    found: dict[UUID, set[ChatUser]] = defaultdict(set)
    for row in cells.everywhere()(lambda: list(rows.all()))():
        found[row.number].add(row.owner)
    return {number: next(iter(owners)) for number, owners in found.items() if len(owners) == 1}


def _owner_or_reason(grant: Grant, name: str) -> ChatUser | str:
    if not name:
        return _UNNAMED
    try:
        return _owner(grant, name)
    except RequestRefused:
        return _UNKNOWN
    except BeingErased:
        return _ERASING


def _owner(grant: Grant, name: str) -> ChatUser:
    """The chat user of that name. A token that opens every memory creates a missing one."""
    if not grant.opens_all:
        return owner_or_404(grant, name)
    if not name.isprintable() or len(name) > arrival.LONGEST_NAME:
        raise RequestRefused(422, "user: a chat user's name is one line of printable characters")
    return owner_named(grant, name) or content.found_or_made(name)


def _answer(media_type: str, rejected: int, sentence: str) -> HttpResponse:
    if media_type == PROTOBUF:
        from memoryapp.doors.traces import protobuf  # noqa: PLC0415 its package is optional

        return HttpResponse(protobuf.answer(rejected, sentence), content_type=PROTOBUF)
    partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": sentence}} if rejected else {}
    return HttpResponse(json.dumps(partial), content_type=JSON)


def _refused(media_type: str, unreadable: UnreadableTraces) -> HttpResponse:
    """The refusal as a ``google.rpc.Status`` in the encoding of the request; as JSON it has the shape of every refusal
    beside."""
    code, sentence = _RPC_CODES.get(unreadable.status, 2), str(unreadable)
    try:
        if media_type != PROTOBUF:
            raise ModuleNotFoundError
        from memoryapp.doors.traces import protobuf  # noqa: PLC0415 its package is optional
    except ModuleNotFoundError:
        error = {"code": CODES.get(unreadable.status, CODES[400]), "message": sentence}
        document = json.dumps({"code": code, "message": sentence, "error": error})
        return HttpResponse(document, content_type=JSON, status=unreadable.status)
    return HttpResponse(protobuf.refusal(code, sentence), content_type=PROTOBUF, status=unreadable.status)
