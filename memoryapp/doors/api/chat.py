"""The chat endpoint of OpenAI's API: a recall adds what the memory knows, and the provider of the settings answers. A
recall that fails or is late never keeps the answer back; a header says what became of it. The memory is left unchanged
unless the program or the settings wish that messages are stored."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import httpx
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from ninja import Router

from memoryapp.doors import assistant
from memoryapp.doors.api import access
from memoryapp.doors.api.recall import caller_span, start_run, unbuffered, wait_for_end
from memoryapp.doors.api.shapes.answers import ChatAnswer, ChatBody, ModelsAnswer, ProviderErrorAnswer
from memoryapp.doors.api.shapes.fields import RequestRefused
from memoryapp.doors.api.shapes.runs import RecallBody
from memoryapp.doors.assistant import Asked, Payer, ProviderFailed, asked, with_context
from memoryapp.engine.chat.refusals import document_in
from memoryapp.engine.json_values import storable
from memoryapp.engine.sight import look
from memoryapp.engine.strategies import DEFAULT
from memoryapp.importers.values import clean
from memoryapp.insight import delivery
from memoryapp.memory import content as chat_users
from memoryapp.memory import guard
from memoryapp.models import ChatUser, Run
from memoryapp.platform import environment
from memoryapp.platform.accounts import tokens
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import entries
from memoryapp.platform.caps import check_room
from memoryapp.platform.database import in_thread, is_gone
from memoryapp.runs.lifecycle import LONGEST_QUERY, TooManyRuns
from memoryapp.runs.recall_document import EndedRun
from memoryapp.runs.runner import runner

# Seconds beyond those of the run, for its search and its last writes.
_BEYOND = 5.0
# While an assistant calls tools, the run of its question serves for so long.
_SERVES = timedelta(minutes=15)
_PASSING = (202, 503)
RUN_HEADER = "X-Mnemoscope-Run"
RECALL_HEADER = "X-Mnemoscope-Recall"
WRONG_HEADER = "X-Mnemoscope-Wrong"
UNSURE_HEADER = "X-Mnemoscope-When-Unsure"
_HEADERS = {
    RUN_HEADER: {"description": "the address of the run's page", "schema": {"type": "string"}},
    WRONG_HEADER: {"description": "where people say that this answer was wrong", "schema": {"type": "string"}},
    RECALL_HEADER: {
        "description": "what became of the recall",
        "schema": {"enum": ["found", "unsure", "nothing", "stand_ins", "failed", "off"]},
    },
    "Content-Location": {"description": "the run's address under /v1/", "schema": {"type": "string"}},
}
_COMPLETION: dict[str, Any] = {
    "headers": _HEADERS,
    "description": "The provider's answer: a document, or with `stream` its server-sent events.",
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/ChatAnswer"}},
        "text/event-stream": {"schema": {"type": "string"}},
    },
}

router = Router(tags=["chat"], auth=access.Token(access.Scope.RECALL))
logger = logging.getLogger(__name__)
# The event loop holds only weak references to its tasks.
_under_way: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: whose memory, what was asked, what to keep. ``owner`` is None if ``name`` is not known yet."""

    grant: Grant
    name: str
    owner: ChatUser | None
    asked: Asked
    at: datetime
    strategy: str
    parameters: Mapping[str, str]
    recalls: bool
    wishes: assistant.Wishes
    account: Payer
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What became of a recall (one of ``RECALL_HEADER``), its run, and the context that it gave. Stand-ins are the
    topics that a run hands over where its model failed."""

    outcome: str
    run: Run | None = None
    context: str = ""


@router.post(
    "/chat/completions",
    operation_id="completeChat",
    response={**access.described(ChatAnswer, 400, 404, 409, 413, 422), frozenset({502, 504}): ProviderErrorAnswer},
    openapi_extra={"responses": {200: _COMPLETION}},
)
async def complete(request: HttpRequest, body: ChatBody) -> HttpResponseBase:
    """Ask the chat model of the settings, with what the memory knows added to the request. The body is OpenAI's and is
    passed on with everything in it, tools and streaming too. The header ``X-Provider-Key`` holds the key of the
    provider; without it the key of the settings is used, if they permit that."""
    look(access.within(body.project))
    call = await in_thread(_call, access.grant_of(request), request.headers, body)
    recalled = await _recalled(call)
    messages = with_context(body.messages, recalled.context) if recalled.context else list(body.messages)
    sent = {**body.passed_on(), "messages": messages, "model": body.model or settings.LLM_MODEL}
    try:
        answer = await assistant.ask(await _http(), call.account, "/chat/completions", sent)
        response = await _response(answer, call, recalled)
    except ProviderFailed as failure:
        response = _failed(failure)
    named = {RECALL_HEADER: recalled.outcome}
    if recalled.run:
        page = reverse("run", args=[recalled.run.pk])
        named[RUN_HEADER] = request.build_absolute_uri(page)
        wrong = reverse("miss_report", args=[recalled.run.owner_id])
        named[WRONG_HEADER] = request.build_absolute_uri(f"{wrong}?run={recalled.run.pk}")
        named["Content-Location"] = f"/v1/runs/{recalled.run.pk}"
    return _with(response, named)


@router.get("/models", operation_id="listModels", response={**access.described(ModelsAnswer), 502: ProviderErrorAnswer})
async def models(request: HttpRequest) -> HttpResponse:
    """List the models of the provider, as programs ask for it before they chat."""
    access.grant_of(request)
    if not settings.LLM_BASE_URL:
        return JsonResponse({"object": "list", "data": []})
    try:
        content = await _listed(_account(request.headers))
    except ProviderFailed as failure:
        return _failed(failure)
    if content is None:
        known = {"id": settings.LLM_MODEL, "object": "model", "created": 0, "owned_by": "provider"}
        return JsonResponse({"object": "list", "data": [known]})
    return HttpResponse(content, content_type="application/json")


async def _http() -> httpx.AsyncClient:
    http = (await runner.clients()).http
    assert http
    return http


async def _listed(account: Payer) -> bytes | None:
    """Returns the provider's list; None if it has none. Raises ProviderFailed."""
    answer = await assistant.ask(await _http(), account, "/models")
    content = await assistant.whole(answer)
    return content if answer.status_code == 200 and document_in(content) is not None else None


