"""The models that come with the program and need no network: sentence vectors, the scorer that takes the place of a
chat model, and the segmenter of sessions. In come texts or a ``ChatRequest``, out come vectors, a ``Reply`` or drafts
of topics. It imports the engine, numpy and the encoder's package."""
