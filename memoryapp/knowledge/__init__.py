"""What was distilled from messages (people, facts, artifacts) changed, with history and undo.

In: rows, and the values a person typed. Out: a ``KnowledgeEdit``, which holds the values before and after by the
number of the row: of a row that stays only the fields that change, of one that comes or goes all of them. It imports
the models, the locks, and from ``curation`` the errors, bounds and undo chains that both histories share.
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
    take_back,
)
from memoryapp.knowledge.rows import EDITABLE, LISTS, MODELS, Row
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
    "Row",
    "add",
    "brought",
    "check",
    "cleaned",
    "create",
    "delete",
    "dependents",
    "edit",
    "give_back",
    "lock",
    "merge_people",
    "merged",
    "number_made",
    "replace",
    "standing_between",
    "take_back",
    "undo",
    "undo_between",
    "undo_with_dependents",
]
