"""The operations of curation, each a value in a module of its own, and the one way in which they are made. In: a
``ChangeRequest``. Out: the ``Change`` that ``plan`` computes, or the edit that ``make`` makes. A new operation is its
module and its value in ``OPERATIONS``; form, interface for programs, agents and history follow by themselves."""

from memoryapp.curation.operations.edit import EDIT
from memoryapp.curation.operations.label import LABEL
from memoryapp.curation.operations.merge import MERGE
from memoryapp.curation.operations.move import MOVE
from memoryapp.curation.operations.operation import Operation
from memoryapp.curation.operations.resplit import RESPLIT
from memoryapp.curation.operations.split import SPLIT
from memoryapp.models.topic import OPERATION_KINDS

# By the name that is stored as the kind of their edits, in the order in which lists show them.
OPERATIONS: dict[str, Operation] = {}


def register(operation: Operation) -> None:
    """Adds the operation, and its kind of edits to those that a row may have."""
    OPERATIONS[operation.name] = operation
    OPERATION_KINDS[operation.name] = operation.words.done


for _each in (EDIT, MERGE, SPLIT, MOVE, RESPLIT, LABEL):
    register(_each)
