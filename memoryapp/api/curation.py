"""Programs change topics under the same rules as people: a change is planned, made in one step, and can be undone.

With ``dry_run`` nothing is written, and the answer is the plan with its effect on past runs. A repeated call is
refused, because its topics are retired or no message is left to move. A change by a program counts as made by hand:
automatic changes do not touch its topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Length
from django.http import HttpRequest, JsonResponse
from ninja import Router

from memoryapp import curation
from memoryapp.accounts.tokens import Grant
from memoryapp.api import topics
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document
from memoryapp.api.shapes.curation import (
    ChangedAnswer,
    ConflictErrorAnswer,
    MergeBody,
    MoveBody,
    SplitBody,
    SummaryBody,
)
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.api.topics import MOST_SUCCESSORS, topic_head, topic_or_404
from memoryapp.curation import Change, CurationError, Stale
from memoryapp.effect import Effect, RunEffect, effect_of
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.models import ChatUser, Message, Topic, TopicEdit, TopicMessage
from memoryapp.operations.database import in_thread

Kind = TopicEdit.Kind

CURATOR = Token(Scope.CURATE)
CHANGED = {**described(ChangedAnswer, 400, 404, 413, 422), 409: ConflictErrorAnswer}

router = Router(tags=["curation"], auth=CURATOR)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change of the owner's topics that is planned but not made yet."""

    owner: ChatUser
    change: Change
    kind: TopicEdit.Kind


@router.post("/topics/merge", operation_id="mergeTopics", response=CHANGED)
async def merge(request: HttpRequest, body: MergeBody, dry_run: bool = False) -> JsonResponse:
    """Merge two or more topics into one. Topics that lie between them in time are not touched."""
    return await _change(request, lambda grant: merge_planned(grant, body), "topics", body.reason, is_dry=dry_run)


@router.post("/topics/{id}/split", operation_id="splitTopic", response=CHANGED)
async def split(request: HttpRequest, id: str, body: SplitBody, dry_run: bool = False) -> JsonResponse:
    """Split a topic before each of the named messages. If a part has no summary, one is made from its messages."""
    return await _change(request, lambda grant: split_planned(grant, id, body), "at", body.reason, is_dry=dry_run)


# On the router of topics, because an address belongs to one router, which already has GET of this one.
@topics.router.patch("/topics/{id}", operation_id="rewriteTopic", auth=CURATOR, response=CHANGED, tags=["curation"])
async def rewrite(request: HttpRequest, id: str, body: SummaryBody, dry_run: bool = False) -> JsonResponse:
    """Give a topic another summary. The result is a new topic over the same messages, with a new id."""
    return await _change(
        request, lambda grant: rewrite_planned(grant, id, body), "summary", body.reason, is_dry=dry_run
    )


@router.post("/messages/move", operation_id="moveMessages", response=CHANGED)
async def move(request: HttpRequest, body: MoveBody, dry_run: bool = False) -> JsonResponse:
    """Move messages to another topic, or with ``"to": null`` to a new one. A topic left without messages is retired."""
    return await _change(request, lambda grant: move_planned(grant, body), "messages", body.reason, is_dry=dry_run)


def merge_planned(grant: Grant, body: MergeBody) -> PlannedChange:
    owner = owner_or_404(grant, body.user)
    _check_known(owner, body.topics)
    return PlannedChange(owner, curation.plan_merge(owner, body.topics, body.summary), Kind.MERGE)


def split_planned(grant: Grant, id: str, body: SplitBody) -> PlannedChange:
    topic = topic_or_404(grant, parse_topic_id(id))
    at = _beginnings(topic, body.at)
    if body.summaries and len(body.summaries) != len(set(at)) + 1:
        raise RequestRefused(422, f"summaries: {len(set(at)) + 1} are needed, one per part, not {len(body.summaries)}.")
    change = curation.plan_split(topic.owner, topic.pk, at, body.summaries)
    return PlannedChange(topic.owner, change, Kind.SPLIT)


def rewrite_planned(grant: Grant, id: str, body: SummaryBody) -> PlannedChange:
    topic = topic_or_404(grant, parse_topic_id(id))
    return PlannedChange(topic.owner, curation.plan_edit(topic.owner, topic.pk, body.summary), Kind.EDIT)


