"""Django's administration: shows every row, and changes rows through the domain's functions.

In: requests of an admin or a superuser, because it shows every chat user's memory. Out: Django's pages. Topics, people,
facts and artifacts are changed through the functions that the pages use, with history and undo; rows that only the
program may write (messages, passages, vectors, runs) are read-only. It may import every domain module; only
Django imports it.
"""

from memoryapp.admin import knowledge, operators, rows, topics

__all__ = ["knowledge", "operators", "rows", "topics"]
