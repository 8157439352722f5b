"""Programs change topics under the same rules as people: a change is planned, made in one step, and can be undone.

With ``dry_run`` nothing is written, and the answer is the plan with its effect on past runs. A repeated call is
refused, because its topics are retired or no message is left to move. A change by a program counts as made by hand:
automatic changes do not touch its topics."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

from django.db.models import Count, F, Window
from django.db.models.functions import Length, RowNumber
from django.http import HttpRequest
from ninja import Query, Router
from pydantic import BaseModel

from memoryapp import curation
from memoryapp.curation import OPERATIONS, Change, ChangeRequest, CurationError, Depends, Operation, Stale, history
from memoryapp.curation.change import MOST_TOPICS
from memoryapp.curation.effect import Effect, effect_of
from memoryapp.curation.operations.operation import TOPIC, Endpoint
from memoryapp.doors.api import access, lists
from memoryapp.doors.api.lists import MOST_SUCCESSORS, topic_or_404
from memoryapp.doors.api.shapes import fields
from memoryapp.doors.api.shapes.curation import (
    ChangedAnswer,
    ConflictErrorAnswer,
    EditName,
    EditsAnswer,
    NightAnswer,
    NightBody,
    UndoBody,
    body_of,
)
from memoryapp.doors.api.shapes.fields import LARGEST_ID, KnownName, RequestRefused
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.models import ChatUser, EditedTopic, Message, Topic, TopicEdit, TopicMessage
from memoryapp.platform.accounts.tokens import Grant

CURATOR = access.Token(access.Scope.CURATE)
CHANGED = {**access.described(ChangedAnswer, 400, 404, 413, 422), 409: ConflictErrorAnswer}

router = Router(tags=["curation"], auth=CURATOR)


def add_endpoint(to: Router, operation: Operation, endpoint: Endpoint) -> None:
    """Lets programs ask for the operation at an address of the router."""

    async def ask(request: HttpRequest, body: Any, dry_run: bool, id: str = "") -> ChangedAnswer:
        check_parameters(request)
        return await access.answered(
            ChangedAnswer, change_or_plan, access.grant_of(request), operation, endpoint, body, id, is_dry=dry_run
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
        _is_shared = _each.endpoint.address in lists.topics_router.path_operations
        add_endpoint(lists.topics_router if _is_shared else router, _each, _each.endpoint)


def wanted_by(grant: Grant, operation: Operation, endpoint: Endpoint, body: BaseModel, id: str) -> ChangeRequest:
    """Reads the body, and the id in the address. Raises RequestRefused for what the grant does not open."""
    topic = topic_or_404(grant, parse_topic_id(id)) if TOPIC in endpoint.takes else None
    asked = body.model_dump()
    owner = topic.owner if topic else access.owner_or_404(grant, asked["user"])
    listed, to, summary = asked.get("topics", []), asked.get("to"), asked.get("summary", "")
    _check_known(owner, listed)
    if to is not None:
        _check_known(owner, [to])
        if summary:
            raise RequestRefused(422, "summary: only a new topic takes one; an existing topic keeps its own.")
    seen = [topic.pk] if topic else listed
    # A retired topic still lists its messages; the plan refuses it.
    names = asked.get("at", [])
    rows = TopicMessage.objects.filter(owner=owner, topic__in=seen, message__external_id__in=names)
    numbers = dict(rows.values_list("message__external_id", "message"))
    where = ", ".join(map(topic_id, seen))
    at = [_named("at", place, name, numbers.get(name), where) for place, name in enumerate(names)]
    # One for each part.
    sent = asked.get("summaries", [])
    if sent and len(sent) != len(set(at)) + 1:
        raise RequestRefused(422, f"summaries: {len(set(at)) + 1} are needed, one per part, not {len(sent)}.")
    return ChangeRequest(
        operation,
        owner,
        tuple(seen),
        messages=tuple(_movable(owner, asked.get("messages", []))),
        to=to,
        at=tuple(at),
        summaries=tuple(sent or [summary]),
        project=asked.get("project", ""),
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
    with refusals_of_curation(field=endpoint.body_takes[0].name):
        wanted = wanted_by(grant, operation, endpoint, body, id)
        if is_dry:
            owner, change = wanted.owner, curation.plan(wanted)
            return changed_answer(None, _would_be(owner, change), change.out, effect_of(owner, change))
        edit, change = curation.make(wanted, actor=actor_of(grant), reason=body.reason)
    return changed_answer(edit.pk, curation.put_in(edit), change.out)


@contextmanager
def refusals_of_curation(status: int = 422, code: str = "", field: str = "") -> Iterator[None]:
    """Turns what curation refuses into a refusal: with ``status`` and ``code``, in a sentence that names the field at
    fault, unless the memory has changed meanwhile or later changes depend on it."""
    try:
        yield
    except Stale as stale:
        now = {
            topic_id(number): [topic_id(holder) for holder in holders[:MOST_SUCCESSORS]]
            for number, holders in stale.successors.items()
        }
        raise RequestRefused(409, str(stale), code="stale", successors=now) from None
    except Depends as depends:
        names = [
            access.values_of(EditName.model_validate(edit)) for edit in depends.edits if isinstance(edit, TopicEdit)
        ]
        raise RequestRefused(409, str(depends), code="depends", edits=names) from None
    except CurationError as error:
        raise RequestRefused(status, f"{field}: {error}" if field else str(error), code=code) from None


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
    if (project := change.project) is None:
        project = Topic.objects.filter(pk__in=change.out).values_list("project", flat=True).first() or ""
    return [
        {
            "id": None,
            "project": project,
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


def _movable(owner: ChatUser, names: Sequence[str]) -> list[int]:
    rows = Message.objects.of(owner).filter(external_id__in=names, topic__isnull=False)
    numbers = dict(rows.values_list("external_id", "pk"))
    return [_named("messages", place, name, numbers.get(name), "any topic") for place, name in enumerate(names)]


def _named(field: str, place: int, name: str, number: int | None, where: str) -> int:
    if number is None:
        raise RequestRefused(422, f"{field}.{place}: there is no message “{name[:300]}” in {where}.")
    return number


# Lists the edits of a memory's topics, and undoes them.
#
# An undone edit stays in the list, and an undo is an edit like any other. A repeated undo is refused and changes
# nothing.

_ID = re.compile(r"\s*+\[?\s*+(?:edit\s*+:)?\s*+(\d{1,19})\s*+\]?\s*+", re.I | re.ASCII)
AfterEdit = Annotated[str, Query(), fields.after("Edit", "17")]
WITHOUT_REASON = UndoBody()

edits_router = Router(tags=["curation"], auth=access.Token(access.Scope.CURATE))


class EditSide(NamedTuple):
    """One side of an edit: its first topics, and the number of all its topics."""

    topics: tuple[int, ...] = ()
    size: int = 0


@edits_router.get("/edits", operation_id="listEdits", response=access.described(EditsAnswer, 400, 404, 409, 422))
async def edits(
    request: HttpRequest, user: KnownName, after: AfterEdit = "", limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> EditsAnswer:
    """List the edits by people, programs and archiving, earliest first, starting after the edit ``after``."""
    number = _number(after) if after else 0
    if number is None:
        raise RequestRefused(400, "after must be the id of an edit, such as 17.")
    return await access.answered(EditsAnswer, page_of_edits, access.grant_of(request), user, number, limit)


@edits_router.post("/edits/{id}/undo", operation_id="undoEdit", response=CHANGED)
async def undo(request: HttpRequest, id: str, body: UndoBody = WITHOUT_REASON, dry_run: bool = False) -> ChangedAnswer:
    """Undo an edit of any age. To make the edit again, undo the undo."""
    check_parameters(request)
    return await access.answered(
        ChangedAnswer, undone, access.grant_of(request), _number(id), body.reason, is_dry=dry_run
    )


@edits_router.post(
    "/edits/undo-night",
    operation_id="undoNight",
    response={**access.described(NightAnswer, 400, 404, 422), 409: ConflictErrorAnswer},
)
async def undo_night(request: HttpRequest, body: NightBody, dry_run: bool = False) -> NightAnswer:
    """Undo all merges that the program made by itself in one night, from noon to noon: all of them or none."""
    check_parameters(request)
    return await access.answered(NightAnswer, _night_undone, access.grant_of(request), body, is_dry=dry_run)


def _number(written: str) -> int | None:
    match = _ID.fullmatch(written)
    number = int(match[1]) if match else None
    return number if number is not None and number <= LARGEST_ID else None


def undone(grant: Grant, number: int | None, reason: str, *, is_dry: bool) -> dict[str, Any]:
    edit = access.row_or_404(grant, TopicEdit.objects.all(), number, "such edit")
    with refusals_of_curation(409):
        if is_dry:
            change = curation.plan_undo(edit.owner, edit)
            return changed_answer(None, curation.taken_out(edit), change.out, effect_of(edit.owner, change))
        made = history.undo(edit, actor=actor_of(grant), reason=reason)
    retired = [topic.pk for topic in curation.taken_out(made)]
    return changed_answer(made.pk, curation.put_in(made), retired)


def _night_undone(grant: Grant, body: NightBody, *, is_dry: bool) -> dict[str, Any]:
    owner = access.owner_or_404(grant, body.user)
    with refusals_of_curation(409):
        night = history.night_of(owner, body.night)
        made = [] if is_dry else history.undo_night(owner, night, actor=actor_of(grant), reason=body.reason)
    times = {"night": night.day, "first": night.first, "last": night.last}
    return {**times, "merges": night.count, "edits": [edit.pk for edit in made]}


def page_of_edits(grant: Grant, name: str, after: int, limit: int) -> dict[str, Any]:
    owner = access.owner_or_404(grant, name)
    rows = TopicEdit.objects.filter(owner=owner, pk__gt=after).select_related("topicedit").order_by("pk")
    page, last = access.page_of(rows, limit)
    numbers = [edit.pk for edit in page]
    stands = curation.in_effect(owner.pk, numbers)
    sides = _sides(owner.pk, numbers)
    listed = [_edit_fields(edit, sides, stands=stands[edit.pk]) for edit in page]
    return {"edits": listed, "next": last.pk if last else None}


def _sides(owner_id: int, numbers: Sequence[int]) -> Mapping[tuple[int, str], EditSide]:
    """Returns what each edit took out and put in, in one query. It lists only the first topics, because archiving and
    withdrawal may touch any number."""
    whole = [F("edit"), F("side")]
    rows = EditedTopic.objects.filter(owner=owner_id, edit__in=numbers).annotate(
        number=Window(RowNumber(), partition_by=whole, order_by=["topic"]), size=Window(Count("pk"), partition_by=whole)
    )
    sides: defaultdict[tuple[int, str], EditSide] = defaultdict(EditSide)
    listed = rows.filter(number__lte=MOST_TOPICS).order_by("topic")
    for edit, side, topic, size in listed.values_list("edit", "side", "topic", "size"):
        sides[edit, side] = EditSide((*sides[edit, side].topics, topic), size)
    return sides


def _edit_fields(edit: TopicEdit, sides: Mapping[tuple[int, str], EditSide], *, stands: bool) -> dict[str, Any]:
    out = sides.get((edit.pk, EditedTopic.Side.OUT), EditSide())
    put = sides.get((edit.pk, EditedTopic.Side.IN), EditSide())
    undoer = getattr(edit, "topicedit", None)
    return {
        **dict(EditName.model_validate(edit)),
        "reason": edit.reason,
        "undoes": edit.undoes_id,
        "undone_by": undoer.pk if undoer else None,
        "stands": stands,
        "out": out.topics,
        "out_count": out.size,
        "put": put.topics,
        "put_count": put.size,
    }
