"""Files in a memory: how they arrive, and how their content becomes searchable.

In: bytes that were uploaded or came with a query. Out: an ``Artifact`` with the text of its file, a summary, keywords
and names, which search finds like a person; a chat model describes pictures and sound (``describing``). What a person
edited in an artifact is never overwritten. It imports the models, ``media``, ``documents``, ``agent_calls``,
``prompt_versions``, and from ``knowledge`` the lock under which people and artifacts change.
"""
