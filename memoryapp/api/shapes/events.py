"""Events as lines of JSON: one shape for each kind, derived from the event's own class."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel, create_model

from memoryapp.engine.events import KINDS


def _line(kind: str, event: type[Any]) -> type[BaseModel]:
    """Returns the shape of an event of this kind; its ``payload`` is also the data of a server-sent event."""
    of_this_kind: Any = Literal[kind]
    return create_model(
        f"{event.__name__}Line",
        seq=(Annotated[int, Field(ge=1)], ...),
        kind=(of_this_kind, ...),
        at=(datetime, ...),
        payload=(event, ...),
    )


_ANY_LINE = reduce(or_, (_line(kind, event) for kind, event in KINDS.items()))


class EventLine(RootModel[Annotated[_ANY_LINE, Field(discriminator="kind")]]):  # type: ignore[valid-type]
    """``seq`` counts from 1 without gaps; the kind of the last event is ``run_finished``."""
