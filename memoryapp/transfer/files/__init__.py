"""Files that people uploaded on the page of imports, until they are imported, restored or removed.

In: an uploaded file, a person's answers and decisions. Out: its row with the findings, and messages or a whole memory.
It imports ingestion, which rehearses and imports chats, and transfer, which restores memories.
"""

from memoryapp.transfer.files.files import (
    FileActionRefused,
    answer,
    batches,
    begin,
    clear,
    discard,
    pause,
    stage,
    unfinished,
)
from memoryapp.transfer.files.working import MOST_USERS, fail, work_on

__all__ = [
    "MOST_USERS",
    "FileActionRefused",
    "answer",
    "batches",
    "begin",
    "clear",
    "discard",
    "fail",
    "pause",
    "stage",
    "unfinished",
    "work_on",
]
