"""The doors for programs: messages in, questions answered, runs and topics read, all under ``/v1/``.

A door checks what it is given, calls one function of the memory and says what came of it in JSON. A token opens
it, never a session; every refusal is ``{"error": {"code", "message"}}``, in English whoever asks.
"""
