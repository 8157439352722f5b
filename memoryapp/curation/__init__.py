"""Topics changed by people: edited, merged, split, moved, withdrawn, and all of it undone.

A change is planned first (``plan_…``, which only reads) and then made by ``swap``, the one way topics are
written, also when messages are archived. Topics never change: some go out, others come in over the same
messages. What went out stays, so an undo needs no model and a finished run shows what the model saw.
"""

from memoryapp.curation.change import ByHand, Change, CurationError, Depends, Stale
from memoryapp.curation.lineage import Lineage, former, heirs, lineage, moved, successors
from memoryapp.curation.plans import (
    extractive,
    plan_edit,
    plan_merge,
    plan_move,
    plan_resplit,
    plan_split,
    propose_split,
)
from memoryapp.curation.swapping import put_in, settled_by_hand, swap, taken_out
from memoryapp.curation.undoing import (
    dependents,
    in_effect,
    plan_undo,
    standing_between,
    undo,
    undo_between,
    undo_with_dependents,
)
from memoryapp.curation.withdrawing import plan_withdraw, withdraw

__all__ = [
    "ByHand",
    "Change",
    "CurationError",
    "Depends",
    "Lineage",
    "Stale",
    "dependents",
    "extractive",
    "former",
    "heirs",
    "in_effect",
    "lineage",
    "moved",
    "plan_edit",
    "plan_merge",
    "plan_move",
    "plan_resplit",
    "plan_split",
    "plan_undo",
    "plan_withdraw",
    "propose_split",
    "put_in",
    "settled_by_hand",
    "standing_between",
    "successors",
    "swap",
    "taken_out",
    "undo",
    "undo_between",
    "undo_with_dependents",
    "withdraw",
]
