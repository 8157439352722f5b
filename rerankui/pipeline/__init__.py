"""The pages of background work: its stages, and work that was asked for with its progress."""
