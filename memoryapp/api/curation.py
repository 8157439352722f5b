"""Programs change topics under the same rules as people: a change is planned, made in one step, and can be undone.

With ``dry_run`` nothing is written, and the answer is the plan with its effect on past runs. A repeated call is
refused, because its topics are retired or no message is left to move. A change by a program counts as made by hand:
automatic changes do not touch its topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db.models.functions import Length
from django.http import HttpRequest
from ninja import Router
from pydantic import BaseModel

from memoryapp import curation
from memoryapp.accounts.tokens import Grant
from memoryapp.api import topics
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described
from memoryapp.api.shapes.curation import ChangedAnswer, ConflictErrorAnswer, body_of
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.api.topics import MOST_SUCCESSORS, topic_or_404
from memoryapp.curation import OPERATIONS, Change, ChangeRequest, CurationError, Operation, Stale
from memoryapp.curation.operations.operation import TOPIC, Endpoint
from memoryapp.effect import Effect, effect_of
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.models import ChatUser, Message, Topic, TopicEdit, TopicMessage

CURATOR = Token(Scope.CURATE)
CHANGED = {**described(ChangedAnswer, 400, 404, 413, 422), 409: ConflictErrorAnswer}

router = Router(tags=["curation"], auth=CURATOR)


def add_endpoint(to: Router, operation: Operation, endpoint: Endpoint) -> None:
    """Lets programs ask for the operation at an address of the router."""

    async def ask(request: HttpRequest, body: Any, dry_run: bool, id: str = "") -> ChangedAnswer:
        check_parameters(request)
        return await answered(
            ChangedAnswer, change_or_plan, grant_of(request), operation, endpoint, body, id, is_dry=dry_run
        )

    async def ask_at_topic(request: HttpRequest, id: str, body: Any, dry_run: bool = False) -> ChangedAnswer:
        return await ask(request, body, dry_run, id)

    async def ask_by_body(request: HttpRequest, body: Any, dry_run: bool = False) -> ChangedAnswer:
        return await ask(request, body, dry_run)

    view = ask_at_topic if TOPIC in endpoint.takes else ask_by_body
    view.__annotations__["body"] = body_of(endpoint)
    to.add_api_operation(
        endpoint.address,
        [endpoint.method],
        view,
        operation_id=endpoint.id,
        description=endpoint.about,
        auth=CURATOR,
        response=CHANGED,
        tags=["curation"],
    )


for _each in OPERATIONS.values():
    if _each.endpoint:
        # An address belongs to one router, and topics may already have GET of this one.
        _is_shared = _each.endpoint.address in topics.router.path_operations
        add_endpoint(topics.router if _is_shared else router, _each, _each.endpoint)


def wanted_by(grant: Grant, operation: Operation, endpoint: Endpoint, body: BaseModel, id: str) -> ChangeRequest:
    """Reads the body, and the id in the address. Raises RequestRefused for what the grant does not open."""
    topic = topic_or_404(grant, parse_topic_id(id)) if TOPIC in endpoint.takes else None
    asked = body.model_dump()
    owner = topic.owner if topic else owner_or_404(grant, asked["user"])
    listed, to, summary = asked.get("topics", []), asked.get("to"), asked.get("summary", "")
    _check_known(owner, listed)
    if to is not None:
        _check_known(owner, [to])
        if summary:
            raise RequestRefused(422, "summary: only a new topic takes one; an existing topic keeps its own.")
    seen = [topic.pk] if topic else listed
    at = _beginnings(owner, seen, asked.get("at", []))
    return ChangeRequest(
        operation,
        owner,
        tuple(seen),
        messages=tuple(_movable(owner, asked.get("messages", []))),
        to=to,
        at=tuple(at),
        summaries=tuple(_summaries(asked.get("summaries", []), at) or [summary]),
    )


def check_parameters(request: HttpRequest) -> None:
    """Raises RequestRefused for an unknown parameter: a misspelt ``dry_run`` must not make a change."""
    unknown = sorted(request.GET.keys() - {"dry_run"})
    if unknown:
        raise RequestRefused(422, f"{unknown[0][:100]}: there is no such parameter; did you mean dry_run?")


def change_or_plan(
    grant: Grant, operation: Operation, endpoint: Endpoint, body: Any, id: str = "", *, is_dry: bool
) -> dict[str, Any]:
    """Makes the change that is asked for, or only tells its effect. Raises RequestRefused."""
    with _refusals_of(endpoint.body_takes[0].name):
        wanted = wanted_by(grant, operation, endpoint, body, id)
        if is_dry:
            owner, change = wanted.owner, curation.plan(wanted)
            return changed_answer(None, _would_be(owner, change), change.out, effect_of(owner, change))
        edit, change = curation.make(wanted, actor=actor_of(grant), reason=body.reason)
    return changed_answer(edit.pk, curation.put_in(edit), change.out)


@contextmanager
def _refusals_of(field: str) -> Iterator[None]:
    """Turns an error of the plan into a refusal that names the field at fault."""
    try:
        yield
    except Stale as stale:
        raise refused_as_stale(stale) from None
    except CurationError as error:
        raise RequestRefused(422, f"{field}: {error}") from None


def refused_as_stale(stale: Stale) -> RequestRefused:
    now = {
        topic_id(number): [topic_id(holder) for holder in holders[:MOST_SUCCESSORS]]
        for number, holders in stale.successors.items()
    }
    return RequestRefused(409, str(stale), code="stale", successors=now)


def actor_of(grant: Grant) -> str:
    """Returns the name under which the history records the program."""
    return f"token {grant.token.name}"[: TopicEdit._meta.get_field("actor").max_length]


def changed_answer(
    edit: int | None, put: Sequence[Any], out: Sequence[int], effect: Effect | None = None
) -> dict[str, Any]:
    return {"edit": edit, "topics": put, "retired": out, "effect": effect}


def _would_be(owner: ChatUser, change: Change) -> list[dict[str, Any]]:
    numbers = [number for draft in change.put for number in draft.messages]
    rows = Message.objects.of(owner).filter(pk__in=numbers)
    sent = {number: (at, size) for number, at, size in rows.values_list("pk", "sent_at", Length("text"))}
    parts = [(draft.summary, [sent[number] for number in draft.messages]) for draft in change.put]
    return [
        {
            "id": None,
            "summary": summary,
            "started_at": min(at for at, _ in part),
            "ended_at": max(at for at, _ in part),
            "message_count": len(part),
            "size_chars": sum(size for _, size in part),
        }
        for summary, part in parts
    ]


def _check_known(owner: ChatUser, ids: Sequence[int]) -> None:
    possible = [number for number in ids if number <= LARGEST_ID]
    known = set(Topic.objects.of(owner).filter(pk__in=possible).values_list("pk", flat=True))
    unknown = next((number for number in ids if number not in known), None)
    if unknown is not None:
        raise RequestRefused(404, f"There is no {topic_id(unknown)} in this memory.")


def _beginnings(owner: ChatUser, seen: Sequence[int], names: Sequence[str]) -> list[int]:
    """Returns the numbers of these messages. A retired topic still lists its messages; the plan refuses it."""
    rows = TopicMessage.objects.filter(owner=owner, topic__in=seen, message__external_id__in=names)
    numbers = dict(rows.values_list("message__external_id", "message"))
    where = ", ".join(map(topic_id, seen))
    return [_named("at", place, name, numbers.get(name), where) for place, name in enumerate(names)]


def _summaries(sent: Sequence[str], at: Sequence[int]) -> Sequence[str]:
    """One for each part. Raises RequestRefused for another number of them."""
    if sent and len(sent) != len(set(at)) + 1:
        raise RequestRefused(422, f"summaries: {len(set(at)) + 1} are needed, one per part, not {len(sent)}.")
    return sent


def _movable(owner: ChatUser, names: Sequence[str]) -> list[int]:
    rows = Message.objects.of(owner).filter(external_id__in=names, topic__isnull=False)
    numbers = dict(rows.values_list("external_id", "pk"))
    return [_named("messages", place, name, numbers.get(name), "any topic") for place, name in enumerate(names)]


def _named(field: str, place: int, name: str, number: int | None, where: str) -> int:
    if number is None:
        raise RequestRefused(422, f"{field}.{place}: there is no message “{name[:300]}” in {where}.")
    return number
