"""The edits of a memory's topics: read in order, and taken back.

An edit that was taken back stays in the list, and taking back is an edit like any other. A repeated undo is refused
and changes nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest, JsonResponse
from ninja import Query, Router

from memoryapp import curation
from memoryapp.api import fields
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document
from memoryapp.api.change_shapes import EditsAnswer, UndoBody
from memoryapp.api.curation import CHANGED, actor_of, changed_answer, check_asked, refused_as_stale
from memoryapp.api.fields import LARGEST_ID, KnownName
from memoryapp.api.refusals import Refused
from memoryapp.api.topics import head
from memoryapp.curation import CurationError, Depends, Stale
from memoryapp.curation.change import MOST_TOPICS
from memoryapp.database import in_thread
from memoryapp.effect import effect_of
from memoryapp.engine.memory import topic_id
from memoryapp.models import EditedTopic, TopicEdit
from memoryapp.tokens import Grant

_ID = re.compile(r"\s*+\[?\s*+(?:edit\s*+:)?\s*+(\d{1,19})\s*+\]?\s*+", re.I | re.ASCII)
AfterEdit = Annotated[str, Query(), fields.after("Edit", "17")]
NOTHING_SAID = UndoBody()

router = Router(tags=["curation"], auth=Token(Scope.CURATE))


class Side(NamedTuple):
    """One side of an edit: its first topics by name, and how many there are."""

    names: tuple[str, ...] = ()
    size: int = 0


@router.get("/edits", response=described(EditsAnswer, 400, 404, 409, 422))
async def edits(
    request: HttpRequest, user: KnownName, after: AfterEdit = "", limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> JsonResponse:
    """What was changed in a memory, by people, programs and archiving; the earliest first, from the one ``after``."""
    return document(request, await in_thread(_listed, grant_of(request), user, _beyond(after), limit))


@router.post("/edits/{id}/undo", response=CHANGED)
async def undo(request: HttpRequest, id: str, body: UndoBody = NOTHING_SAID, dry_run: bool = False) -> JsonResponse:
    """Take back what an edit did, whenever it was made. Undoing the undo does it again."""
    check_asked(request)
    return document(request, await in_thread(_undone, grant_of(request), _number(id), body.reason, is_dry=dry_run))


def _number(written: str) -> int | None:
    match = _ID.fullmatch(written)
    number = int(match[1]) if match else None
    return number if number is not None and number <= LARGEST_ID else None


def _beyond(after: str) -> int:
    number = _number(after) if after else 0
    if number is None:
        raise Refused(400, "after must be the id of an edit, such as 17.")
    return number


def _undone(grant: Grant, number: int | None, reason: str, *, is_dry: bool) -> dict[str, Any]:
    edit = _edit(grant, number)
    try:
        if is_dry:
            change = curation.plan_undo(edit.owner, edit)
            back = [head(topic) for topic in curation.taken_out(edit)]
            return changed_answer(None, back, change.out, effect_of(edit.owner, change))
        made = curation.undo(edit.owner, edit, actor=actor_of(grant), reason=reason)
    except Stale as stale:
        raise refused_as_stale(stale) from None
    except Depends as depends:
        raise Refused(409, str(depends), code="depends", edits=[_name(row) for row in depends.edits]) from None
    except CurationError as error:
        raise Refused(409, str(error)) from None
    retired = [topic.pk for topic in curation.taken_out(made)]
    return changed_answer(made.pk, [head(topic) for topic in curation.put_in(made)], retired)


def _edit(grant: Grant, number: int | None) -> TopicEdit:
    seen = TopicEdit.objects.filter(owner__in=grant.seen()).select_related("owner")
    edit = seen.filter(pk=number).first() if number is not None else None
    if edit is None:
        raise Refused(404, "There is no such edit.")
    return edit


def _listed(grant: Grant, name: str, after: int, limit: int) -> dict[str, Any]:
    owner = owner_or_404(grant, name)
    rows = TopicEdit.objects.filter(owner=owner, pk__gt=after).select_related("topicedit").order_by("pk")
    found = list(rows[: limit + 1])
    page = found[:limit]
    numbers = [edit.pk for edit in page]
    stands = curation.in_effect(owner.pk, numbers)
    sides = _sides(owner.pk, numbers)
    told = [_told(edit, sides, stands=stands[edit.pk]) for edit in page]
    return {"edits": told, "next": page[-1].pk if len(found) > limit else None}


def _sides(owner_id: int, numbers: Sequence[int]) -> Mapping[tuple[int, str], Side]:
    """What each edit took out and put in, in one query; archives and withdrawals may be over any number of topics."""
    whole = [F("edit"), F("side")]
    rows = EditedTopic.objects.filter(owner=owner_id, edit__in=numbers).annotate(
        place=Window(RowNumber(), partition_by=whole, order_by=["topic"]),
        size=Window(Count("pk"), partition_by=whole),
    )
    sides: defaultdict[tuple[int, str], Side] = defaultdict(Side)
    listed = rows.filter(place__lte=MOST_TOPICS).order_by("topic")
    for edit, side, topic, size in listed.values_list("edit", "side", "topic", "size"):
        sides[edit, side] = Side((*sides[edit, side].names, topic_id(topic)), size)
    return sides


def _told(edit: TopicEdit, sides: Mapping[tuple[int, str], Side], *, stands: bool) -> dict[str, Any]:
    out = sides.get((edit.pk, EditedTopic.Side.OUT), Side())
    put = sides.get((edit.pk, EditedTopic.Side.IN), Side())
    undoer = getattr(edit, "topicedit", None)
    return {
        **_name(edit),
        "reason": edit.reason,
        "undoes": edit.undoes_id,
        "undone_by": undoer.pk if undoer else None,
        "stands": stands,
        "out": out.names,
        "out_count": out.size,
        "put": put.names,
        "put_count": put.size,
    }


def _name(edit: Any) -> dict[str, Any]:
    return {"id": edit.pk, "kind": edit.kind, "actor": edit.actor, "at": edit.at.isoformat()}
