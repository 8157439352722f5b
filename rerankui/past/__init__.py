"""Pages of an earlier moment: the head that names it, lists of what was known then, and what was not there yet."""
