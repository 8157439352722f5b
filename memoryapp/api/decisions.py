"""What people decide about recall: a topic, a person or a fact is pinned, or never recalled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Router

from memoryapp import knowledge
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document
from memoryapp.api.curation import actor_of
from memoryapp.api.facts import change_named, undone
from memoryapp.api.shapes.decisions import DecisionAnswer, DecisionBody, DecisionsAnswer
from memoryapp.api.shapes.edits import UndoBody
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.curation import CurationError, Stale
from memoryapp.engine.memory import item_id
from memoryapp.models import ChatUser, KnowledgeEdit
from memoryapp.operations.database import in_thread

WITHOUT_REASON = UndoBody()
ANSWERS = described(DecisionAnswer, 400, 404, 409, 422)
USUAL = "usual"

router = Router(tags=["decisions"], auth=Token(Scope.CURATE))


@router.post("/decisions", operation_id="decideRecall", response=ANSWERS)
async def decide(request: HttpRequest, body: DecisionBody) -> JsonResponse:
    """Pin a topic, a person or a fact, so that every recall hands it over, or keep it from every recall."""
    return document(request, await in_thread(_decided, grant_of(request), body))


@router.post("/decisions/{change}/undo", operation_id="undoDecision", response=ANSWERS)
async def undo(request: HttpRequest, change: int, body: UndoBody = WITHOUT_REASON) -> JsonResponse:
    """Undo a decision about recall. To make it again, undo the undo."""
    return document(request, await in_thread(_undone, grant_of(request), change, body.reason))


@router.get("/users/{name}/decisions", operation_id="listDecisions", response=described(DecisionsAnswer, 404))
async def decisions(request: HttpRequest, name: str) -> JsonResponse:
    """List what is pinned or never recalled in a memory: at most 1,580 topics, people and facts."""
    return document(request, await in_thread(_listed, grant_of(request), name))


def _decided(grant: Grant, body: DecisionBody) -> dict[str, Any]:
    kind, number = body.id.split(":")
    owner = owner_or_404(grant, body.user)
    rows = knowledge.MODELS[kind.lower()]._default_manager.filter(owner=owner)
    row = rows.filter(pk=int(number)).first() if int(number) <= LARGEST_ID else None
    if row is None:
        raise RequestRefused(404, f"There is no {body.id} in this memory.")
    recall = "" if body.recall == USUAL else body.recall
    try:
        made = knowledge.decide_recall(owner, row, recall, actor=actor_of(grant), reason=body.reason)
    except Stale as stale:
        raise RequestRefused(409, str(stale), code="stale") from None
    except CurationError as error:
        raise RequestRefused(422, str(error)) from None
    return _answer(made)


def _undone(grant: Grant, number: int, reason: str) -> dict[str, Any]:
    made = change_named(grant, number)
    if made is None or not _is_decision(made):
        raise RequestRefused(404, "There is no such decision.")
    return _answer(undone(grant, made, reason))


def _is_decision(made: KnowledgeEdit) -> bool:
    return all(values is not None and [*values] == ["recall"] for values in made.after.values())


def _answer(made: KnowledgeEdit) -> dict[str, Any]:
    [(number, values)] = made.after.items()
    id = item_id(made.noun.capitalize(), int(number))
    return {"change": made.pk, "id": id, "recall": values["recall"] or USUAL}


def _listed(grant: Grant, name: str) -> dict[str, Any]:
    owner = owner_or_404(grant, name)
    found = [{"id": item_id(kind, number), "recall": recall} for kind, number, recall in _of(owner)]
    return {"decisions": found}


def _of(owner: ChatUser) -> Iterator[tuple[str, int, str]]:
    for noun in knowledge.MOST_PINNED:
        for each in knowledge.decided(owner, noun):
            yield noun.capitalize(), each.pk, each.recall
