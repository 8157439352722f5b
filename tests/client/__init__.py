"""The Python client of ``client/``: against the API's description, and its conduct when the network fails."""
