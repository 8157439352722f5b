"""What became of every topic in a run, for many runs at once; the long texts of their events are not read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from uuid import UUID

from django.db import connection

from memoryapp.engine.events import KINDS, from_payload
from memoryapp.engine.kinds.kind import EventKind
from memoryapp.engine.memory import is_talk
from memoryapp.models.run import CANDIDATE_FIELD, SHOWN_IDS

# From the least to the most that can become of a topic; each is a code of the interface for programs.
ABSENT, BELOW, SHOWN = "absent", "below", "shown"
State = Literal[
    "absent",
    "below",
    "shown",
    "initial",
    "threshold",
    "gap",
    "top_k",
    "requested",
    "read",
    "dropped",
    "instead",
    "chosen",
]
STATES: tuple[str, ...] = get_args(State)
USED = frozenset(("chosen", "instead"))
_PLACE = {state: place for place, state in enumerate(STATES)}
EVENTS = f"""
SELECT run_id, kind, CASE kind
    WHEN 'candidates_found' THEN jsonb_build_object(
        'ids', {CANDIDATE_FIELD.format(payload="payload", name="id")},
        'ranks', {CANDIDATE_FIELD.format(payload="payload", name="rank")},
        'shown', {SHOWN_IDS.format(payload="payload")}, 'sessions', payload -> 'sessions',
        'titles', CASE WHEN payload #>> '{{candidates,0,id}}' LIKE 'Document:%%'
                  THEN jsonb_path_query_array(payload, '$.candidates[*].summary') END
    )
    WHEN 'model_replied' THEN payload || '{{"text": "", "reasoning": ""}}'
    ELSE payload - 'context' END
FROM memoryapp_runevent WHERE owner_id = %(owner)s AND run_id = ANY(%(runs)s) AND kind = ANY(%(kinds)s)
ORDER BY run_id, seq
"""


@dataclass
class RunStates:
    """The state and the rank of each topic that a run ranked, by id; ``sessions`` are active sessions with the numbers
    of their messages, ``titles`` those of documents of a foreign memory, which are in no table."""

    states: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, Sequence[int]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)


def states_of_runs(owner_id: int, runs: Sequence[UUID]) -> Mapping[UUID, RunStates]:
    """One statement for all runs; a run that has found nothing yet has no states."""
    found = {run: RunStates() for run in runs}
    with connection.cursor() as cursor:
        cursor.execute(EVENTS, {"owner": owner_id, "runs": list(runs), "kinds": ["candidates_found", *_marking()]})
        for run, kind, payload in cursor.fetchall():
            _add(found[run], kind, json.loads(payload))
    return found


def _marking() -> list[str]:
    """The kinds of events that say something of candidates."""
    return [kind for kind, event in KINDS.items() if event.marks is not EventKind.marks]


def _add(known: RunStates, kind: str, payload: Mapping[str, Any]) -> None:
    if kind == "candidates_found":
        _add_ranked(known, payload)
        return
    marked = from_payload(kind, payload).marks()
    known.states.update({id: state for id, state in marked.items() if is_talk(id)})


def _add_ranked(known: RunStates, found: Mapping[str, Any]) -> None:
    shown = frozenset(found["shown"])
    known.ranks = dict(zip(found["ids"], found["ranks"], strict=True))
    known.states = {id: SHOWN if id in shown else BELOW for id in found["ids"]}
    known.sessions = dict(found["sessions"] or {})
    known.titles = dict(zip(found["ids"], found["titles"] or (), strict=False))


def best(states: Iterable[str]) -> str:
    """The state that is most of them; ``absent`` where there is none."""
    return max(states, key=lambda state: _PLACE.get(state, 0), default=ABSENT)


def is_listed(state: str) -> bool:
    """Whether the topic was among those that are shown, or more became of it."""
    return _PLACE.get(state, 0) >= _PLACE[SHOWN]
