"""What people look up while they look through a memory: counts, months, neighbours, comparisons, the map of topics.

In: a chat user, a topic or a person. Out: frozen dataclasses for pages to show. Every function costs a fixed number
of queries however many rows are shown, and reads no vector and no event that it does not need. Nothing is written
here. It imports the models, the engine and ``curation``, which knows what became of a topic.
"""
