"""The bodies, answers and parameters of the API, with a module for each router and `fields` for what they share.

In: JSON. Out: checked values, and the schemas of the OpenAPI document. Bodies are checked against these shapes; answers
are made by the routers and only described here, and a test compares both. The package imports pydantic, the bounds that
domain modules declare, and the events, but nothing that reads a row.
"""
