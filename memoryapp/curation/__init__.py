"""Topics changed by people: edited, merged, split, moved, withdrawn, and all of it undone.

In: topics, messages and the words of a person. Out: a ``Change``, planned by a ``plan_…`` function, which only reads,
and then the ``TopicEdit`` that ``swap`` makes of it: the one way topics are written, also when messages are archived.
Topics never change: some go out, others come in over the same messages. What went out stays, so an undo needs no
model and a finished run shows what the model saw. It imports the models, locks, metrics and the engine; it builds no
client.
"""

from memoryapp.curation.change import MERGER, ByHand, Change, CurationError, Depends, Stale
from memoryapp.curation.lineage import Lineage, former, heirs, lineage, moved, successor_topics, successors
from memoryapp.curation.plans import (
    extractive,
    plan_edit,
    plan_merge,
    plan_move,
    plan_resplit,
    plan_split,
    propose_split,
)
from memoryapp.curation.rewording import reword, wordings
from memoryapp.curation.swapping import put_in, settled_by_hand, swap, taken_out
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
    "is_again",
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
