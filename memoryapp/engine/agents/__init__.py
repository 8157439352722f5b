"""Agents: a prompt, a schema and a reader of the answer, each one question to a model (``engine.conversation.Ask``).

In come messages or topics and a ``Chat``, out comes the ``Ask`` or its events. It imports the engine alone.
"""
