"""The exception that ends work which a person paused."""


class StagePaused(Exception):
    """This kind of work was paused while the worker did it; what is done stays, the rest waits."""
