"""What a person decides about the recall of a topic, a person or a fact: it is pinned, never recalled, or neither.

What is pinned is handed over with every recall; what is never recalled enters no candidates, no prompt and no context.
Each decision is a change in the history, with its reason and its undo.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from memoryapp.curation.change import CurationError
from memoryapp.knowledge.rows import MODELS, Kind, Noun, Row, noun_of
from memoryapp.knowledge.writing import lock, locked, make
from memoryapp.models import ChatUser, Fact, KnowledgeEdit, RecallMode

# What is pinned is sent with every query, so that there is room for little of it.
MOST_PINNED = {Noun.TOPIC: 10, Noun.PERSON: 20, Noun.FACT: 50}
MOST_NEVER = 500


@transaction.atomic
def decide_recall(owner: ChatUser, row: Row, recall: str, *, actor: str, reason: str = "") -> KnowledgeEdit:
    """Pins the row, keeps it from every recall, or, with an empty ``recall``, takes both back.

    Raises Stale for a topic that an edit replaced, CurationError for a past fact, for what can neither be pinned nor
    forgotten, when nothing would change, and when too much is pinned.
    """
    lock(owner)
    noun = noun_of(row)
    if noun not in MOST_PINNED or recall not in ("", *RecallMode.values):
        raise CurationError(_("Topics, people and facts can be pinned or never recalled, nothing else."))
    [current] = locked(owner, noun, [row.pk])
    if current.recall == recall:
        raise CurationError(_("Nothing would change."))
    if isinstance(current, Fact) and current.superseded_at is not None:
        raise CurationError(_("This is a past fact, which is not recalled."))
    _check_room(owner, noun, recall)
    number = str(row.pk)
    before, after = {number: {"recall": current.recall}}, {number: {"recall": recall}}
    change = KnowledgeEdit(owner=owner, kind=Kind.EDIT, noun=noun, actor=actor, reason=reason)
    change.before, change.after = before, after
    return make(change)


def decided(owner: ChatUser, noun: KnowledgeEdit.Noun) -> QuerySet[Any]:
    """The live topics, the people or the current facts of which somebody decided something, by number."""
    every: QuerySet[Any] = MODELS[noun]._default_manager.filter(owner=owner)
    rows = every.exclude(recall="").order_by("pk")
    if noun == Noun.TOPIC:
        return rows.filter(is_live=True)
    return rows.filter(superseded_at__isnull=True) if noun == Noun.FACT else rows


def _check_room(owner: ChatUser, noun: KnowledgeEdit.Noun, recall: str) -> None:
    most = {"": None, RecallMode.PINNED: MOST_PINNED[noun], RecallMode.NEVER: MOST_NEVER}[recall]
    if most is None or decided(owner, noun).filter(recall=recall).count() < most:
        return
    if recall == RecallMode.PINNED:
        sentence = _("At most %(most)d of these can be pinned in a memory; unpin one of them first.")
    else:
        sentence = _("At most %(most)d of these can be kept from recall in a memory; erase what is not wanted at all.")
    raise CurationError(sentence % {"most": most})
