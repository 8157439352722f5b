"""Files in a memory: how they arrive, and how what is in them becomes findable.

In: bytes that were uploaded or came with a query. Out: an ``Artifact`` with the text of its file, a summary, keywords
and names, found by recall like a person. What a person edited of an artifact stays as they wrote it. It imports the
rows, ``media``, ``documents``, and from ``knowledge`` the lock under which people and artifacts change.
"""
