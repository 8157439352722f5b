"""Redacts runs and calls of agents: whatever they saw of the erased messages is removed from their events.

A model that read a message, in its topic or in the running conversation, may repeat it in other words. Of such
conversations only numbers, ids and codes are kept. Of others, the lines and values that name or quote erased text are
removed. The totals of a run remain those of its events.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction

from memoryapp.engine.memory import topic_id
from memoryapp.erasure.chat_user import by_table, deleted
from memoryapp.erasure.cutting import delete_artifact, delete_changes, make_anew, name_erasure
from memoryapp.erasure.marks import ERASED, Redaction
from memoryapp.models import (
    AgentCall,
    Artifact,
    Card,
    ChatUser,
    Erasure,
    Evaluation,
    Fact,
    KnowledgeEdit,
    Message,
    QueryVector,
    RawReply,
    Run,
    RunEvent,
    RunProgress,
    StoredItem,
    Topic,
)
from memoryapp.models.user import Owned

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
    # The active sessions in which the run found erased messages are redacted too.
    listed = [row.payload.get("sessions") or {} for row in rows if row.kind == "candidates_found"]
    of_erased = {id for each in listed for id, numbers in each.items() if not redaction.messages.isdisjoint(numbers)}
    redaction = replace(redaction, ids=redaction.ids | of_erased)
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


# Redacts everything else that quotes erased words: every text and JSON value of the owner's rows, in any table.
#
# Remaining messages are not changed, because their text was not erased. A fact, an item or a change in the history
# that quotes is deleted, and so is a card, whose words and vector are then made again from its row; an artifact goes
# with its file, from which its text could be read again, and the summary of a topic is written again. In any other
# row the quoting lines and values are replaced. Reports of evaluations and the administration's log belong to nobody
# and are searched as well.

_ELSEWHERE = (Message, Run, RunEvent, RawReply, AgentCall)
_OF_TEXT = (models.CharField, models.TextField, models.JSONField, ArrayField)
_AT_ONCE = 50


def redact_leftovers(erasure: Erasure, redaction: Redaction) -> Changes:
    """Redacts all tables with rows of the owner, and rows that belong to nobody."""
    changes, words = Changes(), redaction.by_words()

    def write(row: Any, new: dict[str, Any]) -> None:
        if isinstance(row, Fact | StoredItem | Card):
            changes.gone += deleted(type(row)._base_manager.filter(pk=row.pk))
        elif isinstance(row, KnowledgeEdit):
            changes.gone += delete_changes([row.pk])
        elif isinstance(row, Artifact) and new["text"] != row.text:
            changes.gone += delete_artifact(row)
        else:
            changes.changed[row._meta.db_table] += 1
            if isinstance(row, Topic):
                changes.gone += make_anew(row)
            else:
                type(row)._base_manager.filter(pk=row.pk).update(**new)

    for rows in (*rows_of(erasure.owner_number, _ELSEWHERE), Evaluation.objects.all()):
        redact_rows(erasure, rows, words, write)
    entries = LogEntry.objects.iterator(_AT_ONCE)
    quoting = [row.pk for row in entries if words.json(said := [row.object_repr, row.change_message]) != said]
    changes.gone += by_table(LogEntry.objects.filter(pk__in=quoting).delete()[1])
    return changes


def rows_of(owner: int, apart: Collection[type[models.Model]]) -> Iterator[models.QuerySet[Any]]:
    """Each table with rows of the owner, except for some, and the owner's own row."""
    for model in apps.get_app_config("memoryapp").get_models():
        if issubclass(model, Owned) and model not in apart:
            yield model._base_manager.filter(owner=owner)
    yield ChatUser.objects.filter(pk=owner)


def redact_rows(erasure: Erasure, rows: models.QuerySet[Any], words: Any, write: Callable[[Any, Any], None]) -> int:
    """Calls ``write`` for each row that quotes, with its redacted columns, in a transaction that names the receipt;
    returns how many there are. ``words`` redacts as a ``Redaction`` does."""
    names, count = list(texts_of(rows.model)), 0
    for row in rows.order_by("pk").iterator(_AT_ONCE) if names else ():
        new = {name: _redacted(row, name, words) for name in names}
        if any(value != getattr(row, name) for name, value in new.items()):
            with transaction.atomic():
                name_erasure(erasure)
                write(row, new)
            count += 1
    return count


def texts_of(model: type[models.Model]) -> Iterator[str]:
    """The names of the columns that hold text, lists of texts, or JSON."""
    for column in model._meta.concrete_fields:
        if isinstance(column, _OF_TEXT) and not column.choices:
            yield column.attname


def _redacted(row: models.Model, name: str, words: Any) -> Any:
    """The redacted value; with the row's number where two rows must not be equal."""
    old, column = getattr(row, name), cast(Any, row._meta.get_field(name))
    new = words.text(old) if isinstance(old, str) else words.json(old)
    if new == old or not isinstance(new, str):
        return new
    laws = [law for law in row._meta.constraints if isinstance(law, models.UniqueConstraint)]
    is_unique = column.unique or any(name in law.fields for law in laws)
    return (f"{ERASED} {row.pk}" if is_unique else new)[: column.max_length]
