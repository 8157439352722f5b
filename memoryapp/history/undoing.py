"""Undo of changes, of topics and of people, facts and artifacts alike: of one, or of all that one person made in a
period.

The undo of a withdrawn import also brings back the rows that came with its messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp import curation, extraction, knowledge
from memoryapp.curation import CurationError, Depends
from memoryapp.engine.agents import archivist
from memoryapp.history.entries import Record, cursor_of
from memoryapp.models import ChatUser, KnowledgeEdit, TopicEdit


@transaction.atomic
def undo_with_dependents(owner: ChatUser, record: Record, *, actor: str, reason: str = "") -> list[Record]:
    """Undoes the changes that depend on this one, newest first, and then this one: all of them or none.

    Raises CurationError.
    """
    if isinstance(record, KnowledgeEdit):
        return [*knowledge.undo_with_dependents(owner, record, actor=actor, reason=reason)]
    made = curation.undo_with_dependents(owner, record, actor=actor, reason=reason)
    for edit in made:
        _turn_rows(edit, reason)
    return [*made]


@transaction.atomic
def undo(edit: TopicEdit, *, actor: str, reason: str = "") -> TopicEdit:
    """Takes back what the edit did. Raises Depends with the edits that have to be undone first, CurationError."""
    made = curation.undo(edit.owner, edit, actor=actor, reason=reason)
    _turn_rows(made, reason)
    return made


def _turn_rows(made: TopicEdit, reason: str) -> None:
    """The rows of an import are removed or brought back with its messages."""
    first = made
    while first.undoes is not None:
        first = first.undoes
    if first.kind != TopicEdit.Kind.WITHDRAW or made.batch is None:
        return
    if curation.in_effect(made.owner_id, [first.pk])[first.pk]:
        knowledge.take_back(made.owner, made.batch, actor=made.actor, reason=reason)
    else:
        knowledge.give_back(made.owner, made.batch, actor=made.actor, reason=reason)


def standing_between(owner: ChatUser, by: str, since: datetime, until: datetime) -> tuple[list[Record], list[Record]]:
    """What ``undo_between`` would undo, and the changes that prevent it, both newest first.

    Raises CurationError when these are too many.
    """
    topics, topics_blocking = curation.standing_between(owner, by, since, until)
    others, others_blocking = knowledge.standing_between(owner, by, since, until)
    return _newest_first([*topics, *others]), _newest_first([*topics_blocking, *others_blocking])


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[Record]:
    """Undoes everything that ``by`` changed from ``since`` until before ``until``: all of it or nothing. What waits
    from the same answers of the archivist is rejected.

    Raises Depends with the changes that prevent it, CurationError when there is nothing or too much to undo.
    """
    wanted, blocking = standing_between(owner, by, since, until)
    if not wanted:
        raise CurationError(_("This person made no change in that time that can be undone."))
    if blocking:
        raise Depends(_("Later changes depend on these and have to be undone first."), blocking)
    made: list[Record] = []
    if any(isinstance(record, TopicEdit) for record in wanted):
        made += curation.undo_between(owner, by, since, until, actor=actor, reason=reason)
    if any(isinstance(record, KnowledgeEdit) for record in wanted):
        made += knowledge.undo_between(owner, by, since, until, actor=actor, reason=reason)
    if by == archivist.AGENT.name:
        answers = {record.call_id for record in wanted if isinstance(record, KnowledgeEdit)}
        extraction.reject_answers(owner, answers, actor=actor)
    return made


def _newest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=cursor_of, reverse=True)
