"""Undo of edits: of one edit, of one with all edits that depend on it, or of all edits of a period.

An undo is an edit of its own that brings back the topics which its edit retired; the undo of an undo is a redo. So the
edits of one matter form a chain (``chains``), and it is always the last edit of the chain that is undone. The topics
that an edit put in must be live in order to be retired again: a later edit that retired them has to be undone first."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from memoryapp.curation import change
from memoryapp.curation.change import Change, CurationError, Depends
from memoryapp.curation.rewording import turn
from memoryapp.curation.settling import settle
from memoryapp.curation.topic_writer import exchange, lock_owner, swap
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import TopicDraft
from memoryapp.memory.sessions import note_change
from memoryapp.models import ChatUser, EditedTopic, GuardSpot, ImportBatch, Message, Topic, TopicEdit, TopicMessage
from memoryapp.platform.statements import execute, fetched

# Withdrawal of an import: its messages leave their topics, and every topic keeps its other messages.
#
# The messages stay in the database, marked as withdrawn, in no topic and no session. So the withdrawal can be undone
# like any other edit.


def plan_withdraw(owner: ChatUser, batch: ImportBatch, *, has_rows: bool = False) -> Change:
    """The change that withdrawing the import would make; it only reads. Raises CurationError, also when the import has
    no message left to withdraw, unless ``has_rows`` says that other rows would be withdrawn."""
    if batch.owner_id != owner.pk:
        raise CurationError(_("There is no such import in this memory."))
    if TopicEdit.objects.filter(owner=owner, batch=batch, kind=TopicEdit.Kind.REWORD).exists():
        raise CurationError(_("These are changed texts that were taken over: undo that in the history."))
    mine = Message.objects.of(owner).filter(batch=batch, is_withdrawn=False)
    if not (has_rows or mine.exists()):
        raise CurationError(_("This import has no messages that could be withdrawn."))
    return _without(owner, mine)


def _without(owner: ChatUser, mine: QuerySet[Message]) -> Change:
    """Takes these messages out of their topics."""
    touched = Topic.objects.of(owner).live().filter(pk__in=mine.filter(topic__isnull=False).values("topic"))
    summaries = dict(touched.order_by("started_at", "pk").values_list("pk", "summary"))
    rest: dict[int, list[int]] = defaultdict(list)
    kept = Message.objects.of(owner).filter(topic__in=list(summaries)).exclude(pk__in=mine.values("pk"))
    for topic, number in kept.in_order().values_list("topic", "pk"):
        rest[topic].append(number)
    drafts = (TopicDraft(summary, tuple(rest[pk])) for pk, summary in summaries.items() if pk in rest)
    return Change(tuple(summaries), tuple(drafts))


@transaction.atomic
def withdraw(owner: ChatUser, batch: ImportBatch, *, actor: str, reason: str = "", has_rows: bool = False) -> TopicEdit:
    """Withdraws the messages that the import brought, archived or not. ``has_rows`` says that other rows are withdrawn
    with them. Raises CurationError."""
    lock_owner(owner)
    change = plan_withdraw(owner, batch, has_rows=has_rows)
    edit = swap(owner, change, kind=TopicEdit.Kind.WITHDRAW, actor=actor, reason=reason, batch=batch)
    withdraw_active(owner, batch)
    return edit


def withdraw_active(owner: ChatUser, batch: ImportBatch) -> None:
    """Withdraws the messages of the import that are in no topic."""
    Message.objects.of(owner).active().filter(batch=batch).update(is_withdrawn=True)
    note_change(owner)


def give_back_active(owner: ChatUser, batch: ImportBatch) -> None:
    """Those that the guard holds stay held."""
    rows = Message.objects.of(owner).filter(batch=batch, topic__isnull=True, is_withdrawn=True)
    rows.exclude(spots__state=GuardSpot.State.HELD).update(is_withdrawn=False)
    note_change(owner)


@transaction.atomic
def withdraw_messages(owner: ChatUser, numbers: Sequence[int], *, actor: str, reason: str) -> TopicEdit:
    """Withdraws these messages, archived or not, until ``give_back_messages``. Raises CurationError."""
    lock_owner(owner)
    mine = Message.objects.of(owner).filter(pk__in=numbers)
    edit = swap(owner, _without(owner, mine), kind=TopicEdit.Kind.WITHDRAW, actor=actor, reason=reason)
    mine.active().update(is_withdrawn=True)
    note_change(owner)
    return edit


@transaction.atomic
def give_back_messages(owner: ChatUser, edit: TopicEdit | None, numbers: Iterable[int], *, actor: str) -> None:
    """Takes back the edit that withdrew the messages, and gives back those that were in no topic. Without an edit all
    of them are then in none. Raises CurationError, as ``undo``."""
    lock_owner(owner)
    if edit is not None:
        _undo_last(owner, _chain(owner, edit), actor, "")
    Message.objects.of(owner).filter(pk__in=numbers, topic__isnull=True).update(is_withdrawn=False)
    note_change(owner)
    settle(owner)


MOST_EDITS = 500

_SQL = table_beside(__file__)
BLOCKERS: str = _SQL["blockers"]


@transaction.atomic
def undo(owner: ChatUser, edit: TopicEdit, *, actor: str, reason: str = "") -> TopicEdit:
    """Takes back what the edit did; for an undo, this redoes it. Raises Depends with the edits that have to be undone
    first, and CurationError when the edit cannot be undone or is undone already."""
    lock_owner(owner)
    made = _undo_last(owner, _chain(owner, edit), actor, reason)
    settle(owner)
    return made


def plan_undo(owner: ChatUser, edit: TopicEdit) -> Change:
    """The change that ``undo`` would make. It only reads, and raises what ``undo`` raises. The drafts are the topics
    that the edit retired, in the order of their numbers, with the messages they had."""
    chain = _chain(owner, edit)
    last = chain[-1]
    _check_undoable(owner, chain)
    put, out = _sides(last)
    if last.batch and _withdraws(chain):
        _check_nothing_archived_since(owner, last.batch, put)
    listed: dict[int, list[int]] = defaultdict(list)
    rows = TopicMessage.objects.filter(owner=owner, topic__in=out).order_by("message__sent_at", "message")
    for topic, message in rows.values_list("topic", "message"):
        listed[topic].append(message)
    summaries = dict(Topic.objects.of(owner).filter(pk__in=out).values_list("pk", "summary"))
    return Change(tuple(put), tuple(TopicDraft(summaries[number], tuple(listed[number])) for number in out))


@transaction.atomic
def undo_with_dependents(owner: ChatUser, edit: TopicEdit, *, actor: str, reason: str = "") -> list[TopicEdit]:
    """Undoes the edits that depend on this one, newest first, and then this one: all of them or none."""
    lock_owner(owner)
    chain = _chain(owner, edit)
    made = [_undo_last(owner, _chain(owner, later), actor, reason) for later in dependents(edit)]
    made.append(_undo_last(owner, chain, actor, reason))
    settle(owner)
    return made


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[TopicEdit]:
    """Takes back what ``by`` changed from ``since`` until before ``until``, newest first: all of it or nothing. What
    was already taken back stays so, and archives are not undone. Raises Depends when edits of other people, or of
    another time, depend on these, and CurationError when there is nothing or too much to undo."""
    lock_owner(owner)
    lasts, blocking = standing_between(owner, by, since, until)
    if not lasts:
        raise CurationError(_("This person made no change in that time that can be undone."))
    if blocking:
        raise _depends(blocking)
    made = [_undo_last(owner, _chain(owner, last), actor, reason) for last in lasts]
    settle(owner)
    return made


def standing_between(
    owner: ChatUser, by: str, since: datetime, until: datetime
) -> tuple[list[TopicEdit], list[TopicEdit]]:
    """What ``undo_between`` would undo, and which edits prevent it; both newest first. It only reads."""
    # The chains whose outcome these edits changed.
    edits = TopicEdit.objects.filter(owner=owner, actor=by, at__gte=since, at__lt=until)
    made = set(
        edits.exclude(kind=TopicEdit.Kind.ARCHIVE).order_by("-pk").values_list("pk", flat=True)[: MOST_EDITS + 1]
    )
    _check_count(len(made))
    ids = [chain[-1] for chain in _chains(owner.pk, list(made)) if change.flipped_by(chain, made)]
    lasts = list(TopicEdit.objects.filter(owner=owner, pk__in=ids).order_by("-pk"))
    return lasts, [edit for edit in _standing_on(owner.pk, ids) if edit not in lasts]


def dependents(edit: TopicEdit) -> list[TopicEdit]:
    """The later edits that have to be undone before this one, newest first; empty when there are none."""
    chain = _chains(edit.owner_id, [edit.pk])[0]
    return _standing_on(edit.owner_id, [chain[-1]])


def in_effect(owner_id: int, ids: Iterable[int]) -> dict[int, bool]:
    """For each of the owner's edits in ``ids``: whether it is in effect, or was taken back."""
    return change.in_effect(TopicEdit, owner_id, ids)


