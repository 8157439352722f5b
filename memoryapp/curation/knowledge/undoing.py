"""Undo of changes of people, facts and artifacts: of one, of one with the changes that depend on it, or of a period. An
undo is a change with both sides exchanged. It is refused when the rows no longer have the values that the change left;
only merged people can be taken apart even then."""

from datetime import datetime

from django.db import models, transaction
from django.utils.translation import gettext as _

from memoryapp.curation.change import CurationError, Depends, Stale, chains, flipped_by, in_effect
from memoryapp.curation.knowledge.edits import unmerged_rows
from memoryapp.curation.knowledge.writing import MODELS, Kind, apply, has_values, lock, record
from memoryapp.models import ChatUser, ImportBatch, KnowledgeEdit

MOST_CHANGES = 500


@transaction.atomic
def undo(owner: ChatUser, change: KnowledgeEdit, *, actor: str, reason: str = "") -> KnowledgeEdit:
    """Takes the change back; for an undo, this redoes the change. Raises Depends when later changes by hand prevent it,
    CurationError when anything else does."""
    lock(owner)
    last = _last(owner, change)
    before, after = unmerged_rows(last) or (last.after, last.before)
    try:
        apply(owner, last.noun, before, after)
    except Stale as error:
        later = _later(last)
        raise (
            Depends(_("Later changes of the same item have to be undone first."), later) if later else error
        ) from error
    return record(
        KnowledgeEdit(
            owner=owner,
            kind=Kind.UNDO,
            noun=last.noun,
            before=before,
            after=after,
            actor=actor,
            reason=reason,
            undoes=last,
            batch=last.batch,
        )
    )


def dependents(change: KnowledgeEdit) -> list[KnowledgeEdit]:
    """The later changes that have to be undone before this one, newest first; empty when there are none."""
    last = _chain(change.owner_id, change)[-1]
    if _stands(last):
        return []
    found: dict[int, KnowledgeEdit] = {}
    edge = [last]
    while edge:
        edge = [later for one in edge for later in _later(one) if later.pk not in found]
        found |= {later.pk: later for later in edge}
        edge = [later for later in edge if unmerged_rows(later) is None]
    return sorted(found.values(), key=lambda later: -later.pk)


@transaction.atomic
def undo_with_dependents(
    owner: ChatUser, change: KnowledgeEdit, *, actor: str, reason: str = ""
) -> list[KnowledgeEdit]:
    """Undoes the changes that depend on this one, newest first, and then this one: all of them or none."""
    lock(owner)
    made = [undo(owner, later, actor=actor, reason=reason) for later in dependents(change)]
    return [*made, undo(owner, change, actor=actor, reason=reason)]


def give_back(owner: ChatUser, batch: ImportBatch, *, actor: str, reason: str = "") -> list[KnowledgeEdit]:
    """Restores the rows of the import that were deleted with it and still are. Raises CurationError."""
    lock(owner)
    went = KnowledgeEdit.objects.filter(owner=owner, batch=batch, kind=Kind.DELETE).order_by("-pk")
    stands = in_effect(KnowledgeEdit, owner.pk, [change.pk for change in went])
    return [undo(owner, change, actor=actor, reason=reason) for change in went if stands[change.pk]]


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[KnowledgeEdit]:
    """Takes back what ``by`` changed from ``since`` until before ``until``, newest first: all of it or nothing. Raises
    Depends with later changes of other people, or of another time, that depend on these; CurationError when there is
    nothing or too much to undo."""
    lock(owner)
    lasts, blocking = standing_between(owner, by, since, until)
    if not lasts:
        raise CurationError(_("This person made no change in that time that can be undone."))
    if blocking:
        raise Depends(_("Later changes of the same item have to be undone first."), blocking)
    return [undo(owner, last, actor=actor, reason=reason) for last in lasts]


def standing_between(
    owner: ChatUser, by: str, since: datetime, until: datetime
) -> tuple[list[KnowledgeEdit], list[KnowledgeEdit]]:
    """What ``undo_between`` would undo, and which changes prevent it; both newest first. It only reads."""
    changes = KnowledgeEdit.objects.filter(owner=owner, actor=by, at__gte=since, at__lt=until)
    ids = set(changes.order_by("-pk").values_list("pk", flat=True)[: MOST_CHANGES + 1])
    if len(ids) > MOST_CHANGES:
        raise CurationError(_("More than %(most)d changes would have to be undone together.") % {"most": MOST_CHANGES})
    ends = [chain[-1] for chain in chains(KnowledgeEdit, owner.pk, ids) if flipped_by(chain, ids)]
    lasts = list(KnowledgeEdit.objects.filter(pk__in=ends).order_by("-pk"))
    standing = {later.pk: later for last in lasts for later in _later(last) if later not in lasts}
    return lasts, [standing[number] for number in sorted(standing, reverse=True)]


def _last(owner: ChatUser, change: KnowledgeEdit) -> KnowledgeEdit:
    """The last change of the chain of undos and redos with ``change``. Raises CurationError when it is taken back."""
    found = _chain(owner.pk, change)
    if not found:
        raise CurationError(_("There is no such edit in this memory."))
    if (len(found) - found.index(change)) % 2 == 0:
        raise CurationError(_("This change is undone already."))
    return found[-1]


def _chain(owner_id: int, change: KnowledgeEdit) -> list[KnowledgeEdit]:
    ids = next(iter(chains(KnowledgeEdit, owner_id, [change.pk])), ())
    found = KnowledgeEdit.objects.in_bulk(ids)
    return [found[number] for number in ids]


def _later(change: KnowledgeEdit) -> list[KnowledgeEdit]:
    """Later changes of the same rows in effect, newest first; an undone one is not, and neither is its undo."""
    same = models.Q()
    for number in change.after:
        same |= models.Q(after__has_key=number)
    edits = KnowledgeEdit.objects.filter(same, owner=change.owner_id, noun=change.noun, pk__gt=change.pk)
    ends = [e for e in edits.filter(knowledgeedit__isnull=True).order_by("-pk")[:MOST_CHANGES] if _meet(change, e)]
    standing = {chain[-1] for chain in chains(KnowledgeEdit, change.owner_id, [e.pk for e in ends]) if len(chain) % 2}
    return [edit for edit in ends if edit.pk in standing]


def _meet(one: KnowledgeEdit, other: KnowledgeEdit) -> bool:
    """Whether both change the same field of a row; a row that is created or deleted changes in all fields."""
    shared = set(one.after) & set(other.after)
    return any(
        any(values is None for values in sides) or set(one.after[number]) & set(other.after[number])
        for number in shared
        for sides in [(one.before[number], one.after[number], other.before[number], other.after[number])]
    )


def _stands(change: KnowledgeEdit) -> bool:
    """Whether the rows still have the values that the change left."""
    rows = MODELS[change.noun]._default_manager.filter(owner=change.owner_id, pk__in=[int(pk) for pk in change.after])
    found = {str(row.pk): row for row in rows}
    is_as_left = all(has_values(found.get(number), values) for number, values in change.after.items())
    return is_as_left or unmerged_rows(change) is not None
