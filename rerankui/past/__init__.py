"""Pages of an earlier moment: the head that names it, a memory at a glance, and what was not there yet."""