def move_planned(grant: Grant, body: MoveBody) -> PlannedChange:
    owner = owner_or_404(grant, body.user)
    if body.to is not None:
        _check_known(owner, [body.to])
        if body.summary:
            raise RequestRefused(422, "summary: only a new topic takes one; an existing topic keeps its own.")
    moved = _movable(owner, body.messages)
    change = curation.plan_move(owner, moved, body.to, body.summary)
    return PlannedChange(owner, change, Kind.MOVE)


async def _change(
    request: HttpRequest, stage: Callable[[Grant], PlannedChange], field: str, reason: str, *, is_dry: bool
) -> JsonResponse:
    check_parameters(request)
    return document(request, await in_thread(change_or_plan, grant_of(request), stage, field, reason, is_dry=is_dry))


def check_parameters(request: HttpRequest) -> None:
    """Raises RequestRefused for an unknown parameter: a misspelt ``dry_run`` must not make a change."""
    unknown = sorted(request.GET.keys() - {"dry_run"})
    if unknown:
        raise RequestRefused(422, f"{unknown[0][:100]}: there is no such parameter; did you mean dry_run?")


def change_or_plan(
    grant: Grant, stage: Callable[[Grant], PlannedChange], field: str, reason: str, *, is_dry: bool
) -> dict[str, Any]:
    with _refusals_of(field):
        staged = stage(grant)
        owner, change = staged.owner, staged.change
        if is_dry:
            return changed_answer(None, _would_be(owner, change), change.out, effect_of(owner, change))
        edit = curation.swap(owner, change, kind=staged.kind, actor=actor_of(grant), reason=reason)
    return changed_answer(edit.pk, [topic_head(topic) for topic in curation.put_in(edit)], change.out)


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
    edit: int | None, put: Sequence[dict[str, Any]], out: Sequence[int], effect: Effect | None = None
) -> dict[str, Any]:
    retired = [topic_id(number) for number in out]
    return {"edit": edit, "topics": list(put), "retired": retired, "effect": _effect(effect) if effect else None}


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "affected": effect.affected,
        "better": effect.better,
        "worse": effect.worse,
        "same": effect.same,
        "words_only": effect.words_only,
        "runs": [_run_effect(row) for row in effect.rows],
    }


def _run_effect(row: RunEffect) -> dict[str, Any]:
    return {
        "run": str(row.run_id),
        "query": row.query,
        "asked_at": row.when.isoformat(),
        "golden": row.is_golden,
        "verdict": row.verdict,
        "sentence": row.sentence,
        "before": {"rank": row.before_rank, "shown": row.before_shown, "chars": row.before_chars},
        "after": {"rank": row.after_rank, "shown": row.after_shown, "chars": row.after_chars},
    }


def _would_be(owner: ChatUser, change: Change) -> list[dict[str, Any]]:
    numbers = [number for draft in change.put for number in draft.messages]
    rows = Message.objects.of(owner).filter(pk__in=numbers)
    sent = {number: (at, size) for number, at, size in rows.values_list("pk", "sent_at", Length("text"))}
    parts = [(draft.summary, [sent[number] for number in draft.messages]) for draft in change.put]
    return [
        {
            "id": None,
            "summary": summary,
            "started_at": min(at for at, _ in part).isoformat(),
            "ended_at": max(at for at, _ in part).isoformat(),
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


def _beginnings(topic: Topic, names: Sequence[str]) -> list[int]:
    """Returns the numbers of these messages. A retired topic still lists its messages; the plan refuses it."""
    rows = TopicMessage.objects.filter(owner=topic.owner_id, topic=topic, message__external_id__in=names)
    numbers = dict(rows.values_list("message__external_id", "message"))
    return [_named("at", place, name, numbers.get(name), topic_id(topic.pk)) for place, name in enumerate(names)]


def _movable(owner: ChatUser, names: Sequence[str]) -> list[int]:
    rows = Message.objects.of(owner).filter(external_id__in=names, topic__isnull=False)
    numbers = dict(rows.values_list("external_id", "pk"))
    return [_named("messages", place, name, numbers.get(name), "any topic") for place, name in enumerate(names)]


def _named(field: str, place: int, name: str, number: int | None, where: str) -> int:
    if number is None:
        raise RequestRefused(422, f"{field}.{place}: there is no message “{name[:300]}” in {where}.")
    return number
