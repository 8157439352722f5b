"""Invariants of the stored memory, as database queries for the rows that break them.

Each invariant is one set-based query that returns nothing on a healthy database. Ownership is read from the models, so
a new relation is checked without a change here. Only the events of runs are read one by one, because only
``recording.finished_columns`` knows what a run's row must contain."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.db.models import QuerySet

from memoryapp.curation import knowledge
from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import RunFinished, from_payload
from memoryapp.models import ChatUser, Message, Passage, PassageVector, Run, RunEvent, Topic, TopicVector
from memoryapp.models.user import Owned
from memoryapp.runs.journal import finished_columns

MOST_A_KIND = 1000
# Any part of a memory that is being erased may already be deleted.
STANDING = "x.owner_id NOT IN (SELECT id FROM memoryapp_chatuser WHERE erasing_since IS NOT NULL)"
COUNTED: dict[str, type[Owned]] = {
    "messages": Message,
    "topics": Topic,
    "passages": Passage,
    "passage_vectors": PassageVector,
    "topic_vectors": TopicVector,
    "runs": Run,
    "events": RunEvent,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A row that breaks an invariant: ``subject`` names it (``Topic:42``), ``sentence`` says how."""

    invariant: str
    subject: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """``query`` selects the id of each broken row of ``subject``, and the values in ``sentence``. In the query,
    ``{mine}`` restricts its first table, called ``x``, to the requested owner."""

    name: str
    subject: str
    sentence: str
    query: str


def _sides_of(noun: str) -> str:
    """Selects the numbers and values on both sides of the changes of a noun, as ``x`` with ``key`` and ``value``."""
    return f"""memoryapp_knowledgeedit x
           CROSS JOIN LATERAL (SELECT * FROM jsonb_each(x.before) UNION ALL SELECT * FROM jsonb_each(x.after)) side
           WHERE x.noun = '{noun}' AND jsonb_typeof(x.before) = 'object' AND jsonb_typeof(x.after) = 'object'"""


def _of_history(noun: str, table: str, names: Iterable[str]) -> Iterator[Invariant]:
    """What every change of a noun keeps to: the rows of its memory, and the values that the history stores."""
    listed = ", ".join(f"'{name}'" for name in sorted(names))
    yield Invariant(
        f"history_of_own_{noun}",
        "KnowledgeEdit",
        f"it changes {noun} {{row}}, which is chat user {{whose}}'s",
        f"""SELECT DISTINCT side.id, r.id AS row, r.owner_id AS whose
           FROM (SELECT x.id, x.owner_id, side.key FROM {_sides_of(noun)} AND {{mine}}) side
           JOIN {table} r ON r.owner_id <> side.owner_id
           AND r.id = CASE WHEN side.key ~ '^[0-9]{{{{1,18}}}}$' THEN side.key::bigint END""",
    )
    yield Invariant(
        f"history_of_{noun}_values",
        "KnowledgeEdit",
        "it would write {name}, which no change can",
        f"""SELECT DISTINCT side.id, name
           FROM (SELECT x.id, side.value FROM {_sides_of(noun)} AND jsonb_typeof(side.value) = 'object'
                 AND {{mine}}) side
           CROSS JOIN LATERAL jsonb_object_keys(side.value) name WHERE name NOT IN ({listed})""",
    )


INVARIANTS = (
    *(Invariant(name, **parts) for name, parts in table_beside(__file__).items()),
    *(
        invariant
        for noun, model in knowledge.MODELS.items()
        for invariant in _of_history(noun, model._meta.db_table, knowledge.recorded_fields(noun))
    ),
)


def violations(owner: ChatUser | None = None) -> Iterator[Violation]:
    """Everything that is wrong with the memory of ``owner``, or of all; at most a thousand violations of each kind."""
    for invariant in INVARIANTS:
        yield from _broken(invariant, owner)
    yield from _foreign(owner)
    yield from _miscounted(owner)


def counted(owner: ChatUser | None = None) -> dict[str, int]:
    """Returns how many rows of each kind were checked."""
    return {name: _of(model, owner).count() for name, model in COUNTED.items()}


