"""The HTTP API under ``/v1/``: messages in, questions answered, runs and topics read and changed.

In: requests with a token; a login session does not replace it. Out: JSON in English; every refusal is
``{"error": {"code", "message"}}``. An endpoint checks its input, calls one function of the domain and describes the
result. The room may import every domain module; only the addresses of the project import it.

The shapes of a router (bodies and answers) are in the module of the same name under ``shapes``."""
