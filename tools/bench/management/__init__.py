"""The command of this room."""
