"""HTTP and sockets around every page: compression, language, time zone, malformed input, limits, permitted origins.

In: a request or a socket's scope before its view sees it, or the response after. Out: the same passed on, or a refusal
with one sentence. These modules import Django, Channels and Daphne, and of the domain only the prefix and the refusals
of the API; they know no page."""
