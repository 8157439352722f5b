"""Spans arrive: each is stored once, and the runs of their traces are written anew with everything known so far.

A trace is one run of a chat user. It grows until its root has ended, or nothing comes for ``ending.QUIET``. Spans that
come later still belong to it while its spans are kept (``LATE``); afterwards they change nothing. One transaction takes
everything that a request has for a chat user, so that it can be sent again after any failure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from memoryapp.doors.traces.course import STRATEGY, TraceCourse, speaks, step_of
from memoryapp.doors.traces.span import TELLING, SentSpan, text_of
from memoryapp.engine.beside import table_beside
from memoryapp.engine.cells import run_id
from memoryapp.engine.events import RunFinished, to_json
from memoryapp.engine.json_values import storable, to_text
from memoryapp.engine.sight import into, looking
from memoryapp.importers.values import clean
from memoryapp.memory import content
from memoryapp.models import ApiToken, ChatUser, Run, RunEvent, Trace, TraceSpan
from memoryapp.platform import database
from memoryapp.platform.database import each_alone
from memoryapp.platform.statements import fetched
from memoryapp.runs.journal import finished_columns

LATE = timedelta(minutes=10)
MOST_SPANS = 2_000
LOCK = "traces"

_SQL = table_beside(__file__)
_STORE_SPANS: str = _SQL["store_spans"]
_EVENTS = "COPY memoryapp_runevent (owner_id, run_id, seq, kind, at, payload) FROM STDIN"
_SPANS = "COPY memoryapp_tracespan (owner_id, trace_id, span, body) FROM STDIN"
_TRACES = "COPY memoryapp_trace (run_id, owner_id, number, has_root) FROM STDIN"
# Every column that a new state of a trace changes, in the order of its values.
_COLUMNS = (
    *("query", "origin", "created_at", "heartbeat_at", "state", "finished_at", "fallback", "candidate_count"),
    *("selected_count", "turns", "tool_calls", "input_tokens", "output_tokens", "cost_usd", "seconds"),
)
_UPDATE_RUN = f"UPDATE memoryapp_run SET {', '.join(f'{name} = %({name})s' for name in _COLUMNS)} WHERE id = %(run)s"
# Those of a new run that the database does not fill by itself.
_AT_FIRST = {"strategy": STRATEGY, "prompt_version": "", "parameters": "{}", "media": "[]", "evidence": "[]"}
_RUNS = f"COPY memoryapp_run (id, owner_id, token_id, project, {', '.join((*_AT_FIRST, *_COLUMNS))}) FROM STDIN"

Timed = Sequence[tuple[datetime, Any]]


@dataclass(frozen=True, slots=True)
class ArrivedSpans:
    """The runs that changed, and how many spans came too late for their traces."""

    runs: Sequence[UUID]
    refused: int = 0


def take(owner: ChatUser, spans: Iterable[SentSpan], token: ApiToken | None = None) -> ArrivedSpans:
    """Stores spans of any traces. Spans that mean nothing here are left out, and so are traces without a search, a
    rerank, or a call of a model or tool. Raises BeingErased."""
    of_trace: dict[UUID, dict[str, SentSpan]] = defaultdict(dict)
    for span in spans:
        if not span.parent or speaks(span):
            of_trace[UUID(span.trace)].setdefault(span.id, span)
    project = into()
    # A trace that is known in another project takes nothing from this one.
    with looking(), transaction.atomic():
        database.acquire_until_commit(LOCK, owner.pk)
        content.check_kept(owner)
        rows = Trace.objects.filter(owner=owner, number__in=list(of_trace)).select_related("run")
        known = {row.number: row for row in rows}
        new = [[*sent.values()] for number, sent in of_trace.items() if number not in known]
        made = _make(owner, [sent[:MOST_SPANS] for sent in new if any(map(_is_telling, sent))], token, project)
        growing = {number: trace for number, trace in known.items() if trace.run.project == project and _takes(trace)}
        sent = [(trace, span) for number, trace in growing.items() for span in of_trace[number].values()]
        touched = _stored(owner, sent, _counts(growing.values())) if sent else set()
        write(owner, [trace for trace in growing.values() if trace.pk in touched])
    refused = sum(len(of_trace[number]) for number in known.keys() - growing.keys())
    return ArrivedSpans([*made, *touched], refused)


def _is_telling(span: SentSpan) -> bool:
    """Whether a trace with this span is a run."""
    step = step_of(span)
    return step is not None and isinstance(step.meaning, TELLING)


def _takes(trace: Trace) -> bool:
    """Whether the trace may still grow."""
    return not trace.run.is_finished or trace.run.heartbeat_at > timezone.now() - LATE


def _make(owner: ChatUser, traces: Sequence[Sequence[SentSpan]], token: ApiToken | None, project: str) -> list[UUID]:
    """Writes new traces with their runs, one table after the other; returns the runs."""
    if not traces:
        return []
    now, written = timezone.now(), []
    for spans in traces:
        course = TraceCourse(spans, now, any(not span.parent for span in spans))
        written.append((run_id(), course, course.events()))
    number = token.pk if token else None
    with connection.cursor() as cursor:
        with cursor.copy(_RUNS) as copy:
            for run, course, timed in written:
                columns = _columns(course, timed, now)
                copy.write_row((run, owner.pk, number, project, *_AT_FIRST.values(), *columns.values()))
        with cursor.copy(_TRACES) as copy:
            for run, course, _timed in written:
                copy.write_row((run, owner.pk, UUID(course.root.trace), course.is_over))
        with cursor.copy(_SPANS) as copy:
            for run, course, _timed in written:
                for span in course.spans:
                    copy.write_row((owner.pk, run, span.id, to_text(span)))
        _write_events(cursor, owner, [(run, timed) for run, _course, timed in written])
    return [run for run, _course, _timed in written]


def _write_events(cursor: Any, owner: ChatUser, runs: Iterable[tuple[UUID, Timed]]) -> None:
    with cursor.copy(_EVENTS) as copy:
        for run, timed in runs:
            for seq, (at, event) in enumerate(timed, start=1):
                copy.write_row((owner.pk, run, seq, event.kind, at, to_json(event)))


def _counts(traces: Iterable[Trace]) -> dict[UUID, int]:
    """How many spans each trace has."""
    statement = "SELECT trace_id, count(*) FROM memoryapp_tracespan WHERE trace_id = ANY(%s) GROUP BY trace_id"
    return dict(fetched(statement, [[trace.pk for trace in traces]]))


def _stored(owner: ChatUser, sent: Sequence[tuple[Trace, SentSpan]], counts: Mapping[UUID, int]) -> set[UUID]:
    """Stores spans that are not known yet; returns the runs of their traces."""
    room = {trace.pk: MOST_SPANS - counts.get(trace.pk, 0) for trace, _span in sent}
    fitting = []
    for trace, span in sent:
        room[trace.pk] -= 1
        if room[trace.pk] >= 0:
            fitting.append((trace, span))
    for trace, span in fitting:
        trace.has_root = trace.has_root or not span.parent
    values: dict[str, Any] = {
        "owner": owner.pk,
        "traces": [trace.pk for trace, _span in fitting],
        "spans": [span.id for _trace, span in fitting],
        "bodies": [to_text(span) for _trace, span in fitting],
    }
    touched = {trace for (trace,) in fetched(_STORE_SPANS, values)}
    roots = {trace.pk for trace, _span in fitting if trace.has_root and trace.pk in touched}
    Trace.objects.filter(pk__in=roots).update(has_root=True)
    return touched


def write(owner: ChatUser, traces: Sequence[Trace], *, is_over: bool = False) -> None:
    """Writes the runs of these traces anew: their events, and the columns that follow from them. ``is_over`` ends those
    without a root as well. Needs the owner's lock."""
    if not traces:
        return
    now = timezone.now()
    spans: dict[UUID, list[SentSpan]] = defaultdict(list)
    for number, body in TraceSpan.objects.filter(trace__in=traces).values_list("trace_id", "body"):
        spans[number].append(SentSpan(**body))
    written = []
    for trace in traces:
        course = TraceCourse(spans[trace.pk], now, is_over or trace.has_root or trace.run.is_finished)
        written.append((trace.pk, course, course.events()))
    RunEvent.objects.filter(run__in=[trace.pk for trace in traces])._raw_delete("default")
    with connection.cursor() as cursor:
        _write_events(cursor, owner, [(run, timed) for run, _course, timed in written])
        rows = [{"run": run, **_columns(course, timed, now)} for run, course, timed in written]
        cursor.executemany(_UPDATE_RUN, rows)


