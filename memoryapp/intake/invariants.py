"""Invariants of the stored memory, as database queries for the rows that break them.

Each invariant is one set-based query that returns nothing on a healthy database. Ownership is read from the models, so
a new relation is checked without a change here. Only the events of runs are read one by one, because only
``recording.finished_columns`` knows what a run's row must contain.
"""

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
from memoryapp.engine.events import RunFinished, from_payload
from memoryapp.models import ChatUser, Message, Passage, PassageVector, Run, RunEvent, Topic, TopicVector
from memoryapp.models.user import Owned
from memoryapp.runs.journal import finished_columns

MOST_A_KIND = 1000
# Any part of a memory that is being erased may already be deleted.
STANDING = "x.owner_id NOT IN (SELECT id FROM memoryapp_chatuser WHERE erasing_since IS NOT NULL)"
SILENCE = 60
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
    """``query`` selects the id of each broken row of ``subject``, and the values in ``sentence``.

    In the query, ``{mine}`` restricts its first table, called ``x``, to the requested owner.
    """

    name: str
    subject: str
    sentence: str
    query: str


def _sides_of(noun: str) -> str:
    """Selects the numbers and values on both sides of the changes of a noun, as ``x`` with ``key`` and ``value``."""
    return f"""memoryapp_knowledgeedit x
           CROSS JOIN LATERAL (SELECT * FROM jsonb_each(x.before) UNION ALL SELECT * FROM jsonb_each(x.after)) side
           WHERE x.noun = '{noun}' AND jsonb_typeof(x.before) = 'object' AND jsonb_typeof(x.after) = 'object'"""


def _rows_of(side: str) -> str:
    """Computes which rows one side of a change names, and whether they exist on it."""
    return f"(SELECT jsonb_object_agg(key, jsonb_typeof(value)) FROM jsonb_each({side}))"