def _call(grant: Grant, headers: Mapping[str, str], body: ChatBody) -> Call:
    """Checks a request. Raises RequestRefused, BeingErased, ParameterError, and QuotaReached where nothing could be
    stored."""
    name = clean(_text(headers, "X-Mnemoscope-User") or body.user or "").strip()
    owner = _owner(grant, name)
    stores = _switch(headers, "X-Mnemoscope-Store", settings.CHAT_STORE and grant.may(access.Scope.INGEST))
    if stores and not grant.may(access.Scope.INGEST):
        raise RequestRefused(403, "This token may not store messages: it needs the scope ingest.")
    if not settings.LLM_BASE_URL:
        raise RequestRefused(503, "No chat model is connected: set LLM_BASE_URL and LLM_API_KEY.")
    if stores and owner is not None:
        check_room(owner, messages=2)
    return Call(
        grant=grant,
        name=owner.name if owner else name,
        owner=owner,
        asked=asked(body.messages),
        at=datetime.now(UTC),
        strategy=headers.get("X-Mnemoscope-Strategy") or DEFAULT.name,
        parameters={"when_unsure": headers[UNSURE_HEADER]} if headers.get(UNSURE_HEADER) else {},
        recalls=_switch(headers, RECALL_HEADER, True),
        wishes=assistant.Wishes(
            stores=stores,
            reports=_switch(headers, "X-Mnemoscope-Report", settings.CHAT_REPORT),
            session=_text(headers, "X-Mnemoscope-Session")[:200],
        ),
        account=_account(headers),
        traceparent=caller_span(headers),
    )


def _owner(grant: Grant, name: str) -> ChatUser | None:
    """Returns the chat user; None for one of whom nothing is known yet, if the token may create any."""
    if not name:
        only = [] if grant.opens_all else list(grant.visible_owners()[:2])
        if len(only) != 1:
            raise RequestRefused(422, "user: name the chat user, in the field user or the header X-Mnemoscope-User.")
        entries.saw(only[0].pk)
        return only[0]
    if grant.opens_all and not chat_users.being_erased(name):
        if not name.isprintable():
            raise RequestRefused(422, "user: a chat user's name is one line of printable characters.")
        return access.owner_named(grant, name)
    return access.owner_or_404(grant, name)


def _text(headers: Mapping[str, str], name: str) -> str:
    """Returns a header that may be percent-encoded, because headers hold no Cyrillic."""
    return unquote(headers.get(name, "")).strip()


def _switch(headers: Mapping[str, str], name: str, usual: bool) -> bool:
    if name not in headers:
        return usual
    meant = environment.SWITCHED.get(headers[name].strip().lower())
    if meant is None:
        raise RequestRefused(400, f"{name} must be true or false.")
    return meant


def _account(headers: Mapping[str, str]) -> Payer:
    """Returns whose key the provider gets. Raises RequestRefused if the program must bring one and does not."""
    key = headers.get("X-Provider-Key", "").strip()
    if not key and headers.get(access.TOKEN_HEADER):
        key = headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not key and settings.LLM_API_KEY and not settings.CHAT_SHARED_KEY:
        raise RequestRefused(401, "Send your key of the provider in the header X-Provider-Key.")
    return Payer.of(key, headers)


