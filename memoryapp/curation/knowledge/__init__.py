"""Changes of people, facts and artifacts, and of how these and topics are recalled, with history and undo.

In: rows, and the values that a person typed. Out: a ``KnowledgeEdit``, which contains the values before and after by
the number of the row: for a row that stays only the changed fields, for one that is created or deleted all of them. It
imports the models, the locks, and from ``curation`` the errors, bounds and undo chains that both histories share."""

from memoryapp.curation.knowledge.edits import (
    MOST_MERGED,
    MOST_PINNED,
    add,
    brought,
    create,
    decide_recall,
    decided,
    delete,
    edit,
    merge_people,
    merged,
    merges_into,
    move_name,
    number_made,
    replace,
    supersede,
    take_back,
)
from memoryapp.curation.knowledge.undoing import (
    dependents,
    give_back,
    standing_between,
    undo,
    undo_between,
    undo_with_dependents,
)
from memoryapp.curation.knowledge.writing import (
    EDITABLE,
    LISTS,
    MODELS,
    Row,
    check,
    cleaned,
    is_recordable,
    lock,
    recorded_fields,
)
