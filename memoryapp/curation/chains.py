"""Chains of undo: an edit, the undo of it, the undo of that undo, and so on.

Every second edit of a chain takes back what the edit before it did. So an edit is in effect when an even number of
edits follow it in its chain. An edit is undone at most once, so a chain never forks. Edits of topics and edits of
people, facts and artifacts both form such chains.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import connection

from memoryapp.models import KnowledgeEdit, TopicEdit

CHAINS = """
WITH RECURSIVE up AS (
    SELECT id, undoes_id FROM {table} WHERE owner_id = %(owner)s AND id = ANY(%(ids)s)
    UNION
    SELECT e.id, e.undoes_id FROM up JOIN {table} e ON e.id = up.undoes_id
), down AS (
    SELECT id AS root, id FROM up WHERE undoes_id IS NULL
    UNION ALL
    SELECT down.root, e.id FROM down JOIN {table} e ON e.undoes_id = down.id
)
SELECT root, array_agg(id ORDER BY id) FROM down GROUP BY root
"""


class ChainLink(NamedTuple):
    """``stands`` says whether what an edit did is in effect today, ``is_again`` whether it repeated what was undone."""

    stands: bool
    is_again: bool


def chains(model: type[TopicEdit | KnowledgeEdit], owner_id: int, ids: Iterable[int]) -> list[tuple[int, ...]]:
    """The chains that the owner's edits ``ids`` belong to, each from its first edit to its last."""
    with connection.cursor() as cursor:
        cursor.execute(CHAINS.format(table=model._meta.db_table), {"owner": owner_id, "ids": list(ids)})
        return [tuple(chain) for _root, chain in cursor.fetchall()]


def links(model: type[TopicEdit | KnowledgeEdit], owner_id: int, ids: Iterable[int]) -> dict[int, ChainLink]:
    """The owner's edits in ``ids`` as links of their chains."""
    wanted = set(ids)
    return {
        number: ChainLink(stands=(len(chain) - place) % 2 == 1, is_again=place > 0 and place % 2 == 0)
        for chain in chains(model, owner_id, wanted)
        for place, number in enumerate(chain)
        if number in wanted
    }


def in_effect(model: type[TopicEdit | KnowledgeEdit], owner_id: int, ids: Iterable[int]) -> dict[int, bool]:
    """For each of the owner's edits in ``ids``: whether it is in effect, or was taken back."""
    return {number: link.stands for number, link in links(model, owner_id, ids).items()}


def flipped_by(chain: tuple[int, ...], ids: set[int]) -> bool:
    """Whether the outcome of the chain differs now from what it was before the first of the edits ``ids``."""
    first = next(place for place, number in enumerate(chain) if number in ids)
    return (len(chain) - first) % 2 == 1
