"""A page of edits, and the bodies and answers of an undo."""

from __future__ import annotations

from datetime import date, datetime

from memoryapp.api.shapes.fields import Answer, KnownName, Reason, StrictBody, TopicName, exemplified


class UndoBody(StrictBody):
    """The reason of an undo; the body may be empty."""

    model_config = exemplified(reason="they were two matters after all")

    reason: Reason = ""


class NightBody(StrictBody):
    """The night that began at noon of the day ``night``; without it, the latest night with merges still in effect."""

    model_config = exemplified(user="anna", night="2026-03-02", reason="too eager")

    user: KnownName
    night: date | None = None
    reason: Reason = ""


class NightAnswer(Answer):
    """The count of ``merges`` in a night, ``first`` to ``last``; ``edits`` are the undos, none with ``dry_run``."""

    night: date
    first: datetime
    last: datetime
    merges: int
    edits: list[int]


class EditName(Answer):
    """An edit, as a refusal names it."""

    id: int
    kind: str
    actor: str
    at: datetime


class Edit(EditName):
    """An edit: the first 200 topics that it took ``out`` and ``put`` in, and the counts of all of them.

    ``stands`` is true if the edit is in effect now. An undo can be undone; then the first edit is in effect again.
    """

    reason: str
    undoes: int | None
    undone_by: int | None
    stands: bool
    out: list[TopicName]
    out_count: int
    put: list[TopicName]
    put_count: int


class EditsAnswer(Answer):
    """Edits in the order in which they were made; ``next`` is the ``after`` of the following page, or null.

    To follow a memory, ask again with the last id as ``after``: no edit is ever added before it.
    """

    edits: list[Edit]
    next: int | None
