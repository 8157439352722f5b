"""Erasure of messages, a person or a whole chat user everywhere, with a receipt that allows to look for residue.

In: the numbers of what is to be erased. Out: an ``Erasure``, which the worker carries to its end whatever happens. It
may import curation, ingestion and knowledge, whose locks it takes and whose rows it restores to a valid state; the
scanner that checks it (``memoryapp/verification.py``) shares no code with it.
"""

from memoryapp.forgetting.course import (
    LOOK_AGAIN,
    MOST_MESSAGES,
    Nothing,
    begin,
    due,
    dumped,
    finish,
    look_again,
)
from memoryapp.forgetting.files import discardable
from memoryapp.forgetting.reach import Reach, Target, reach_of

__all__ = [
    "LOOK_AGAIN",
    "MOST_MESSAGES",
    "Nothing",
    "Reach",
    "Target",
    "begin",
    "discardable",
    "due",
    "dumped",
    "finish",
    "look_again",
    "reach_of",
]
