"""Prompts as values: texts in two languages with variables, and their words for people.

``prompt`` says what a prompt is. Each lies beside the agent or the strategy that sends it; ``rerank`` is here, because
the embedded scorer reads it too. ``variables`` are those of several prompts, ``language`` is what depends on the
language alone. The room imports values and texts of the engine, no agent and no strategy; ``engine.prompt_registry``
lists all prompts."""
