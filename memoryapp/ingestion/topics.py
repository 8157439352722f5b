"""Stores new topics over messages that are in no topic yet, with the passages by which search finds them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from memoryapp.content.reading import content
from memoryapp.curation.change import Change, CurationError, Stale
from memoryapp.curation.swapping import put_in, swap
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import AgentCall, ChatUser, Message, Topic, TopicEdit
from memoryapp.sessions.passages import settle


class IngestionError(Exception):
    """These topics cannot be made from these messages; the text is a sentence for people."""


class AlreadyArchived(IngestionError):
    """The messages were archived or erased meanwhile."""


@transaction.atomic
def put_topics(
    owner: ChatUser, drafts: Sequence[TopicDraft], *, actor: str, reason: str = "", call: AgentCall | None = None
) -> list[Topic]:
    """Stores new live topics over messages that are in no topic yet, with their passages, in one edit.

    ``call`` is the question to a model about these messages. ``vectors.embed_pending`` makes the vectors later.

    Raises IngestionError when a draft is empty or two drafts share a message, and AlreadyArchived when a message is in
    a topic now or was erased.
    """
    if not drafts:
        return []
    try:
        made = Change((), tuple(drafts))
        edit = swap(owner, made, kind=TopicEdit.Kind.ARCHIVE, actor=actor, reason=reason, by_hand=False, call=call)
    except Stale as error:
        raise AlreadyArchived(str(error)) from error
    except CurationError as error:
        raise IngestionError(str(error)) from error
    rows = Message.objects.of(owner).in_bulk([number for draft in drafts for number in draft.messages])
    parts = [sorted((rows[number] for number in draft.messages), key=_by_time) for draft in drafts]
    settle(owner, [[content(row) for row in part] for part in parts])
    return put_in(edit)


def _by_time(row: Message) -> tuple[datetime, int]:
    return row.sent_at, row.pk