def is_again(edit: TopicEdit) -> bool:
    """Whether the edit took back an undo, and so did again what that had taken back."""
    return change.links(TopicEdit, edit.owner_id, [edit.pk])[edit.pk].is_again


def _chain(owner: ChatUser, edit: TopicEdit) -> list[TopicEdit]:
    """The edit with all edits of its chain, oldest first. Raises CurationError when it is already taken back."""
    ids = next(iter(_chains(owner.pk, [edit.pk])), ())
    if not ids:
        raise CurationError(_("There is no such edit in this memory."))
    if (len(ids) - ids.index(edit.pk)) % 2 == 0:
        raise CurationError(_("This change is undone already."))
    found = TopicEdit.objects.in_bulk(ids)
    return [found[number] for number in ids]


def _chains(owner_id: int, ids: Sequence[int]) -> list[tuple[int, ...]]:
    return change.chains(TopicEdit, owner_id, ids)


def _undo_last(owner: ChatUser, chain: Sequence[TopicEdit], actor: str, reason: str) -> TopicEdit:
    last = chain[-1]
    _check_undoable(owner, chain)
    put, out = _sides(last)
    # In the order in which the embedding of topics locks them.
    rows = Topic.objects.of(owner).filter(pk__in=[*put, *out]).order_by("pk").select_for_update(no_key=True)
    list(rows.values_list("pk", flat=True))
    made = TopicEdit(
        owner=owner, kind=TopicEdit.Kind.UNDO, undoes=last, actor=actor, reason=reason, batch_id=last.batch_id
    )
    if last.batch and _withdraws(chain):
        _check_nothing_archived_since(owner, last.batch, put)
    try:
        with transaction.atomic():
            exchange(made, put, out)
            if last.batch:
                # Messages that no topic holds: of an import that was withdrawn, or whose wordings were taken over.
                if chain[0].kind == TopicEdit.Kind.REWORD:
                    turn(owner, last.batch, is_taken=_does_again(chain))
                else:
                    (withdraw_active if _does_again(chain) else give_back_active)(owner, last.batch)
            # What the database would refuse at the end of the transaction, it refuses now.
            execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    except IntegrityError as error:
        # Only a change that a restored file claims can be so.
        raise CurationError(_("This change cannot be undone: a message would be in no topic, or in two.")) from error
    return made


