"""Topics changed by people: edited, merged, split, moved, withdrawn; and the undo of each change.

In: topics, messages and what a person typed. Out: first a ``Change``, which a ``plan_…`` function makes without writing
anything, then the ``TopicEdit`` that ``swap`` makes of it. Nothing else writes topics; archiving calls ``swap`` too. A
topic never changes: an edit retires some topics and puts others in over the same messages. Retired topics stay in the
database, so an undo needs no model and a finished run still shows what the model saw. It imports the models, locks,
metrics and the engine; it builds no client.
"""

from memoryapp.curation.blame import Blame, SummaryVersion, TopicStep, blame
from memoryapp.curation.change import MERGER, ByHand, Change, CurationError, Depends, Stale
from memoryapp.curation.lineage import (
    Lineage,
    former,
    former_of_each,
    heirs,
    lineage,
    moved_counts,
    successor_topics,
    successors,
)
from memoryapp.curation.plans import (
    extracted,
    extractive,
    opening,
    plan_edit,
    plan_merge,
    plan_move,
    plan_resplit,
    plan_split,
    propose_split,
)
from memoryapp.curation.rewording import reword, wordings
from memoryapp.curation.swapping import first_taken_out, put_in, settled_by_hand, swap, taken_out
from memoryapp.curation.undoing import (
    dependents,
    in_effect,
    is_again,
    plan_undo,
    standing_between,
    undo,
    undo_between,
    undo_with_dependents,
)
from memoryapp.curation.withdrawing import plan_withdraw, withdraw

__all__ = [
    "MERGER",
    "Blame",
    "SummaryVersion",
    "TopicStep",
    "blame",
    "ByHand",
    "Change",
    "CurationError",
    "Depends",
    "Lineage",
    "Stale",
    "dependents",
    "extracted",
    "extractive",
    "opening",
    "first_taken_out",
    "former",
    "former_of_each",
    "heirs",
    "in_effect",
    "is_again",
    "lineage",
    "moved_counts",
    "plan_edit",
    "plan_merge",
    "plan_move",
    "plan_resplit",
    "plan_split",
    "plan_undo",
    "plan_withdraw",
    "propose_split",
    "put_in",
    "reword",
    "settled_by_hand",
    "standing_between",
    "successor_topics",
    "successors",
    "swap",
    "taken_out",
    "undo",
    "undo_between",
    "undo_with_dependents",
    "withdraw",
    "wordings",
]
