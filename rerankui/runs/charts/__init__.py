"""Pictures of runs, drawn by the server; each says the same as the table behind it."""