def _check_undoable(owner: ChatUser, chain: Sequence[TopicEdit]) -> None:
    last, is_of_rule = chain[-1], chain[0].kind == TopicEdit.Kind.WITHDRAW and not chain[0].batch_id
    if last.kind == TopicEdit.Kind.ARCHIVE:
        raise CurationError(_("Archiving is not undone; withdraw the import, or merge and split the topics."))
    if is_of_rule and (len(chain) > 1 or last.expirybatch_set.exists()):
        raise CurationError(_("A rule set these messages aside: keep them on the page “What expires”."))
    blocking = _standing_on(owner.pk, [last.pk])
    if blocking:
        raise _depends(blocking)


def _does_again(chain: Sequence[TopicEdit]) -> bool:
    """Whether the undo of the chain's last edit redoes what its first edit did."""
    return len(chain) % 2 == 0


def _withdraws(chain: Sequence[TopicEdit]) -> bool:
    """Whether the undo of the chain's last edit withdraws an import again."""
    return _does_again(chain) and chain[0].kind != TopicEdit.Kind.REWORD


def _sides(edit: TopicEdit) -> tuple[list[int], list[int]]:
    sides: dict[str, list[int]] = defaultdict(list)
    rows = EditedTopic.objects.filter(owner=edit.owner_id, edit=edit).order_by("topic")
    for side, topic in rows.values_list("side", "topic"):
        sides[side].append(topic)
    return sides[EditedTopic.Side.IN], sides[EditedTopic.Side.OUT]


def _check_nothing_archived_since(owner: ChatUser, batch: ImportBatch, put: Sequence[int]) -> None:
    elsewhere = Message.objects.of(owner).filter(batch=batch, topic__isnull=False).exclude(topic__in=put)
    if elsewhere.exists():
        raise CurationError(_("More of this import was archived since; withdraw the import again."))


def _standing_on(owner_id: int, ids: Sequence[int]) -> list[TopicEdit]:
    """The edits that have to be undone before the edits ``ids``, newest first."""
    found: set[int] = set()
    edge = list(ids)
    while edge:
        edge = [number for (number,) in fetched(BLOCKERS, [owner_id, edge]) if number not in found]
        found.update(edge)
        _check_count(len(found))
    return list(TopicEdit.objects.filter(owner=owner_id, pk__in=found).order_by("-pk")) if found else []


def _check_count(count: int) -> None:
    if count > MOST_EDITS:
        raise CurationError(_("More than %(most)d edits would have to be undone together.") % {"most": MOST_EDITS})


def _depends(edits: Sequence[TopicEdit]) -> Depends:
    sentence = _("Later changes depend on this one and have to be undone first: %(edits)s.")
    named = ", ".join(f"{edit.get_kind_display()} ({edit.actor})" for edit in edits[:5])
    return Depends(sentence % {"edits": named + (", …" if len(edits) > 5 else "")}, edits)