def _columns(course: TraceCourse, timed: Timed, now: datetime) -> dict[str, Any]:
    """Values of ``_COLUMNS``; the last sign of life is when something came."""
    last_at, last = timed[-1]
    ended = finished_columns([event for _at, event in timed], last) if isinstance(last, RunFinished) else {}
    return {
        **dict.fromkeys(_COLUMNS, 0),
        "query": storable(course.query),
        "origin": storable(course.root.service)[:120],
        "created_at": course.began_at,
        "heartbeat_at": now,
        "state": Run.State.RUNNING.value,
        "fallback": "",
        **{name: value for name, value in ended.items() if name in _COLUMNS},
        "finished_at": last_at if ended else None,
    }


# Ends traces of which nothing comes any more, and drops spans that are not needed any more.

# A root may end in another process, or its spans may be lost.
QUIET = timedelta(seconds=30)
_AT_ONCE = 500


def end_quiet(quiet: timedelta = QUIET) -> list[UUID]:
    """Ends the runs of traces that got no span for so long; returns them. One transaction for each."""
    waiting = Trace.objects.filter(run__state=Run.State.RUNNING, run__heartbeat_at__lt=Now() - quiet)
    ended: list[UUID] = []

    @transaction.atomic
    def end(trace: Trace) -> None:
        database.acquire_until_commit(LOCK, trace.owner_id)
        for row in waiting.filter(pk=trace.pk).select_related("run"):
            write(trace.owner, [row], is_over=True)
            ended.append(row.pk)

    each_alone(list(waiting.select_related("owner")[:_AT_ONCE]), "Trace %s is not ended yet.", end)
    return ended


