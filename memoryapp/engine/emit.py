"""How a stage of a run reports what happens in it: it calls ``emit``, and returns its value. Nothing waits inside
``emit``. Whoever executes the stage decides where the events go; they come in order."""

from collections.abc import Callable

from memoryapp.engine.events import Event, ModelProgress

Emit = Callable[[Event | ModelProgress], None]


def unheard(event: Event | ModelProgress) -> None:
    """For a stage whose events nobody wants."""
