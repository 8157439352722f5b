"""Speaking to chat models: the protocol, the client of OpenAI-compatible endpoints, and what an endpoint can do.

In comes a ``ChatRequest``, out come what happens on the way and a ``Reply``. It imports events and values of the
engine, and httpx; conversations stand above it in ``engine.conversation``.
"""