async def _recalled(call: Call) -> Recalled:
    """Asks the memory what the user asks; never later than a run may take. Raises ParameterError and BeingErased."""
    if not call.recalls:
        return Recalled("off")
    if call.owner is None or not call.asked.text:
        return Recalled("nothing")
    run = None
    try:
        run = await in_thread(_run, call, call.owner)
        if not run.is_finished:
            async with asyncio.timeout(run.parameters["seconds"] + _BEYOND):
                await wait_for_end(run)
        return await in_thread(_context_of, run)
    except RequestRefused as refusal:
        if refusal.status not in _PASSING:
            raise
        reason = refusal.message
    except (DatabaseError, LookupError, TimeoutError, TooManyRuns) as error:
        reason = f"{type(error).__name__}: {error}"
    logger.warning("a chat was answered without its recall: %s", reason)
    return Recalled("failed", run)


def _run(call: Call, owner: ChatUser) -> Run:
    """Returns the run of the question: a new one, or while the assistant calls tools that of its first request."""
    query = call.asked.text[:LONGEST_QUERY]
    if call.asked.is_continued and (known := _known_run(call, owner, query)):
        return known
    body = RecallBody(
        user=owner.name,
        query=query,
        messages=list(call.asked.before),
        strategy=call.strategy,
        parameters=dict(call.parameters),
    )
    return start_run(call.grant, body, call.traceparent)


def _known_run(call: Call, owner: ChatUser, query: str) -> Run | None:
    recent = Run.objects.of(owner).filter(created_at__gt=timezone.now() - _SERVES, token=call.grant.token)
    run = recent.filter(query=storable(query).strip(), state=Run.State.FINISHED, strategy=call.strategy).first()
    texts = [message["text"] for message in run.messages or ()] if run else []
    same = texts == [clean(message["text"]) for message in call.asked.before]
    return run if run and same else None


def _context_of(run: Run) -> Recalled:
    ended, change = EndedRun(run), guard.handing_over(run.owner)
    context = change(ended.context, ()) if change else ended.context
    outcome = delivery.recall_outcome(ended.finished)
    return Recalled("stand_ins" if outcome == "failed" and ended.finished.selected else outcome, run, context)


def _with(response: HttpResponseBase, headers: Mapping[str, str]) -> HttpResponseBase:
    for name, value in headers.items():
        response[name] = value
    return response


def _failed(failure: ProviderFailed) -> HttpResponse:
    return JsonResponse({"error": _fault(failure)}, status=failure.status)


def _fault(failure: ProviderFailed) -> dict[str, Any]:
    return {"message": str(failure), "type": "provider_error", "param": None, "code": failure.code}


async def _response(answer: httpx.Response, call: Call, recalled: Recalled) -> HttpResponseBase:
    """Returns the provider's answer for the program. Raises ProviderFailed."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    response: HttpResponseBase
    if answer.status_code == 200 and kind == "text/event-stream":
        response = unbuffered(_passed(answer, call, recalled), "text/event-stream", assistant.stopper(answer))
    elif answer.status_code == 200:
        content = await assistant.whole_document(answer)
        await asyncio.shield(_kept(call, recalled, assistant.answer_in(content) if call.wishes else ""))
        response = HttpResponse(content, content_type="application/json")
    else:
        content = await assistant.whole(answer)
        # A provider's 503 would make a proxy take this server for the one that is away.
        status = answer.status_code if answer.status_code >= 400 and answer.status_code != 503 else 502
        response = JsonResponse(assistant.error_body(answer.status_code, content, call.account), status=status)
    return _with(response, assistant.passed_headers(answer))


async def _passed(answer: httpx.Response, call: Call, recalled: Recalled) -> AsyncIterator[bytes]:
    """The provider's events as they come. If the program leaves, the provider's work is ended, and what was sent is
    kept."""
    listener = assistant.Listener()
    try:
        async with aclosing(answer):
            async for part in answer.aiter_bytes():
                if call.wishes:
                    listener.feed(part)
                yield part
    except httpx.HTTPError as error:
        late = isinstance(error, httpx.TimeoutException)
        failure = assistant.late() if late else assistant.broken_off()
        yield b"data: " + json.dumps({"error": _fault(failure)}).encode() + b"\n\n"
    finally:
        kept = _kept(call, recalled, listener.answer() if call.wishes else "")
    await asyncio.shield(kept)


def _kept(call: Call, recalled: Recalled, answer: str) -> asyncio.Task[None]:
    """Keeps the exchange as wished, in a task that goes on when the program leaves."""
    exchange = assistant.Exchange(
        name=call.name, owner=call.owner, question=call.asked.text, answer=answer, asked_at=call.at, run=recalled.run
    )
    task = asyncio.get_running_loop().create_task(_keep(exchange, call))
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return task


async def _keep(exchange: assistant.Exchange, call: Call) -> None:
    if not (call.wishes and exchange.question and exchange.answer):
        return
    try:
        await in_thread(assistant.keep, exchange, call.wishes)
        if call.wishes.stores:
            await in_thread(tokens.captured, call.grant.token)
    except DatabaseError as error:
        if not is_gone(error):
            logger.exception("an exchange could not be kept")
