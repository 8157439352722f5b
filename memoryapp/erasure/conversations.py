"""Redacts runs and calls of agents: whatever they saw of the erased messages is removed from their events.

A model that read a message, in its topic or in the running conversation, may repeat it in other words. Of such
conversations only numbers, ids and codes are kept. Of others, the lines and values that name or quote erased text are
removed. The totals of a run remain those of its events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from memoryapp.engine.memory import topic_id
from memoryapp.erasure.deleting import by_table
from memoryapp.erasure.redaction import ERASED, Redaction
from memoryapp.models import AgentCall, QueryVector, RawReply, Run, RunEvent, RunProgress

_SEEN_BY_MODELS = frozenset(("query_enriched", "turn_started", "model_replied"))
_READ = (("topics_read", ("read", "omitted")), ("run_finished", ("selected", "unsure", "dropped", "requested")))


@dataclass(slots=True)
class Changes:
    """How many rows of each table were deleted, and how many were changed."""

    gone: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)


def redact_runs(owner: int, redaction: Redaction, cut_at: datetime) -> Changes:
    """Redacts all runs of the owner. A run that began after the cut used the rows as they are now, and may
    name them."""
    changes, later = Changes(), redaction.by_words()
    numbers = Run.objects.of(owner).order_by("created_at", "pk").values_list("pk", "created_at")
    for number, began in list(numbers):
        _run(number, redaction if began <= cut_at else later, changes)
    return changes


@transaction.atomic
def _run(number: UUID, redaction: Redaction, changes: Changes) -> None:
    # Locked like the journal locks it, so that no event is added meanwhile.
    run = Run.objects.filter(pk=number).select_for_update(no_key=True).first()
    if run is None:
        return
    rows = list(run.events.order_by("seq"))
    redaction = _with_sessions(redaction, rows)
    deep = redaction.quotes_beside_names(run.messages) or any(_saw(row.kind, row.payload, redaction) for row in rows)
    if deep or any(redaction.text(query) != query for query in _queries(run, rows)):
        redaction = replace(redaction, hides_terms=True)
    touched = _events(rows, redaction, deep)
    if _question(run, redaction, deep) or touched:
        changes.changed += Counter({Run._meta.db_table: 1, RunEvent._meta.db_table: touched})
        changes.gone += by_table(RawReply.objects.filter(event__run=run).delete()[1])
        changes.gone += by_table(RunProgress.objects.filter(run=run).delete()[1])
        if run.query == ERASED:
            changes.gone += by_table(QueryVector.objects.filter(run=run).delete()[1])


def _queries(run: Run, rows: Iterable[RunEvent]) -> Iterator[str]:
    """What was searched for: the question as it was asked, as a fork changed it, and as it was rewritten."""
    yield run.query
    yield str(run.changes.get("query") or "")
    yield from (str(row.payload.get("enriched") or "") for row in rows if row.kind == "query_enriched")


def _with_sessions(redaction: Redaction, rows: Iterable[RunEvent]) -> Redaction:
    """The redaction, also of the active sessions in which the run found erased messages."""
    listed = [row.payload.get("sessions") or {} for row in rows if row.kind == "candidates_found"]
    of_erased = {id for each in listed for id, numbers in each.items() if not redaction.messages.isdisjoint(numbers)}
    return replace(redaction, ids=redaction.ids | of_erased)


def _events(rows: Iterable[RunEvent], redaction: Redaction, deep: bool) -> int:
    changed = []
    for row in rows:
        payload = _payload(row.kind, row.payload, redaction, deep)
        if payload != row.payload:
            row.payload = payload
            changed.append(row)
    RunEvent.objects.bulk_update(changed, ["payload"], batch_size=50)
    return len(changed)


def _payload(kind: str, payload: dict[str, Any], redaction: Redaction, deep: bool) -> Any:
    if not deep:
        return redaction.json(payload)
    kept = {"query": redaction.json(payload["query"])} if kind == "run_started" and "query" in payload else {}
    return {**redaction.bare_event(kind, payload), **kept}


def _question(run: Run, redaction: Redaction, deep: bool) -> bool:
    """Redacts what the run's own row contains; returns whether it changed."""
    redacted = redaction.bare if deep else redaction.json
    messages = None if run.messages is None else redacted(run.messages)
    query = run.query if redaction.text(run.query) == run.query else ERASED
    delivered = None if run.delivered is None or deep else redaction.json(run.delivered)
    new = {"query": query, "messages": messages, "changes": redacted(run.changes), "delivered": delivered}
    if all(getattr(run, name) == value for name, value in new.items()):
        return False
    for name, value in new.items():
        setattr(run, name, value)
    run.save(update_fields=list(new))
    return True


def _saw(kind: str, payload: dict[str, Any], redaction: Redaction) -> bool:
    """Whether this event says that a model was shown, or selected, what is erased."""
    if kind in _SEEN_BY_MODELS and redaction.quotes_beside_names(payload):
        return True
    listed = [item for owner, names in _READ if owner == kind for name in names for item in payload.get(name, ())]
    return any((item.get("id") if isinstance(item, dict) else item) in redaction.ids for item in listed)


def redact_calls(owner: int, redaction: Redaction, cut_at: datetime) -> Changes:
    """Redacts all calls of agents. A redacted answer is not used for later questions."""
    changes, later = Changes(), redaction.by_words()
    for number in list(AgentCall.objects.filter(owner=owner).order_by("pk").values_list("pk", flat=True)):
        with transaction.atomic():
            call = AgentCall.objects.filter(pk=number).select_for_update(no_key=True).first()
            if call is None:
                continue
            began = call.at - timedelta(seconds=call.seconds)
            if _call(call, redaction if began <= cut_at else later):
                changes.changed[AgentCall._meta.db_table] += 1
    return changes


def _call(call: AgentCall, redaction: Redaction) -> bool:
    deep = bool(redaction.ids & set(map(topic_id, call.topics))) or redaction.quotes_beside_names(call.events)
    events = [_event(event, redaction, deep) for event in call.events]
    if events == call.events:
        return False
    call.events, call.key, call.outcome = events, "", call.outcome or "erased"
    call.save(update_fields=["events", "key", "outcome"])
    return True


def _event(event: dict[str, Any], redaction: Redaction, deep: bool) -> dict[str, Any]:
    payload = _payload(event.get("kind", ""), event.get("payload", {}), redaction, deep)
    if payload == event.get("payload", {}) and "message" not in event:
        return event
    # The raw reply is JSON inside a text, from which no line can be removed.
    kept = "message" in event and not deep and redaction.text(event["message"]) == event["message"]
    return {key: item for key, item in event.items() if key != "message" or kept} | {"payload": payload}
