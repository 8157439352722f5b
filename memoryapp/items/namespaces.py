"""Lists the namespaces of a chat user's items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.db import connection

from memoryapp.models import ChatUser

LONGEST_PAGE = 200
ANY = "*"
_LABEL = {"prefix": "namespace[%s] = %s", "suffix": "namespace[cardinality(namespace) - %s] = %s"}
_LIST = """
SELECT shown FROM (SELECT DISTINCT namespace[1:%s] AS shown FROM memoryapp_storeditem WHERE {}) listed
ORDER BY shown COLLATE "C" LIMIT %s OFFSET %s
"""
# More labels than any namespace has.
_ALL = 1_000


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A namespace begins or ends so; ``*`` stands for any label."""

    at: Literal["prefix", "suffix"]
    path: tuple[str, ...]


def namespaces(
    owner: ChatUser, matching: Sequence[MatchCondition], *, depth: int | None, limit: int, offset: int
) -> list[tuple[str, ...]]:
    """Returns the namespaces that fulfil all conditions, in the order of their labels, cut to ``depth`` labels."""
    found: list[str] = ["owner_id = %s"]
    values: list[int | str] = [depth or _ALL, owner.pk]
    for each in matching:
        found.append("cardinality(namespace) >= %s")
        values.append(len(each.path))
        for place, label in enumerate(each.path):
            if label != ANY:
                found.append(_LABEL[each.at])
                values += [place + 1 if each.at == "prefix" else len(each.path) - place - 1, label]
    with connection.cursor() as cursor:
        cursor.execute(_LIST.format(" AND ".join(found)), [*values, limit, offset])
        return [tuple(labels) for (labels,) in cursor.fetchall()]
