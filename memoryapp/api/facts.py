"""Facts written by programs, each change with its undo; and what is decided about recall: a topic, a person or a fact
is pinned, or never recalled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from ninja import Router

from memoryapp import knowledge
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described
from memoryapp.api.curation import actor_of
from memoryapp.api.lists import fact_fields
from memoryapp.api.shapes.decisions import DecisionAnswer, DecisionBody, DecisionsAnswer
from memoryapp.api.shapes.edits import UndoBody
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.facts import FactAnswer, FactBody, FactPatch
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.curation import CurationError, Depends, Stale
from memoryapp.engine.memory import item_id
from memoryapp.models import ChatUser, Fact, KnowledgeEdit

Noun = KnowledgeEdit.Noun
WITHOUT_REASON = UndoBody()
ANSWERS = described(FactAnswer, 400, 404, 409, 422)
DECIDED = described(DecisionAnswer, 400, 404, 409, 422)
USUAL = "usual"

router = Router(tags=["facts"], auth=Token(Scope.CURATE))


@router.post("/facts", operation_id="addFact", response=ANSWERS)
async def add(request: HttpRequest, body: FactBody) -> FactAnswer:
    """Add a fact about a chat user. A fact that exists already is refused."""
    return await answered(FactAnswer, _added, grant_of(request), body)


@router.post("/facts/changes/{change}/undo", operation_id="undoFactChange", response=ANSWERS)
async def undo(request: HttpRequest, change: int, body: UndoBody = WITHOUT_REASON) -> FactAnswer:
    """Undo a change of a fact. To make it again, undo the undo."""
    return await answered(FactAnswer, _undone, grant_of(request), change, body.reason)


@router.patch("/facts/{id}", operation_id="changeFact", response=ANSWERS)
async def change(request: HttpRequest, id: int, body: FactPatch) -> FactAnswer:
    """Correct a fact. What is not sent stays as it is."""
    return await answered(FactAnswer, _changed, grant_of(request), id, body)


@router.delete("/facts/{id}", operation_id="deleteFact", response=ANSWERS)
async def delete(request: HttpRequest, id: int) -> FactAnswer:
    """Delete a fact. The undo brings it back under its id."""
    return await answered(FactAnswer, _deleted, grant_of(request), id)


def _added(grant: Grant, body: FactBody) -> dict[str, Any]:
    owner = owner_or_404(grant, body.user)
    values = body.model_dump(exclude={"user", "reason"}, mode="json")
    try:
        made = knowledge.create(owner, Noun.FACT, values, actor=actor_of(grant), reason=body.reason)
    except CurationError as error:
        raise RequestRefused(422, str(error)) from None
    return _answer(made)


def _changed(grant: Grant, number: int, body: FactPatch) -> dict[str, Any]:
    row = _fact_or_404(grant, number)
    values = body.model_dump(exclude={"reason"}, exclude_none=True, mode="json")
    try:
        made = knowledge.edit(row.owner, row, values, actor=actor_of(grant), reason=body.reason)
    except Stale as stale:
        raise RequestRefused(409, str(stale), code="stale") from None
    except CurationError as error:
        raise RequestRefused(422, str(error)) from None
    return _answer(made)


def _deleted(grant: Grant, number: int) -> dict[str, Any]:
    row = _fact_or_404(grant, number)
    try:
        return _answer(knowledge.delete(row.owner, row, actor=actor_of(grant)))
    except CurationError as error:
        raise RequestRefused(409, str(error), code="stale") from None


def _undone(grant: Grant, number: int, reason: str) -> dict[str, Any]:
    made = change_named(grant, number)
    if made is None or made.noun != Noun.FACT:
        raise RequestRefused(404, "There is no such change of a fact.")
    return _answer(undone(grant, made, reason))


def change_named(grant: Grant, number: int) -> KnowledgeEdit | None:
    """The change of that number, if the token may see its memory."""
    seen = KnowledgeEdit.objects.filter(owner__in=grant.visible_owners()).select_related("owner")
    return seen.filter(pk=number).first() if 0 <= number <= LARGEST_ID else None


def undone(grant: Grant, made: KnowledgeEdit, reason: str) -> KnowledgeEdit:
    """Undoes the change. Raises RequestRefused."""
    try:
        return knowledge.undo(made.owner, made, actor=actor_of(grant), reason=reason)
    except Depends as depends:
        raise RequestRefused(409, str(depends), code="depends") from None
    except CurationError as error:
        raise RequestRefused(409, str(error)) from None


def _fact_or_404(grant: Grant, number: int) -> Fact:
    seen = Fact.objects.filter(owner__in=grant.visible_owners()).select_related("owner")
    row = seen.filter(pk=number).first() if 0 <= number <= LARGEST_ID else None
    if row is None:
        raise RequestRefused(404, "There is no such fact.")
    return row


def _answer(made: KnowledgeEdit) -> dict[str, Any]:
    """The change, and its fact as it is now."""
    row = Fact.objects.filter(owner=made.owner_id, pk__in=[*made.after, *made.before]).first()
    return {"change": made.pk, "fact": fact_fields(row) if row else None}


@router.post("/decisions", operation_id="decideRecall", tags=["decisions"], response=DECIDED)
async def decide(request: HttpRequest, body: DecisionBody) -> DecisionAnswer:
    """Pin a topic, a person or a fact, so that every recall hands it over, or keep it from every recall."""
    return await answered(DecisionAnswer, _decided, grant_of(request), body)


@router.post("/decisions/{change}/undo", operation_id="undoDecision", tags=["decisions"], response=DECIDED)
async def undo_decision(request: HttpRequest, change: int, body: UndoBody = WITHOUT_REASON) -> DecisionAnswer:
    """Undo a decision about recall. To make it again, undo the undo."""
    return await answered(DecisionAnswer, _undone_decision, grant_of(request), change, body.reason)


@router.get(
    "/users/{path:name}/decisions",
    operation_id="listDecisions",
    tags=["decisions"],
    response=described(DecisionsAnswer, 404),
)
async def decisions(request: HttpRequest, name: str) -> DecisionsAnswer:
    """List what is pinned or never recalled in a memory: at most 1,580 topics, people and facts."""
    return await answered(DecisionsAnswer, _listed, grant_of(request), name)


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
    return _decision(made)


def _undone_decision(grant: Grant, number: int, reason: str) -> dict[str, Any]:
    made = change_named(grant, number)
    if made is None or not _is_decision(made):
        raise RequestRefused(404, "There is no such decision.")
    return _decision(undone(grant, made, reason))


def _is_decision(made: KnowledgeEdit) -> bool:
    return all(values is not None and [*values] == ["recall"] for values in made.after.values())


def _decision(made: KnowledgeEdit) -> dict[str, Any]:
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
