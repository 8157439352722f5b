"""Erasure of messages, a person or a whole chat user everywhere, with a receipt, and the scanner that checks it.

In: the numbers of what is to be erased, or a chat user. Out: an ``Erasure``, which the worker carries to its end
whatever happens, and the places in which the ``scanner`` still finds erased words. ``lifecycle`` orders the steps:
``cutting`` finds what is concerned and deletes it, ``chat_user`` a whole memory; ``marks`` makes the words recognisable
without storing them and redacts by them, ``conversations`` redacts what quotes them.

The room may import curation, ingestion, knowledge and import_files, whose locks it takes and whose rows it restores to
a valid state. The scanner imports nothing of this room: it must find what a mistake here leaves behind. Rooms that add
to a memory do not import this one; they ask ``chat_users`` whether the chat user is being erased.
"""

from memoryapp.erasure.chat_user import begin_user, discardable, holding
from memoryapp.erasure.cutting import Reach, Target, reach_of
from memoryapp.erasure.lifecycle import LOOK_AGAIN, NothingToErase, begin, compare, due, dumped, finish, uncompared
