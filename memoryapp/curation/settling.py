"""What became of suggestions, told by the topics and the edits, so that nobody has to remember to reopen one.

A suggestion is open while all its topics are live. One that an edit accepted is accepted while that edit stands: an
undo, wherever it is pressed, opens it again, and the undo of the undo accepts it again. Any other is outdated, until
its topics are back. What a person never wants to see again is left alone.
"""

from __future__ import annotations

from django.db import connection

from memoryapp.models import ChatUser

# Of the edits that accepted a suggestion only those count that were undone, and perhaps done again: an even number of
# later edits in their chain leaves them standing.
SETTLE = """
WITH RECURSIVE later AS (
    SELECT s.id AS suggestion, e.id AS edit FROM memoryapp_suggestion s
    JOIN memoryapp_topicedit e ON e.undoes_id = s.edit_id WHERE s.owner_id = %(owner)s
    UNION ALL
    SELECT later.suggestion, e.id FROM later JOIN memoryapp_topicedit e ON e.undoes_id = later.edit
), undone AS (
    SELECT suggestion, count(*) %% 2 = 0 AS stands FROM later GROUP BY suggestion
), settled AS (
    SELECT s.id, CASE
        WHEN NOT EXISTS (
            SELECT FROM jsonb_array_elements_text(s.topics) named (id)
            LEFT JOIN memoryapp_topic t ON t.id = named.id::bigint AND t.is_live
            WHERE t.id IS NULL
        ) THEN 'open'
        WHEN undone.stands THEN 'accepted'
        ELSE 'outdated'
    END AS state
    FROM memoryapp_suggestion s LEFT JOIN undone ON undone.suggestion = s.id
    WHERE s.owner_id = %(owner)s AND (s.state IN ('open', 'outdated') OR undone.suggestion IS NOT NULL)
)
UPDATE memoryapp_suggestion SET state = settled.state, held_by_id = NULL, held_at = NULL
FROM settled WHERE memoryapp_suggestion.id = settled.id AND memoryapp_suggestion.state <> settled.state
"""


def settle(owner: ChatUser) -> None:
    """Brings the owner's suggestions in line with their topics; for whoever changed topics or is about to propose."""
    with connection.cursor() as cursor:
        cursor.execute(SETTLE, {"owner": owner.pk})
