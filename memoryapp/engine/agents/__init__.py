"""Agents: each asks a chat model one bounded question and reads its answer. One module an agent.

In come messages, topics or a file, and a ``Chat``; out comes an ``Ask`` (module ``ask``), which holds the question and
afterwards its answer. Each has its prompts and a value ``AGENT``, which is listed here; ``enricher`` and ``verifier``
have none, because they are asked within runs, whose strategies list their prompts. ``message_lines``, ``small_topics``,
``rewrites`` and ``summary_checks`` are parts that agents use. An agent changes nothing and imports the engine alone."""

from memoryapp.engine.agents import archivist, describer, merger, paraphraser, splitter
from memoryapp.engine.agents.ask import Agent

AGENTS: dict[str, Agent] = {
    agent.name: agent for agent in (splitter.AGENT, merger.AGENT, archivist.AGENT, describer.AGENT, paraphraser.AGENT)
}
