"""Chat messages on their way into a memory: files imported, messages stored, sessions archived as topics.

In: a chat file or records of messages, and for archiving a *cutter* (the splitter, or the embedded segmenter). Out:
rows of messages, and live topics with their passages. Vectors follow later, see ``search.vectors``. It imports
``importers``, ``curation``, by whose ``swap`` topics are put in, ``agent_calls``, ``prompt_versions``, ``erasure``,
``work``, ``reading``, operations, the models and the engine; it builds no client.
"""
