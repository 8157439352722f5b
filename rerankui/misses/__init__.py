"""Pages of misses: what an assistant forgot, from the miss to a repair that stays."""