def drop_spans(late: timedelta = LATE) -> int:
    """Deletes spans of traces that take no more; returns how many. The events of their runs remain."""
    over = Trace.objects.filter(run__state=Run.State.FINISHED, run__heartbeat_at__lt=Now() - late, spans__isnull=False)
    traces = list(over.values_list("pk", flat=True).distinct()[:_AT_ONCE])
    deleted: int = TraceSpan.objects.filter(trace__in=traces).delete()[0]
    return deleted


# Whose memory a trace belongs to, as its spans name the chat user.

# OpenInference, OpenTelemetry's registry, its former name, the AI SDK; metadata of LangChain is JSON and not searched.
_USERS = ("mnemoscope.user", "user.id", "enduser.id", "ai.telemetry.metadata.userId")
_SESSIONS = ("session.id", "gen_ai.conversation.id", "ai.telemetry.metadata.sessionId")
LONGEST_NAME = 200


def user_of_spans(spans: Sequence[SentSpan]) -> str:
    """The chat user that spans of a trace name, or their resource does; empty if none does."""
    own = (text_of(span.attributes.get(name)) for name in _USERS for span in spans)
    shared = (text_of(span.resource.get(name)) for name in _USERS for span in spans)
    return _first(chain(own, shared))


def session_of_spans(spans: Sequence[SentSpan]) -> str:
    """The conversation that spans of a trace name; it stands for a chat user where nothing else does."""
    return _first(text_of(span.attributes.get(name)) for name in _SESSIONS for span in spans)


def _first(names: Iterable[str]) -> str:
    return next((found for name in names if (found := clean(name).strip()[:LONGEST_NAME])), "")
