"""Keeps the states of suggestions in line with topics and edits, so that nobody has to reopen a suggestion by hand.

A suggestion is open while all its topics are live. A suggestion that an edit accepted stays accepted while that edit is
in effect: an undo, wherever it is made, opens the suggestion again, and the undo of the undo accepts it again. Any
other suggestion is outdated until its topics are back, unless they contain messages that a person decided to keep
apart. A suggestion that a person declined for good is never changed, and a merge that the program made and a person
undid is declined for good.
"""

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
# A statement of its own, before the other: what a person undid keeps other merges apart at once.
DECLINE = f"""
{_UNDONE}
UPDATE memoryapp_suggestion s SET state = 'never', held_by_id = NULL, held_at = NULL
FROM undone
WHERE s.id = undone.suggestion AND NOT undone.stands AND s.decided_by = %(merger)s AND s.state <> 'never'
"""
SETTLE = f"""
{_UNDONE}, {_APART}, settled AS (
    SELECT s.id, CASE
        WHEN NOT undone.stands AND s.decided_by = %(merger)s THEN 'never'
        WHEN EXISTS (
            SELECT FROM jsonb_array_elements_text(s.topics) named (id)
            LEFT JOIN memoryapp_topic t ON t.id = named.id::bigint AND t.is_live
            WHERE t.id IS NULL
        ) THEN CASE WHEN undone.stands THEN 'accepted' ELSE 'outdated' END
        WHEN s.id IN (SELECT id FROM apart) THEN 'outdated'
        ELSE 'open'
    END AS state
    FROM memoryapp_suggestion s LEFT JOIN undone ON undone.suggestion = s.id
    WHERE s.owner_id = %(owner)s AND (s.state IN ('open', 'outdated') OR undone.suggestion IS NOT NULL)
)
UPDATE memoryapp_suggestion SET state = settled.state, held_by_id = NULL, held_at = NULL
FROM settled WHERE memoryapp_suggestion.id = settled.id AND memoryapp_suggestion.state <> settled.state
"""
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
