"""Files in a memory: read, found by recall, and never written over what a person said of them."""
