"""What a memory contains, as other rooms read it: rows as the engine takes them, files that came with queries, and the
chat users who may be added to."""
