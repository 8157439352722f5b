"""Pages of runs: the form that asks a memory, the list of runs, one run live or in replay, and its parts."""
