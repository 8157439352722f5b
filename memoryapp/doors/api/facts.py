"""Facts written by programs, each change with its undo; and what is decided about recall: a topic, a person or a fact
is pinned, or never recalled."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from ninja import Router

from memoryapp.curation import knowledge
from memoryapp.doors.api import access
from memoryapp.doors.api.curation import actor_of, refusals_of_curation
from memoryapp.doors.api.messages import owner_to_fill
from memoryapp.doors.api.serving import serves
from memoryapp.doors.api.shapes.curation import (
    DecisionAnswer,
    DecisionBody,
    DecisionsAnswer,
    FactAnswer,
    FactBody,
    FactPatch,
    UndoBody,
)
from memoryapp.doors.api.shapes.fields import LARGEST_ID, RequestRefused
from memoryapp.doors.api.shapes.items import (
    ItemsAnswer,
    KeptItem,
    NamespacesAnswer,
    NamespacesBody,
    ReadItemsBody,
    SearchItemsBody,
    WriteItemsBody,
    WrittenItemsAnswer,
)
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import item_id
from memoryapp.engine.sight import looking
from memoryapp.intake import items
from memoryapp.models import ChatUser, Fact, KnowledgeEdit, StoredItem
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.database import in_thread
from memoryapp.runs.runner import runner

Noun = KnowledgeEdit.Noun
WITHOUT_REASON = UndoBody()
REFUSALS = (400, 404, 409, 422)
USUAL = "usual"

router = Router(tags=["facts"], auth=access.Token(access.Scope.CURATE))


@serves(router.post, "/facts", "addFact", FactAnswer, *REFUSALS)
def add(grant: Grant, body: FactBody) -> dict[str, Any]:
    """Add a fact about a chat user. A fact that exists already is refused."""
    owner = access.owner_or_404(grant, body.user)
    values = body.model_dump(exclude={"user", "project", "reason"}, mode="json")
    with refusals_of_curation(), looking(access.within(body.project)):
        return _answer(knowledge.create(owner, Noun.FACT, values, actor=actor_of(grant), reason=body.reason))


@serves(router.post, "/facts/changes/{change}/undo", "undoFactChange", FactAnswer, *REFUSALS)
def undo(grant: Grant, change: int, body: UndoBody = WITHOUT_REASON) -> dict[str, Any]:
    """Undo a change of a fact. To make it again, undo the undo."""
    changes = KnowledgeEdit.objects.filter(noun=Noun.FACT)
    return _answer(undone(grant, access.row_or_404(grant, changes, change, "such change of a fact"), body.reason))


@serves(router.patch, "/facts/{id}", "changeFact", FactAnswer, *REFUSALS)
def change(grant: Grant, id: int, body: FactPatch) -> dict[str, Any]:
    """Correct a fact. What is not sent stays as it is."""
    row = access.row_or_404(grant, Fact.objects.all(), id, "such fact")
    values = body.model_dump(exclude={"reason"}, exclude_none=True, mode="json")
    with refusals_of_curation():
        return _answer(knowledge.edit(row.owner, row, values, actor=actor_of(grant), reason=body.reason))


@serves(router.delete, "/facts/{id}", "deleteFact", FactAnswer, *REFUSALS)
def delete(grant: Grant, id: int) -> dict[str, Any]:
    """Delete a fact. The undo brings it back under its id."""
    row = access.row_or_404(grant, Fact.objects.all(), id, "such fact")
    with refusals_of_curation(409, "stale"):
        return _answer(knowledge.delete(row.owner, row, actor=actor_of(grant)))


def undone(grant: Grant, made: KnowledgeEdit, reason: str) -> KnowledgeEdit:
    """Undoes the change. Raises RequestRefused."""
    with refusals_of_curation(409):
        return knowledge.undo(made.owner, made, actor=actor_of(grant), reason=reason)


def _answer(made: KnowledgeEdit) -> dict[str, Any]:
    """The change, and its fact as it is now."""
    row = Fact.objects.filter(owner=made.owner_id, pk__in=[*made.after, *made.before]).first()
    return {"change": made.pk, "fact": row}


@serves(router.post, "/decisions", "decideRecall", DecisionAnswer, *REFUSALS, tags=["decisions"])
def decide(grant: Grant, body: DecisionBody) -> dict[str, Any]:
    """Pin a topic, a person or a fact, so that every recall hands it over, or keep it from every recall."""
    kind, number = body.id.split(":")
    owner = access.owner_or_404(grant, body.user)
    rows = knowledge.MODELS[kind.lower()]._default_manager.filter(owner=owner)
    row = rows.filter(pk=int(number)).first() if int(number) <= LARGEST_ID else None
    if row is None:
        raise RequestRefused(404, f"There is no {body.id} in this memory.")
    recall = "" if body.recall == USUAL else body.recall
    with refusals_of_curation():
        return _decision(knowledge.decide_recall(owner, row, recall, actor=actor_of(grant), reason=body.reason))


@serves(router.post, "/decisions/{change}/undo", "undoDecision", DecisionAnswer, *REFUSALS, tags=["decisions"])
def undo_decision(grant: Grant, change: int, body: UndoBody = WITHOUT_REASON) -> dict[str, Any]:
    """Undo a decision about recall. To make it again, undo the undo."""
    made = access.row_or_404(grant, KnowledgeEdit.objects.all(), change, "such decision")
    if not all(values is not None and [*values] == ["recall"] for values in made.after.values()):
        raise RequestRefused(404, "There is no such decision.")
    return _decision(undone(grant, made, body.reason))


@serves(router.get, "/users/{path:name}/decisions", "listDecisions", DecisionsAnswer, 404, tags=["decisions"])
def decisions(grant: Grant, name: str) -> dict[str, Any]:
    """List what is pinned or never recalled in a memory: at most 1,580 topics, people and facts."""
    owner = access.owner_or_404(grant, name)
    found = [
        {"id": item_id(noun.capitalize(), each.pk), "recall": each.recall}
        for noun in knowledge.MOST_PINNED
        for each in knowledge.decided(owner, noun)
    ]
    return {"decisions": found}


def _decision(made: KnowledgeEdit) -> dict[str, Any]:
    [(number, values)] = made.after.items()
    id = item_id(made.noun.capitalize(), int(number))
    return {"change": made.pk, "id": id, "recall": values["recall"] or USUAL}


# Items that programs keep for a chat user, such as the long-term memory of agents: written, read, searched, listed.

items_router = Router(tags=["items"], auth=access.Token(access.Scope.RECALL, access.Scope.READ, whole=True))

MODEL_WAIT = 5


@items_router.put(
    "/items",
    operation_id="writeItems",
    auth=access.Token(access.Scope.INGEST, whole=True),
    response=access.described(WrittenItemsAnswer, 400, 404, 409, 413, 422),
)
async def write(request: HttpRequest, body: WriteItemsBody) -> WrittenItemsAnswer:
    """Keep items under their names, all or none, and delete those whose value is null. A later value replaces an
    earlier one."""
    written = [items.Written(tuple(each.namespace), each.key, each.value, each.text) for each in body.items]
    rows = await in_thread(_written, access.grant_of(request), body.user, written)
    if rows:
        opened = await (await runner.clients()).now()
        await items.embed(opened.embedder, rows)
    deleted = sum(each.value is None for each in written)
    return WrittenItemsAnswer(written=len(written) - deleted, deleted=deleted)


@items_router.post(
    "/items/read", operation_id="readItems", response=access.described(ItemsAnswer, 400, 404, 409, 413, 422)
)
async def read(request: HttpRequest, body: ReadItemsBody) -> ItemsAnswer:
    """Read items by their names; those that do not exist are missing in the answer."""
    names = [(tuple(each.namespace), each.key) for each in body.items]
    owner = await in_thread(access.owner_or_404, access.grant_of(request), body.user)
    found = await in_thread(items.read, owner, names)
    return _items_answer((found[name], None) for name in dict.fromkeys(names) if name in found)


@items_router.post(
    "/items/search", operation_id="searchItems", response=access.described(ItemsAnswer, 400, 404, 409, 413, 422, 502)
)
async def search(request: HttpRequest, body: SearchItemsBody) -> ItemsAnswer:
    """Find items under a namespace by what their values contain and by meaning."""
    owner = await in_thread(access.owner_or_404, access.grant_of(request), body.user)
    wanted = items.ItemQuery(tuple(body.prefix), body.filter, body.limit, body.offset)
    try:
        return _items_answer(await _found(owner, wanted, body.query))
    except items.FilterError as error:
        raise RequestRefused(422, f"filter: {error}") from None
    except EmbeddingError as error:
        raise RequestRefused(502, f"The embedding model does not answer: {error}", wait=MODEL_WAIT) from None


@items_router.post(
    "/items/namespaces",
    operation_id="listNamespaces",
    response=access.described(NamespacesAnswer, 400, 404, 409, 413, 422),
)
async def namespaces(request: HttpRequest, body: NamespacesBody) -> NamespacesAnswer:
    """List the namespaces of items."""
    owner = await in_thread(access.owner_or_404, access.grant_of(request), body.user)
    matching = [items.MatchCondition(each.at, tuple(each.path)) for each in body.conditions]
    found = await in_thread(
        lambda: items.namespaces(owner, matching, depth=body.depth, limit=body.limit, offset=body.offset)
    )
    return NamespacesAnswer(namespaces=[list(each) for each in found])


def _written(grant: Grant, name: str, written: list[items.Written]) -> list[StoredItem]:
    is_kept = any(each.value is not None for each in written)
    # A chat user who does not exist has nothing to delete.
    owner = owner_to_fill(grant, name, is_wanted=is_kept) or access.owner_named(grant, name)
    return items.write(owner, written) if owner else []


async def _found(owner: ChatUser, wanted: items.ItemQuery, query: str | None) -> list[tuple[StoredItem, float | None]]:
    if query is None:
        return await in_thread(items.search, owner, wanted)
    opened = await (await runner.clients()).now()
    [vector] = await opened.embedder.embed(opened.embedder.profile.as_queries([query]))
    return await in_thread(items.search, owner, wanted, opened.profile_id, vector)


def _items_answer(found: Iterable[tuple[StoredItem, float | None]]) -> ItemsAnswer:
    kept = [KeptItem.model_validate(row).model_copy(update={"score": score}) for row, score in found]
    return ItemsAnswer(items=kept)
