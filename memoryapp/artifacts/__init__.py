"""Files in a memory: how they arrive, and how what is in them becomes findable.

In: bytes that were uploaded or came with a query. Out: an ``Artifact`` with the text of its file, a summary, keywords
and names, found by recall like a person; of pictures and sound a chat model says what is in them (``describing``). What
a person edited of an artifact stays as they wrote it. It imports the rows, ``media``, ``documents``, ``agent_calls``,
``prompt_versions``, and from ``knowledge`` the lock under which people and artifacts change.
"""
