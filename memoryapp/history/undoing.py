"""All that one person changed in a time taken back, of topics and of people, facts and artifacts: all or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp import curation, knowledge
from memoryapp.curation import CurationError, Depends
from memoryapp.history.entries import Record, cursor_of
from memoryapp.models import ChatUser, KnowledgeEdit, TopicEdit


def standing_between(owner: ChatUser, by: str, since: datetime, until: datetime) -> tuple[list[Record], list[Record]]:
    """What ``undo_between`` would take back, and what stands in its way, each newest first.

    Raises CurationError when it is too much.
    """
    topics, topics_blocking = curation.standing_between(owner, by, since, until)
    others, others_blocking = knowledge.standing_between(owner, by, since, until)
    return _newest_first([*topics, *others]), _newest_first([*topics_blocking, *others_blocking])


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[Record]:
    """Takes back all that ``by`` changed from ``since`` until before ``until``: all of it or nothing.

    Raises Depends with what stands in the way, CurationError when there is nothing to undo or too much.
    """
    wanted, blocking = standing_between(owner, by, since, until)
    if not wanted:
        raise CurationError(_("They made no change in that time that can be undone."))
    if blocking:
        raise Depends(_("Later changes stand on these and have to be undone first."), blocking)
    made: list[Record] = []
    if any(isinstance(record, TopicEdit) for record in wanted):
        made += curation.undo_between(owner, by, since, until, actor=actor, reason=reason)
    if any(isinstance(record, KnowledgeEdit) for record in wanted):
        made += knowledge.undo_between(owner, by, since, until, actor=actor, reason=reason)
    return made


def _newest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=cursor_of, reverse=True)
