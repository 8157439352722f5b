"""Embedding endpoints: what they are asked, what they refuse, how their replies are read.

The profile of an embedder, and the protocol, are in ``memoryapp.engine.embeddings``.
"""
