"""A memory as other rooms read it: its rows as values of the engine, its active sessions, what it was at a moment, and
the texts of files. Nothing here changes a topic. It imports the platform and what is below."""
