"""Brings chat messages into a memory: imports files, stores messages, archives sessions as topics.

In: a chat file or records of messages, and for archiving a *cutter* (the splitter, or the embedded segmenter). Out:
rows of messages, and live topics with their passages; ``search.vectors`` makes the vectors later. It imports
``importers``, ``curation`` (whose ``swap`` puts topics in), ``agent_calls``, ``prompt_versions``, ``chat_users``,
``work``, ``reading``, operations, the models and the engine; it builds no client.
"""