def _of_history(noun: str, table: str, names: Iterable[str]) -> Iterator[Invariant]:
    """What every change of a noun keeps to: the rows of its memory, and the values that the history stores."""
    listed = ", ".join(f"'{name}'" for name in sorted(names))
    yield Invariant(
        f"history_of_own_{noun}",
        "KnowledgeEdit",
        f"it changes {noun} {{row}}, which is chat user {{whose}}'s",
        f"""SELECT DISTINCT side.id, r.id AS row, r.owner_id AS whose
           FROM (SELECT x.id, x.owner_id, side.key FROM {_sides_of(noun)} AND {{mine}}) side
           JOIN {table} r ON r.id::text = side.key AND r.owner_id <> side.owner_id""",
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
    Invariant(
        "message_in_live_topic",
        "Message",
        "it points at topic {topic}, which is retired",
        """SELECT x.id, t.id AS topic FROM memoryapp_message x JOIN memoryapp_topic t ON t.id = x.topic_id
           WHERE NOT t.is_live AND {mine}""",
    ),
    Invariant(
        "message_listed_by_its_topic",
        "Message",
        "it points at topic {topic}, which does not list it",
        """SELECT x.id, x.topic_id AS topic FROM memoryapp_message x
           LEFT JOIN memoryapp_topicmessage tm ON tm.topic_id = x.topic_id AND tm.message_id = x.id
           WHERE x.topic_id IS NOT NULL AND tm.id IS NULL AND {mine}""",
    ),
    Invariant(
        "message_in_one_topic",
        "Message",
        "topic {topic} lists it and is live, but it points at topic {points}",
        """SELECT m.id, x.topic_id AS topic, m.topic_id AS points FROM memoryapp_topicmessage x
           JOIN memoryapp_topic t ON t.id = x.topic_id JOIN memoryapp_message m ON m.id = x.message_id
           WHERE t.is_live AND m.topic_id IS DISTINCT FROM t.id AND {mine}""",
    ),
    Invariant(
        "topic_not_empty",
        "Topic",
        "it is live and holds no message",
        """SELECT x.id FROM memoryapp_topic x
           WHERE x.is_live AND {mine}
           AND NOT EXISTS (SELECT FROM memoryapp_topicmessage tm WHERE tm.topic_id = x.id)""",
    ),
    Invariant(
        "topic_totals",
        "Topic",
        "it says {stored}, its messages say {counted}",
        """SELECT x.id, concat_ws(', ', x.message_count, x.size_chars, x.started_at, x.ended_at) AS stored,
                  concat_ws(', ', real.n, real.size, real.first, real.last) AS counted
           FROM memoryapp_topic x JOIN (
               SELECT tm.topic_id, count(*) AS n, sum(char_length(m.text)) AS size,
                      min(m.sent_at) AS first, max(m.sent_at) AS last
               FROM memoryapp_topicmessage tm JOIN memoryapp_message m ON m.id = tm.message_id GROUP BY tm.topic_id
           ) real ON real.topic_id = x.id
           WHERE x.is_live AND {mine} AND (x.message_count, x.size_chars, x.started_at, x.ended_at)
                 IS DISTINCT FROM (real.n, real.size, real.first, real.last)""",
    ),
    Invariant(
        "topic_came_by_an_edit",
        "Topic",
        "no edit put it in",
        """SELECT x.id FROM memoryapp_topic x WHERE {mine}
           AND NOT EXISTS (SELECT FROM memoryapp_editedtopic e WHERE e.topic_id = x.id AND e.side = 'in')""",
    ),
    # An undo brings the same topic back, so a topic may come and go several times.
    Invariant(
        "topic_comes_and_goes_in_turn",
        "Topic",
        "edits put it in {came} times and took it out {went} times, and is_live is {live}",
        """SELECT x.id, count(e.id) FILTER (WHERE e.side = 'in') AS came,
                  count(e.id) FILTER (WHERE e.side = 'out') AS went, x.is_live AS live
           FROM memoryapp_topic x JOIN memoryapp_editedtopic e ON e.topic_id = x.id
           WHERE {mine} GROUP BY x.id
           HAVING count(e.id) FILTER (WHERE e.side = 'in') - count(e.id) FILTER (WHERE e.side = 'out')
                  <> x.is_live::int""",
    ),
    Invariant(
        "message_in_a_passage",
        "Message",
        "it is archived, but no passage holds it: search cannot find it",
        """SELECT x.id FROM memoryapp_message x WHERE x.topic_id IS NOT NULL AND {mine}
           AND NOT EXISTS (SELECT FROM memoryapp_passagemessage pm WHERE pm.message_id = x.id)""",
    ),
    Invariant(
        "passage_vector_fits",
        "Passage",
        "its vector has {found} dimensions (the row says {stored}), its profile {wanted}",
        """SELECT x.passage_id, vector_dims(x.vector) AS found, x.dimensions AS stored, p.dimensions AS wanted
           FROM memoryapp_passagevector x JOIN memoryapp_embeddingprofile p ON p.id = x.profile_id
           WHERE (vector_dims(x.vector) <> p.dimensions OR x.dimensions <> p.dimensions) AND {mine}""",
    ),
    Invariant(
        "topic_vector_fits",
        "Topic",
        "its vector has {found} dimensions, its profile {wanted}",
        """SELECT x.topic_id, vector_dims(x.vector) AS found, p.dimensions AS wanted
           FROM memoryapp_topicvector x JOIN memoryapp_embeddingprofile p ON p.id = x.profile_id
           WHERE vector_dims(x.vector) <> p.dimensions AND {mine}""",
    ),
    # halfvec stores 11 bits of each number, so a vector counts as a unit vector within a hundredth.
    Invariant(
        "passage_vector_is_unit",
        "Passage",
        "its vector is {length} long, not 1",
        """SELECT x.passage_id, round(l2_norm(x.vector)::numeric, 3) AS length FROM memoryapp_passagevector x
           WHERE abs(l2_norm(x.vector) - 1) > 0.01 AND {mine}""",
    ),
    Invariant(
        "topic_vector_is_unit",
        "Topic",
        "its vector is {length} long, not 1",
        """SELECT x.topic_id, round(l2_norm(x.vector)::numeric, 3) AS length FROM memoryapp_topicvector x
           WHERE abs(l2_norm(x.vector) - 1) > 0.01 AND {mine}""",
    ),
    Invariant(
        "events_count_from_one",
        "Run",
        "its {events} events are numbered {first} to {last}",
        """SELECT x.run_id, count(*) AS events, min(x.seq) AS first, max(x.seq) AS last FROM memoryapp_runevent x
           WHERE {mine} GROUP BY x.run_id HAVING min(x.seq) <> 1 OR max(x.seq) <> count(*)""",
    ),
    Invariant(
        "one_last_event",
        "Run",
        "it is {state}, and its events {ends} times say it is finished (the last is {last})",
        """SELECT x.id, x.state, e.ends, e.last FROM memoryapp_run x CROSS JOIN LATERAL (
               SELECT count(*) FILTER (WHERE kind = 'run_finished') AS ends,
                      coalesce((array_agg(kind ORDER BY seq DESC))[1], 'none') AS last
               FROM memoryapp_runevent WHERE run_id = x.id
           ) e
           WHERE {mine}
           AND CASE WHEN x.state = 'finished' THEN e.ends <> 1 OR e.last <> 'run_finished' ELSE e.ends > 0 END""",
    ),
    Invariant(
        "raw_reply_beside_a_reply",
        "RawReply",
        "it stands beside an event {kind}",
        """SELECT x.event_id, e.kind FROM memoryapp_rawreply x JOIN memoryapp_runevent e ON e.id = x.event_id
           WHERE e.kind <> 'model_replied' AND {mine}""",
    ),
    Invariant(
        "finished_has_its_time",
        "Run",
        "it is {state}, and finished_at is {at}",
        """SELECT x.id, x.state, coalesce(x.finished_at::text, 'empty') AS at FROM memoryapp_run x
           WHERE (x.state = 'finished') <> (x.finished_at IS NOT NULL) AND {mine}""",
    ),
    Invariant(
        "unfinished_is_alive",
        "Run",
        "it is {state}, and gave no sign of life since {since}",
        f"""SELECT x.id, x.state, x.heartbeat_at AS since FROM memoryapp_run x
           WHERE x.state <> 'finished' AND x.heartbeat_at < now() - interval '{SILENCE} seconds' AND {{mine}}""",
    ),
    Invariant(
        "undo_of_the_same_rows",
        "KnowledgeEdit",
        "it takes back change {undone}, which is about other rows",
        f"""SELECT x.id, u.id AS undone
           FROM memoryapp_knowledgeedit x JOIN memoryapp_knowledgeedit u ON u.id = x.undoes_id
           WHERE {{mine}} AND (x.noun <> u.noun OR {_rows_of("x.before")} IS DISTINCT FROM {_rows_of("u.after")}
                               OR {_rows_of("x.after")} IS DISTINCT FROM {_rows_of("u.before")})""",
    ),
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
    mine = STANDING if owner is None else f"{STANDING} AND x.owner_id = %(owner)s"
    with connection.cursor() as cursor:
        cursor.execute(_foreign_query().replace("{mine}", mine), {"owner": owner.pk if owner else None})
        for model, pk, relation, first, second in cursor.fetchall():
            sentence = f"it is chat user {first}'s, but its {relation} is chat user {second}'s"
            yield Violation("one_owner", f"{model}:{pk}", sentence)


@cache
def _foreign_query() -> str:
    """One statement for all relations: sending one for each takes longer than answering them."""
    return " UNION ALL ".join(
        f"""(SELECT '{model.__name__}', x."{model._meta.pk.column}"::text, '{field.name}', x.owner_id, y.owner_id
             FROM "{model._meta.db_table}" x
             JOIN "{field.related_model._meta.db_table}" y ON y."{field.target_field.column}" = x."{field.column}"
             WHERE x.owner_id <> y.owner_id AND {{mine}} LIMIT {MOST_A_KIND})"""
        for model, field in _relations()
    )


def _relations() -> Iterator[tuple[type[Owned], models.ForeignKey[Any, Any]]]:
    for model in apps.get_app_config("memoryapp").get_models():
        if issubclass(model, Owned):
            for field in model._meta.concrete_fields:
                if isinstance(field, models.ForeignKey) and issubclass(field.related_model, Owned):
                    yield model, field


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
