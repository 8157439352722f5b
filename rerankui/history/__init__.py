"""What was changed in a memory, and the undo of any of it."""
