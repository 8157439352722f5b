"""Items that programs keep for a chat user, such as the long-term memory of agents: written, read, searched, listed."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest
from ninja import Router

from memoryapp import items
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_named, owner_or_404
from memoryapp.api.answers import described
from memoryapp.api.messages import owner_to_fill
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.items import (
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
from memoryapp.models import ChatUser, StoredItem
from memoryapp.operations.database import in_thread
from memoryapp.runs.runner import runner

router = Router(tags=["items"], auth=Token(Scope.RECALL, Scope.READ))

MODEL_WAIT = 5


@router.put(
    "/items",
    operation_id="writeItems",
    auth=Token(Scope.INGEST),
    response=described(WrittenItemsAnswer, 400, 404, 409, 413, 422),
)
async def write(request: HttpRequest, body: WriteItemsBody) -> WrittenItemsAnswer:
    """Keep items under their names, all or none, and delete those whose value is null. A later value replaces an
    earlier one."""
    written = [items.Written(tuple(each.namespace), each.key, each.value, each.text) for each in body.items]
    rows = await in_thread(_written, grant_of(request), body.user, written)
    if rows:
        opened = await (await runner.clients()).now()
        await items.embed(opened.embedder, rows)
    deleted = sum(each.value is None for each in written)
    return WrittenItemsAnswer(written=len(written) - deleted, deleted=deleted)


@router.post("/items/read", operation_id="readItems", response=described(ItemsAnswer, 400, 404, 409, 413, 422))
async def read(request: HttpRequest, body: ReadItemsBody) -> ItemsAnswer:
    """Read items by their names; those that do not exist are missing in the answer."""
    names = [(tuple(each.namespace), each.key) for each in body.items]
    owner = await in_thread(owner_or_404, grant_of(request), body.user)
    found = await in_thread(items.read, owner, names)
    return _answer((found[name], None) for name in dict.fromkeys(names) if name in found)


@router.post("/items/search", operation_id="searchItems", response=described(ItemsAnswer, 400, 404, 409, 413, 422))
async def search(request: HttpRequest, body: SearchItemsBody) -> ItemsAnswer:
    """Find items under a namespace by what their values contain and by meaning."""
    owner = await in_thread(owner_or_404, grant_of(request), body.user)
    wanted = items.ItemQuery(tuple(body.prefix), body.filter, body.limit, body.offset)
    try:
        return _answer(await _found(owner, wanted, body.query))
    except items.FilterError as error:
        raise RequestRefused(422, f"filter: {error}") from None
    except EmbeddingError as error:
        raise RequestRefused(503, f"The embedding model does not answer: {error}", wait=MODEL_WAIT) from None


@router.post(
    "/items/namespaces", operation_id="listNamespaces", response=described(NamespacesAnswer, 400, 404, 409, 413, 422)
)
async def namespaces(request: HttpRequest, body: NamespacesBody) -> NamespacesAnswer:
    """List the namespaces of items."""
    owner = await in_thread(owner_or_404, grant_of(request), body.user)
    matching = [items.MatchCondition(each.at, tuple(each.path)) for each in body.conditions]
    found = await in_thread(
        lambda: items.namespaces(owner, matching, depth=body.depth, limit=body.limit, offset=body.offset)
    )
    return NamespacesAnswer(namespaces=[list(each) for each in found])


def _written(grant: Grant, name: str, written: list[items.Written]) -> list[StoredItem]:
    is_kept = any(each.value is not None for each in written)
    # A chat user who does not exist has nothing to delete.
    owner = owner_to_fill(grant, name, is_wanted=is_kept) or owner_named(grant, name)
    try:
        return items.write(owner, written) if owner else []
    except items.TooManyItems as error:
        raise RequestRefused(409, str(error)) from None


async def _found(owner: ChatUser, wanted: items.ItemQuery, query: str | None) -> list[tuple[StoredItem, float | None]]:
    if query is None:
        return await in_thread(items.search, owner, wanted)
    opened = await (await runner.clients()).now()
    [vector] = await opened.embedder.embed(opened.embedder.profile.as_queries([query]))
    return await in_thread(items.search, owner, wanted, opened.profile_id, vector)


def _answer(found: Iterable[tuple[StoredItem, float | None]]) -> ItemsAnswer:
    kept = [KeptItem.model_validate(row).model_copy(update={"score": score}) for row, score in found]
    return ItemsAnswer(items=kept)
