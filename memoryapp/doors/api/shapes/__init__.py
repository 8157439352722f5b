"""The bodies, answers and parameters of the API, with a module for each router and `fields` for what they share.

In: JSON, rows and values of the domain. Out: checked values, answers, and the schemas of the OpenAPI document. Bodies
are checked against these shapes, and answers are read from what the domain gives; a key that a shape lacks is a fault.
The package imports pydantic, the bounds that domain modules declare, and the events, but nothing that asks the
database."""
