"""Agents: each asks a chat model one bounded question and reads its answer. One module an agent.

In come messages, topics or a file, and a ``Chat``; out comes an ``Ask`` (module ``ask``), which holds the question and
afterwards its answer. ``enricher``, ``splitter``, ``merger``, ``archivist``, ``describer`` and ``paraphraser`` are the
agents; ``message_lines`` and ``small_topics`` are parts that several of them use. An agent changes nothing and imports
the engine alone.
"""
