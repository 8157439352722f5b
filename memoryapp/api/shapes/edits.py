"""Edits: a page of them, and what an undo takes."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import BaseModel

from memoryapp.api.shapes.fields import KnownName, Reason, StrictBody, exemplified


class UndoBody(StrictBody):
    """An undo; the body may be empty."""

    model_config = exemplified(reason="they were two matters after all")

    reason: Reason = ""


class NightBody(StrictBody):
    """Which night: the one that began at noon of the day ``night``, without it the latest with merges that stand."""

    model_config = exemplified(user="anna", night="2026-03-02", reason="too eager")

    user: KnownName
    night: date | None = None
    reason: Reason = ""


class NightAnswer(BaseModel):
    """The ``merges`` of a night, made ``first`` to ``last``; ``edits`` are the undos, none for a rehearsal."""

    night: date
    first: datetime
    last: datetime
    merges: int
    edits: list[int]


class EditName(BaseModel):
    """An edit as a refusal names it."""

    id: int
    kind: str
    actor: str
    at: datetime


class Edit(EditName):
    """An edit: the first 200 topics it took ``out`` and ``put`` in, and the counts of all of them.

    ``stands`` is true if the edit is in effect today; an undo can be undone, and then the first edit stands again.
    """

    reason: str
    undoes: int | None
    undone_by: int | None
    stands: bool
    out: list[str]
    out_count: int
    put: list[str]
    put_count: int


class EditsAnswer(BaseModel):
    """Edits in the order in which they were made; ``next`` is the ``after`` of the following page, or null.

    To follow a memory, ask again with the last id received: no edit is ever added before it.
    """

    edits: list[Edit]
    next: int | None
