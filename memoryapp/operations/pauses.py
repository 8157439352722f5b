"""The end of work that a person paused, for whoever does the work and for the sweep that began it."""


class StagePaused(Exception):
    """This kind of work was paused while the worker was at it; what is done stays, the rest waits."""
