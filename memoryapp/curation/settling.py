"""Keeps the states of suggestions in line with topics and edits, so that nobody has to reopen a suggestion by hand.

A suggestion is open while all its topics are live. A suggestion that an edit accepted stays accepted while that edit is
in effect: an undo, wherever it is made, opens the suggestion again, and the undo of the undo accepts it again. Any
other suggestion is outdated until its topics are back, unless they contain messages that a person decided to keep
apart. A suggestion that a person declined for good is never changed, and a merge that the program made and a person
undid is declined for good."""

from collections.abc import Collection

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation.change import MERGER, CurationError
from memoryapp.engine.beside import table_beside
from memoryapp.models import ChatUser, Suggestion, TopicEdit
from memoryapp.platform.statements import execute, fetched

_SQL = table_beside(__file__)
_APART: str = _SQL["apart"]
_UNDONE: str = _SQL["undone"]
DECLINE: str = _SQL["decline"].format(undone=_UNDONE)
SETTLE: str = _SQL["settle"].format(undone=_UNDONE, apart=_APART)
KEPT_APART = f"WITH {_APART} SELECT EXISTS (SELECT FROM apart WHERE id = %(suggestion)s)"


def settle(owner: ChatUser) -> None:
    """Updates the owner's suggestions to the state of their topics; call it after a change and before proposing."""
    values: dict[str, int | str] = {"owner": owner.pk, "merger": MERGER}
    execute(DECLINE, values)
    execute(SETTLE, values)


def is_kept_apart(suggestion: Suggestion) -> bool:
    """Whether the merge would join what a person decided to keep apart, even if the topics have other numbers today."""
    return bool(fetched(KEPT_APART, {"owner": suggestion.owner_id, "suggestion": suggestion.pk})[0][0])


# Decisions about suggestions: the first one counts.

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
    """Closes them as accepted, by ``edit``, or as declined for good. Raises SuggestionDecided if one is not open. Other
    suggestions about topics that the edit retired are closed with them. Returns them as they are now."""
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
