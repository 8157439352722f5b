"""Changes of people, facts and artifacts, and of how these and topics are recalled, with history and undo.

In: rows, and the values that a person typed. Out: a ``KnowledgeEdit``, which contains the values before and after by
the number of the row: for a row that stays only the changed fields, for one that is created or deleted all of them. It
imports the models, the locks, and from ``curation`` the errors, bounds and undo chains that both histories share.
"""

from memoryapp.knowledge.edits import (
    MOST_MERGED,
    add,
    brought,
    create,
    delete,
    edit,
    merge_people,
    merged,
    number_made,
    replace,
    supersede,
    take_back,
)
from memoryapp.knowledge.parting import merges_into
from memoryapp.knowledge.recalling import MOST_PINNED, decide_recall, decided
from memoryapp.knowledge.rows import EDITABLE, LISTS, MODELS, Row, is_recordable, recorded_fields
from memoryapp.knowledge.undoing import (
    dependents,
    give_back,
    standing_between,
    undo,
    undo_between,
    undo_with_dependents,
)
from memoryapp.knowledge.values import check, cleaned
from memoryapp.knowledge.writing import lock

__all__ = [
    "EDITABLE",
    "LISTS",
    "MODELS",
    "MOST_MERGED",
    "MOST_PINNED",
    "Row",
    "add",
    "brought",
    "check",
    "cleaned",
    "create",
    "decide_recall",
    "decided",
    "delete",
    "dependents",
    "edit",
    "give_back",
    "is_recordable",
    "lock",
    "merge_people",
    "merged",
    "merges_into",
    "number_made",
    "recorded_fields",
    "replace",
    "standing_between",
    "supersede",
    "take_back",
    "undo",
    "undo_between",
    "undo_with_dependents",
]
