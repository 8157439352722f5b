"""The door for agents: the Model Context Protocol at ``/mcp`` and ``/mcp/<user>``, with the tokens of the API.

In: requests of MCP clients. Out: what tools answer. A tool checks its arguments, calls a function of the API, and says
the result in words and as values; questions are runs with a page. The protocol itself is that of the official package
``mcp``, which is optional and imported when the first request comes. Only the addresses of the project import the room.
"""
