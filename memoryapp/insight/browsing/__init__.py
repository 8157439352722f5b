"""Data for pages that browse a memory: counts, months, neighbours, comparisons, the map of topics.

In: a chat user, a topic or a person. Out: frozen dataclasses for pages. Every function needs a fixed number of queries
however many rows are shown, and reads no unnecessary vectors or events. It writes nothing. It imports the models, the
engine and ``curation``, which knows the successors of topics."""
