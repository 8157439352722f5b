"""Files in a memory: read, found by recall, and never written over people's own descriptions."""
