"""Takes merged people apart, at any time after the merge: what was changed since is kept.

The people who became part of another one return as they were. The other one loses the names and lines of biography that
came with them, and keeps what it had before the merge or got after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memoryapp.curation.chains import in_effect
from memoryapp.knowledge.rows import Kind, Noun, Rows, Values, plain
from memoryapp.models import KnowledgeEdit, Person

MOST_MERGES = 50


@dataclass(frozen=True, slots=True)
class PeopleMerge:
    """A merge of people in effect, and the names of those who became part of another person."""

    change: KnowledgeEdit
    names: tuple[str, ...]


def merges_into(person: Person) -> list[PeopleMerge]:
    """Returns the latest merges into the person that are in effect, newest first. Two queries."""
    merges = KnowledgeEdit.objects.filter(owner=person.owner_id, noun=Noun.PERSON, kind=Kind.MERGE)
    found = list(merges.filter(after__has_key=str(person.pk)).order_by("-pk")[:MOST_MERGES])
    stands = in_effect(KnowledgeEdit, person.owner_id, [change.pk for change in found]) if found else {}
    return [
        PeopleMerge(change, _gone(change)) for change in found if stands[change.pk] and change.after[str(person.pk)]
    ]


def _gone(merge: KnowledgeEdit) -> tuple[str, ...]:
    others = (values for number, values in merge.before.items() if merge.after[number] is None)
    return tuple(str(values["display_name"]) for values in others)


def unmerged_rows(merge: KnowledgeEdit) -> tuple[Rows, Rows] | None:
    """Returns the values of all rows before and after the people are taken apart.

    None if the change did not merge people, if the remaining person is gone, or if one of the others is there again.
    """
    gone = [number for number, values in merge.after.items() if values is None]
    stays = [number for number, values in merge.after.items() if values is not None]
    if not gone or not stays or not _merged_people(merge):
        return None
    there = Person.objects.filter(owner=merge.owner_id, pk__in=[int(number) for number in merge.after])
    rows = {str(row.pk): row for row in there}
    if list(rows) != stays:
        return None
    [number] = stays
    now = {name: plain(getattr(rows[number], name)) for name in merge.after[number] or {}}
    others = [merge.before[other] or {} for other in gone]
    then = _without(now, merge.before[number] or {}, merge.after[number] or {}, others)
    return {number: now, **dict.fromkeys(gone)}, {number: then, **{other: merge.before[other] for other in gone}}


def _merged_people(change: KnowledgeEdit) -> bool:
    """Whether the change merged people: it is a merge, or makes one again."""
    first = change
    while first.undoes is not None:
        first = first.undoes
    return first.kind == Kind.MERGE


def _without(now: Values, before: Values, after: Values, others: Sequence[Values]) -> dict[str, Any]:
    """Returns the values ``now``, without those that a merge added to the values ``before``."""
    then = {name: before[name] if value == after[name] else value for name, value in now.items()}
    if "aliases" in now:
        then["aliases"] = _less(now["aliases"], before["aliases"], after["aliases"])
    if "bio" in now:
        then["bio"] = "\n".join(_less(*(values["bio"].split("\n") for values in (now, before, after))))
    if "mention_count" in now:
        then["mention_count"] = max(0, now["mention_count"] - sum(values["mention_count"] for values in others))
    return then


def _less(now: Sequence[str], before: Sequence[str], after: Sequence[str]) -> list[str]:
    came = set(after) - set(before)
    return [entry for entry in now if entry not in came]
