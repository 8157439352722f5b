"""Writes and reads items by their namespace and key. A later value takes the place of an earlier one; None deletes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.content import chat_users
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.models import ChatUser, ItemVector, RefusedText, StoredItem
from memoryapp.operations import advisory_locks
from memoryapp.search.vectors import embed_items

# Of one chat user; a search reads all that its namespace holds.
MOST_ITEMS = 100_000
# Characters of an item's text that are searched.
LONGEST_SEARCHED = 10_000
# Seconds in which the vectors of what was just written have to be made; otherwise the worker makes them.
PATIENCE = 5.0
# Items whose vectors a request makes itself.
MOST_AT_ONCE = 100

logger = logging.getLogger(__name__)

Name = tuple[tuple[str, ...], str]


class TooManyItems(Exception):
    """The chat user has no room for another item; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value under its name, or None to delete it. ``text`` is searched; None stands for all texts of the value."""

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any] | None
    text: str | None = None

    @property
    def name(self) -> Name:
        return self.namespace, self.key


def write(owner: ChatUser, written: Sequence[Written]) -> list[StoredItem]:
    """Stores all of ``written`` or nothing; of several with one name the last counts. Returns the rows whose text has
    no vector. Raises TooManyItems and BeingErased."""
    last = {each.name: each for each in written}
    kept = [each for each in last.values() if each.value is not None]
    gone = [name for name, each in last.items() if each.value is None]
    with transaction.atomic():
        # One writer for each owner: calls with the same names in different orders would deadlock.
        advisory_locks.acquire_until_commit("items", owner.pk)
        chat_users.check_kept(owner)
        named(owner, gone).delete()
        before = {(tuple(row.namespace), row.key): row for row in named(owner, [each.name for each in kept])}
        _check_room(owner, len(kept) - len(before))
        rows = _put(owner, kept)
        changed = [row for row in rows if not _is_unchanged(row, before)]
        ItemVector.objects.filter(item__in=changed).delete()
        RefusedText.objects.filter(item__in=changed).delete()
    return [row for row in changed if row.text]


def _is_unchanged(row: StoredItem, before: Mapping[Name, StoredItem]) -> bool:
    earlier = before.get((tuple(row.namespace), row.key))
    return earlier is not None and earlier.text == row.text


def _check_room(owner: ChatUser, new: int) -> None:
    if new > 0 and StoredItem.objects.filter(owner=owner).count() + new > MOST_ITEMS:
        raise TooManyItems(_("A chat user has at most %(most)s items.") % {"most": f"{MOST_ITEMS:,}"})


def _put(owner: ChatUser, kept: Sequence[Written]) -> list[StoredItem]:
    now = timezone.now()
    rows = [
        StoredItem(
            owner=owner,
            namespace=list(each.namespace),
            key=each.key,
            value=each.value,
            text=searched_text(each),
            created_at=now,
            updated_at=now,
        )
        for each in kept
    ]
    return StoredItem.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["owner", "namespace", "key"],
        update_fields=["value", "text", "updated_at"],
    )


def searched_text(written: Written) -> str:
    """What a search compares: the given text, or all texts of the value, each in a line."""
    text = "\n".join(_texts(written.value)) if written.text is None else written.text
    return text[:LONGEST_SEARCHED].strip()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def read(owner: ChatUser, names: Sequence[Name]) -> dict[Name, StoredItem]:
    """Returns the items that exist, by name."""
    return {(tuple(row.namespace), row.key): row for row in named(owner, names)}


def named(owner: ChatUser, names: Sequence[Name]) -> QuerySet[StoredItem]:
    """The items with these names."""
    found = Q(pk__in=[])
    keys: dict[tuple[str, ...], list[str]] = {}
    for namespace, key in names:
        keys.setdefault(namespace, []).append(key)
    for namespace, own in keys.items():
        found |= Q(namespace=list(namespace), key__in=own)
    return StoredItem.objects.filter(found, owner=owner)


async def embed(embedder: Embedder, rows: Sequence[StoredItem]) -> None:
    """Makes the vectors of a few rows at once, so that they are found by meaning; the worker makes what is left."""
    if not 0 < len(rows) <= MOST_AT_ONCE:
        return
    try:
        async with asyncio.timeout(PATIENCE):
            await embed_items(embedder, rows)
    except (EmbeddingError, TimeoutError) as error:
        logger.warning("Vectors of %d items are left to the worker: %s", len(rows), error)