def _of(model: type[Owned], owner: ChatUser | None) -> QuerySet[Any]:
    rows = model._default_manager.filter(owner__erasing_since__isnull=True)
    return rows if owner is None else rows.filter(owner=owner)


def _broken(invariant: Invariant, owner: ChatUser | None) -> Iterator[Violation]:
    mine = STANDING if owner is None else "x.owner_id = %s"
    query = f"{invariant.query.format(mine=mine)} LIMIT {MOST_A_KIND}"
    with connection.cursor() as cursor:
        cursor.execute(query, [] if owner is None else [owner.pk])
        names = [column.name for column in cursor.description]
        for row in cursor.fetchall():
            sentence = invariant.sentence.format(**dict(zip(names, row, strict=True)))
            yield Violation(invariant.name, f"{invariant.subject}:{row[0]}", sentence)


def _foreign(owner: ChatUser | None) -> Iterator[Violation]:
    """Rows that refer to a row of another chat user."""
    mine = STANDING if owner is None else "x.owner_id = %(owner)s"
    with connection.cursor() as cursor:
        cursor.execute(_foreign_query().replace("{mine}", mine), {"owner": owner.pk if owner else None})
        for model, pk, relation, first, second in cursor.fetchall():
            sentence = f"it is chat user {first}'s, but its {relation} is chat user {second}'s"
            yield Violation("one_owner", f"{model}:{pk}", sentence)


@cache
def _foreign_query() -> str:
    """One statement for all relations: sending one for each takes longer than answering them."""
    return " UNION ALL ".join(
        f"""(SELECT '{model.__name__}', x."{model._meta.pk.column}"::text, '{field.name}', x.owner_id,
             {_whose(field)[0]} FROM "{model._meta.db_table}" x LEFT JOIN "{field.related_model._meta.db_table}" y
             ON y.owner_id = x.owner_id AND y."{field.target_field.column}" = x."{field.column}" {_whose(field)[1]}
             WHERE x."{field.column}" IS NOT NULL AND y.owner_id IS NULL AND {{mine}} LIMIT {MOST_A_KIND})"""
        for model in apps.get_app_config("memoryapp").get_models()
        if issubclass(model, Owned)
        for field in model._meta.concrete_fields
        if isinstance(field, models.ForeignKey) and issubclass(field.related_model, Owned)
    )


def _whose(field: Any) -> tuple[str, str]:
    """Selects the owner of what the field refers to, and the join that this needs: Citus looks up no row of a shared
    table for one of a cell."""
    found = f'"{field.related_model._meta.db_table}" z'
    same = f'z."{field.target_field.column}" = x."{field.column}"'
    if field.related_model.in_cell:
        return f"(SELECT owner_id FROM {found} WHERE {same})", ""
    return "z.owner_id", f"LEFT JOIN {found} ON {same}"


def _miscounted(owner: ChatUser | None) -> Iterator[Violation]:
    """Finished runs whose row differs from the totals of their events."""
    events = _of(RunEvent, owner).filter(run__state=Run.State.FINISHED).select_related("run")
    rows = events.order_by("run_id", "seq").iterator(chunk_size=200)
    for run, run_events in groupby(rows, key=lambda event: event.run):
        sentence = _difference(run, run_events)
        if sentence:
            yield Violation("run_totals", f"Run:{run.pk}", sentence)


def _difference(run: Run, rows: Iterable[RunEvent]) -> str:
    try:
        events = [from_payload(row.kind, row.payload) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        return f"one of its events cannot be read: {error!r}"
    last = events[-1]
    if not isinstance(last, RunFinished):
        return ""
    columns = {name: (getattr(run, name), wanted) for name, wanted in finished_columns(events, last).items()}
    wrong = {name: pair for name, pair in columns.items() if not _same(*pair)}
    return ", ".join(f"{name} is {stored}, its events say {wanted}" for name, (stored, wanted) in wrong.items())


def _same(stored: object, wanted: object) -> bool:
    if isinstance(stored, float) and isinstance(wanted, float | int):
        return math.isclose(stored, wanted, abs_tol=1e-6)
    return stored == wanted
