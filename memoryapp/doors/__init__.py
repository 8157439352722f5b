"""The ways in for programs: ``/v1``, ``/mcp``, the chat with a provider, and traces of other programs. Each checks what
comes, calls the domain, and shapes the answer."""
