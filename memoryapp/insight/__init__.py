"""What can be understood of a memory and its runs: why something was not found, runs compared, evaluation, counts and
maps, runs as files, and what an answer used. Nothing here changes a memory."""
