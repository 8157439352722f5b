"""Topics changed by people: edited, merged, split, moved, withdrawn; and the undo of each change.

In: a ``ChangeRequest``, which names an operation (``operations``) and what it takes. Out: first a ``Change``, which
``plan`` computes without writing anything, then the ``TopicEdit`` that ``make`` makes of it. Only ``swap`` writes
topics; archiving calls it too. A topic never changes: an edit retires some topics and puts others in over the same
messages. Retired topics stay in the database, so an undo needs no model and a finished run still shows what the model
saw. It imports the models, locks, metrics and the engine; it builds no client."""

from memoryapp.curation.change import MERGER, ByHand, Change, CurationError, Depends, Stale
from memoryapp.curation.lineage import (
    Lineage,
    TopicStep,
    blame,
    come_from,
    former,
    former_of_each,
    heirs,
    lineage,
    moved_counts,
    successor_topics,
    successors,
)
from memoryapp.curation.operations import EDIT, LABEL, MERGE, MOVE, OPERATIONS, RESPLIT, SPLIT
from memoryapp.curation.operations.edit import plan_edit
from memoryapp.curation.operations.merge import plan_merge
from memoryapp.curation.operations.move import plan_move
from memoryapp.curation.operations.operation import ChangeRequest, Operation, make, plan
from memoryapp.curation.operations.resplit import plan_resplit, propose_split
from memoryapp.curation.operations.split import plan_split
from memoryapp.curation.rewording import reword, wordings
from memoryapp.curation.topic_writer import (
    extracted,
    extractive,
    first_taken_out,
    put_in,
    settled_by_hand,
    swap,
    taken_out,
)
from memoryapp.curation.undoing import (
    dependents,
    in_effect,
    is_again,
    plan_undo,
    plan_withdraw,
    standing_between,
    undo,
    undo_between,
    undo_with_dependents,
    withdraw,
)
