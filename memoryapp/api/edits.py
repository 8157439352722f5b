"""Lists the edits of a memory's topics, and undoes them.

An undone edit stays in the list, and an undo is an edit like any other. A repeated undo is refused and changes nothing.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from ninja import Query, Router

from memoryapp import curation, history
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described, page_of, written
from memoryapp.api.curation import CHANGED, actor_of, changed_answer, check_parameters, refused_as_stale
from memoryapp.api.shapes import fields
from memoryapp.api.shapes.curation import ChangedAnswer, ConflictErrorAnswer
from memoryapp.api.shapes.edits import EditName, EditsAnswer, NightAnswer, NightBody, UndoBody
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID, KnownName
from memoryapp.curation import CurationError, Depends, Stale
from memoryapp.curation.change import MOST_TOPICS
from memoryapp.effect import effect_of
from memoryapp.models import EditedTopic, TopicEdit

_ID = re.compile(r"\s*+\[?\s*+(?:edit\s*+:)?\s*+(\d{1,19})\s*+\]?\s*+", re.I | re.ASCII)
AfterEdit = Annotated[str, Query(), fields.after("Edit", "17")]
WITHOUT_REASON = UndoBody()

router = Router(tags=["curation"], auth=Token(Scope.CURATE))


class EditSide(NamedTuple):
    """One side of an edit: its first topics, and the number of all its topics."""

    topics: tuple[int, ...] = ()
    size: int = 0


@router.get("/edits", operation_id="listEdits", response=described(EditsAnswer, 400, 404, 409, 422))
async def edits(
    request: HttpRequest, user: KnownName, after: AfterEdit = "", limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> EditsAnswer:
    """List the edits by people, programs and archiving, earliest first, starting after the edit ``after``."""
    return await answered(EditsAnswer, page_of_edits, grant_of(request), user, _after(after), limit)


@router.post("/edits/{id}/undo", operation_id="undoEdit", response=CHANGED)
async def undo(request: HttpRequest, id: str, body: UndoBody = WITHOUT_REASON, dry_run: bool = False) -> ChangedAnswer:
    """Undo an edit of any age. To make the edit again, undo the undo."""
    check_parameters(request)
    return await answered(ChangedAnswer, undone, grant_of(request), _number(id), body.reason, is_dry=dry_run)


@router.post(
    "/edits/undo-night",
    operation_id="undoNight",
    response={**described(NightAnswer, 400, 404, 422), 409: ConflictErrorAnswer},
)
async def undo_night(request: HttpRequest, body: NightBody, dry_run: bool = False) -> NightAnswer:
    """Undo all merges that the program made by itself in one night, from noon to noon: all of them or none."""
    check_parameters(request)
    return await answered(NightAnswer, _night_undone, grant_of(request), body, is_dry=dry_run)


def _number(written: str) -> int | None:
    match = _ID.fullmatch(written)
    number = int(match[1]) if match else None
    return number if number is not None and number <= LARGEST_ID else None


def _after(after: str) -> int:
    number = _number(after) if after else 0
    if number is None:
        raise RequestRefused(400, "after must be the id of an edit, such as 17.")
    return number


def undone(grant: Grant, number: int | None, reason: str, *, is_dry: bool) -> dict[str, Any]:
    edit = _edit(grant, number)
    try:
        if is_dry:
            change = curation.plan_undo(edit.owner, edit)
            return changed_answer(None, curation.taken_out(edit), change.out, effect_of(edit.owner, change))
        made = history.undo(edit, actor=actor_of(grant), reason=reason)
    except Stale as stale:
        raise refused_as_stale(stale) from None
    except Depends as depends:
        raise RequestRefused(409, str(depends), code="depends", edits=_names(depends)) from None
    except CurationError as error:
        raise RequestRefused(409, str(error)) from None
    retired = [topic.pk for topic in curation.taken_out(made)]
    return changed_answer(made.pk, curation.put_in(made), retired)


def _night_undone(grant: Grant, body: NightBody, *, is_dry: bool) -> dict[str, Any]:
    owner = owner_or_404(grant, body.user)
    try:
        night = history.night_of(owner, body.night)
        made = [] if is_dry else history.undo_night(owner, night, actor=actor_of(grant), reason=body.reason)
    except Depends as depends:
        raise RequestRefused(409, str(depends), code="depends", edits=_names(depends)) from None
    except CurationError as error:
        raise RequestRefused(409, str(error)) from None
    times = {"night": night.day, "first": night.first, "last": night.last}
    return {**times, "merges": night.count, "edits": [edit.pk for edit in made]}


def _names(depends: Depends) -> list[dict[str, Any]]:
    return [json.loads(written(EditName.model_validate(edit))) for edit in depends.edits]


def _edit(grant: Grant, number: int | None) -> TopicEdit:
    seen = TopicEdit.objects.filter(owner__in=grant.visible_owners()).select_related("owner")
    edit = seen.filter(pk=number).first() if number is not None else None
    if edit is None:
        raise RequestRefused(404, "There is no such edit.")
    return edit


def page_of_edits(grant: Grant, name: str, after: int, limit: int) -> dict[str, Any]:
    owner = owner_or_404(grant, name)
    rows = TopicEdit.objects.filter(owner=owner, pk__gt=after).select_related("topicedit").order_by("pk")
    page, last = page_of(rows, limit)
    numbers = [edit.pk for edit in page]
    stands = curation.in_effect(owner.pk, numbers)
    sides = _sides(owner.pk, numbers)
    listed = [_edit_fields(edit, sides, stands=stands[edit.pk]) for edit in page]
    return {"edits": listed, "next": last.pk if last else None}


def _sides(owner_id: int, numbers: Sequence[int]) -> Mapping[tuple[int, str], EditSide]:
    """Returns what each edit took out and put in, in one query. It lists only the first topics, because archiving and
    withdrawal may touch any number."""
    whole = [F("edit"), F("side")]
    rows = EditedTopic.objects.filter(owner=owner_id, edit__in=numbers).annotate(
        number=Window(RowNumber(), partition_by=whole, order_by=["topic"]),
        size=Window(Count("pk"), partition_by=whole),
    )
    sides: defaultdict[tuple[int, str], EditSide] = defaultdict(EditSide)
    listed = rows.filter(number__lte=MOST_TOPICS).order_by("topic")
    for edit, side, topic, size in listed.values_list("edit", "side", "topic", "size"):
        sides[edit, side] = EditSide((*sides[edit, side].topics, topic), size)
    return sides


def _edit_fields(edit: TopicEdit, sides: Mapping[tuple[int, str], EditSide], *, stands: bool) -> dict[str, Any]:
    out = sides.get((edit.pk, EditedTopic.Side.OUT), EditSide())
    put = sides.get((edit.pk, EditedTopic.Side.IN), EditSide())
    undoer = getattr(edit, "topicedit", None)
    return {
        **dict(EditName.model_validate(edit)),
        "reason": edit.reason,
        "undoes": edit.undoes_id,
        "undone_by": undoer.pk if undoer else None,
        "stands": stands,
        "out": out.topics,
        "out_count": out.size,
        "put": put.topics,
        "put_count": put.size,
    }
