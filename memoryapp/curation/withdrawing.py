"""Withdrawal of an import: its messages leave their topics, and every topic keeps its other messages.

The messages stay in the database, marked as withdrawn, in no topic and no session. So the withdrawal can be undone like
any other edit.
"""

from __future__ import annotations

from collections import defaultdict

from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp.curation.change import Change, CurationError
from memoryapp.curation.swapping import lock_owner, swap
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, ImportBatch, Message, Topic, TopicEdit
from memoryapp.sessions.passages import note_change


def plan_withdraw(owner: ChatUser, batch: ImportBatch, *, has_rows: bool = False) -> Change:
    """The change that withdrawing the import would make; it only reads. Raises CurationError, also when the import has
    no message left to withdraw, unless ``has_rows`` says that other rows would be withdrawn.
    """
    if batch.owner_id != owner.pk:
        raise CurationError(_("There is no such import in this memory."))
    if TopicEdit.objects.filter(owner=owner, batch=batch, kind=TopicEdit.Kind.REWORD).exists():
        raise CurationError(_("These are changed texts that were taken over: undo that in the history."))
    mine = Message.objects.of(owner).filter(batch=batch, is_withdrawn=False)
    if not (has_rows or mine.exists()):
        raise CurationError(_("This import has no messages that could be withdrawn."))
    touched = Topic.objects.of(owner).live().filter(pk__in=mine.filter(topic__isnull=False).values("topic"))
    summaries = dict(touched.order_by("started_at", "pk").values_list("pk", "summary"))
    rest: dict[int, list[int]] = defaultdict(list)
    kept = Message.objects.of(owner).filter(topic__in=list(summaries)).exclude(batch=batch)
    for topic, number in kept.in_order().values_list("topic", "pk"):
        rest[topic].append(number)
    drafts = (TopicDraft(summary, tuple(rest[pk])) for pk, summary in summaries.items() if pk in rest)
    return Change(tuple(summaries), tuple(drafts))


@transaction.atomic
def withdraw(owner: ChatUser, batch: ImportBatch, *, actor: str, reason: str = "", has_rows: bool = False) -> TopicEdit:
    """Withdraws the messages that the import brought, archived or not. ``has_rows`` says that other rows are withdrawn
    with them. Raises CurationError.
    """
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
    Message.objects.of(owner).filter(batch=batch, topic__isnull=True, is_withdrawn=True).update(is_withdrawn=False)
    note_change(owner)
