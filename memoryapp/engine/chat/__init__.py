"""Chat models: the protocol, the client for OpenAI-compatible endpoints, and what an endpoint can do. In comes a
``ChatRequest``; out come events on the way, and a ``Reply``. It imports events and values of the engine, and httpx.
``engine.conversation`` uses it and is never imported by it."""
