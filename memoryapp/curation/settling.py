"""Keeps the states of suggestions in line with topics and edits, so that nobody has to reopen a suggestion by hand.

A suggestion is open while all its topics are live. A suggestion that an edit accepted stays accepted while that edit is
in effect: an undo, wherever it is made, opens the suggestion again, and the undo of the undo accepts it again. Any
other suggestion is outdated until its topics are back, unless they contain messages that a person decided to keep
apart. A suggestion that a person declined for good is never changed, and a merge that the program made and a person
undid is declined for good.
"""

from __future__ import annotations

from django.db import connection

from memoryapp.curation.change import MERGER
from memoryapp.models import ChatUser, Suggestion

# Whether the merge ``s`` would join what a person decided to keep apart: messages of both topics of a merge that was
# declined for good. Messages outlive every edit, so this also holds for later versions of the two topics.
KEPT_APART = """
s.kind = 'merge' AND EXISTS (
    SELECT FROM memoryapp_suggestion no
    CROSS JOIN LATERAL (VALUES (0, 1), (1, 0)) AS way (one, other)
    WHERE no.owner_id = s.owner_id AND no.kind = 'merge' AND no.state = 'never' AND no.id <> s.id
      AND EXISTS (
        SELECT FROM memoryapp_topicmessage was JOIN memoryapp_topicmessage now ON now.message_id = was.message_id
        WHERE was.topic_id = (no.topics ->> way.one)::bigint AND now.topic_id = (s.topics ->> 0)::bigint
      ) AND EXISTS (
        SELECT FROM memoryapp_topicmessage was JOIN memoryapp_topicmessage now ON now.message_id = was.message_id
        WHERE was.topic_id = (no.topics ->> way.other)::bigint AND now.topic_id = (s.topics ->> 1)::bigint
      )
)
"""
# Whether an edit that accepted a suggestion is in effect: the number of later edits in its chain is even. Only edits
# that were undone at some time need this check.
SETTLE = f"""
WITH RECURSIVE later AS (
    SELECT s.id AS suggestion, e.id AS edit FROM memoryapp_suggestion s
    JOIN memoryapp_topicedit e ON e.undoes_id = s.edit_id WHERE s.owner_id = %(owner)s
    UNION ALL
    SELECT later.suggestion, e.id FROM later JOIN memoryapp_topicedit e ON e.undoes_id = later.edit
), undone AS (
    SELECT suggestion, count(*) %% 2 = 0 AS stands FROM later GROUP BY suggestion
), settled AS (
    SELECT s.id, CASE
        WHEN NOT undone.stands AND s.decided_by = %(merger)s THEN 'never'
        WHEN EXISTS (
            SELECT FROM jsonb_array_elements_text(s.topics) named (id)
            LEFT JOIN memoryapp_topic t ON t.id = named.id::bigint AND t.is_live
            WHERE t.id IS NULL
        ) THEN CASE WHEN undone.stands THEN 'accepted' ELSE 'outdated' END
        WHEN s.state <> 'open' AND {KEPT_APART} THEN 'outdated'
        ELSE 'open'
    END AS state
    FROM memoryapp_suggestion s LEFT JOIN undone ON undone.suggestion = s.id
    WHERE s.owner_id = %(owner)s AND (s.state IN ('open', 'outdated') OR undone.suggestion IS NOT NULL)
)
UPDATE memoryapp_suggestion SET state = settled.state, held_by_id = NULL, held_at = NULL
FROM settled WHERE memoryapp_suggestion.id = settled.id AND memoryapp_suggestion.state <> settled.state
"""


def settle(owner: ChatUser) -> None:
    """Updates the owner's suggestions to the state of their topics; call it after a change and before proposing."""
    with connection.cursor() as cursor:
        cursor.execute(SETTLE, {"owner": owner.pk, "merger": MERGER})


def is_kept_apart(suggestion: Suggestion) -> bool:
    """Whether the merge would join what a person decided to keep apart, even if the topics have other numbers today."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {KEPT_APART} FROM memoryapp_suggestion s WHERE s.id = %s", [suggestion.pk])
        return bool(cursor.fetchone()[0])
