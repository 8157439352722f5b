"""The active sessions of a memory: messages that are in no topic yet, as searches and runs know them.

In: rows of messages. Out: ``cutting`` divides them into sessions, ``active`` reads sessions and gives each a number,
``passages`` keeps the passages by which search finds them. An active session is named after its first message:
``Session:17``; wherever topics have numbers, its number is -17 (``engine.memory.topic_id``). When it is archived, its
name leads to the topics that its messages are in. It imports the engine, the models, operations, reading and
chat_users.
"""
