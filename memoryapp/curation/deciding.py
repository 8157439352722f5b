"""Decisions about suggestions: the first one counts."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation.change import CurationError
from memoryapp.curation.settling import settle
from memoryapp.models import ChatUser, Suggestion, TopicEdit

State = Suggestion.State


class SuggestionDecided(CurationError):
    """Somebody already decided about the suggestion, or its topics no longer exist."""


@transaction.atomic
def close(
    owner: ChatUser,
    suggestions: Collection[Suggestion],
    state: Suggestion.State,
    *,
    actor: str,
    edit: TopicEdit | None = None,
) -> list[Suggestion]:
    """Closes them as accepted, by ``edit``, or as declined for good. Raises SuggestionDecided if one is not open.

    Other suggestions about topics that the edit retired are closed with them. Returns them as they are now.
    """
    numbers = [suggestion.pk for suggestion in suggestions]
    rows = Suggestion.objects.filter(owner=owner, pk__in=numbers).order_by("pk")
    for row in rows.select_for_update():
        if row.state != State.OPEN:
            raise SuggestionDecided(decision_words(row))
    by = {"decided_by": actor[:200], "decided_at": timezone.now(), "edit": edit}
    rows.update(state=state, held_by=None, held_at=None, **by)
    if edit is not None:
        settle(owner)
    return list(rows)


def decision_words(row: Suggestion) -> str:
    """Who decided about it, and how."""
    if row.state == State.OUTDATED:
        return _("This suggestion is outdated: its topics have changed meanwhile.")
    return _("%(name)s decided about this already: %(state)s.") % {
        "name": row.decided_by,
        "state": row.get_state_display(),
    }
