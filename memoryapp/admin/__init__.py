"""Every row in Django's admin: to look at, and to change what has a function for it.

It shows every chat user's memory, so only who may see everyone enters: the role admin, or a superuser. Topics,
people, facts and artifacts are changed through the functions the pages use, with history and undo; what is only
right when a program writes it (messages, passages, vectors, runs) can be read here and nothing more.
"""

from memoryapp.admin import knowledge, operators, rows, topics

__all__ = ["knowledge", "operators", "rows", "topics"]
