"""The HTTP API under ``/v1/``: messages in, questions answered, runs and topics read and changed.

In: requests with a token; a session is no substitute. Out: JSON in English; every refusal is
``{"error": {"code", "message"}}``. An endpoint checks its input, calls one function of the domain and describes the
result. The room may import every domain module; nothing but the addresses of the project imports it.

Each router has its shapes (bodies and answers) in the module of its name under ``shapes``.
"""
