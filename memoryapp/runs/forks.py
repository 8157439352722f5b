"""Forks: a run that begins like another one, with changes, and goes on from a turn by itself. ``fork`` is the one way
to vary a run: it checks what is to be changed and where, and makes a run with a parent, a turn and changes. What is
replayed is in ``replaying``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.engine.budget import Usage
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    MediaItem,
    ModelReplied,
    QueryEnriched,
    TurnStarted,
    from_payload,
    to_json,
)
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.outline import Outline
from memoryapp.memory import past
from memoryapp.models import Prompt, Run, RunEvent
from memoryapp.runs import lifecycle
from memoryapp.runs.parameters import own, strategy_named
from memoryapp.runs.replays import ForkError, is_search_replayed, latest_turn, read_changes, with_messages

# Words that were erased are stored as this mark.
_ERASED = "[erased]"
# What every fork replays, beside replies.
_USED = (QueryEnriched, CandidatesFound, TurnStarted)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the part of a run that its fork asks again has cost: ``turns`` of its model, and its enricher."""

    turns: int
    usage: Usage


def events_of(run: Run) -> list[Event]:
    """The run's events; replies contain the messages as they came."""
    rows = RunEvent.objects.filter(run=run).order_by("seq").values_list("kind", "payload", "raw_reply__message")
    return with_messages([(from_payload(kind, payload), raw) for kind, payload, raw in rows])


def fork(run: Run, *, turn: int | None = None, changes: Mapping[str, Any], **asked: Any) -> Run:
    """A new run that waits to be executed: like ``run`` up to ``turn``, with ``changes``, see ``CHANGES``. Without a
    turn it begins at the first one, or earlier where a change requires it. ``asked`` says who asks, as for
    ``lifecycle.start``. Raises ForkError, and ParameterError."""
    if run.is_foreign:
        raise ForkError(
            _("This run was made by %(origin)s, so only that program can repeat it.") % {"origin": run.origin}
        )
    events = events_of(run)
    read = read_changes(changes, events)
    at = turn_of_fork(run, events, turn, read)
    # A run of an earlier version may have stored some of other strategies.
    known = own(run.parameters, strategy_named(run.strategy))
    name, _dash, rest = read.get("prompt", "").partition("-")
    language, _dash, version = rest.partition("-")
    prompt = Prompt.objects.filter(name=name, language=language, version=int(version or 0)).first()
    return lifecycle.start(
        run.owner,
        read.get("query", run.query),
        strategy=run.strategy,
        parameters={**known, **read.get("parameters", {})},
        messages=run.messages,
        media=[MediaItem(**item) for item in run.media],
        parent=run,
        turn=at,
        changes=read,
        prompt=prompt,
        evidence=run.evidence,
        project=run.project,
        **asked,
    )


def turn_of_fork(run: Run, events: Sequence[Event], turn: int | None, changes: Mapping[str, Any]) -> int:
    """The turn at which the fork begins. Raises ForkError when the run cannot be replayed up to it."""
    latest, name = latest_turn(changes)
    if turn is None and "reply" in changes:
        raise ForkError(_("Say at which turn this reply takes the place of the model's own."))
    at = min(1, latest) if turn is None else turn
    named = {"run": run.short_id, "turn": at, "name": name, "latest": latest}
    if not run.is_finished:
        raise ForkError(_("Run %(run)s has not ended; it can be forked then.") % named)
    if at > latest:
        raise ForkError(
            _("“%(name)s” makes a difference at turn %(latest)s at the latest, before turn %(turn)s.") % named
        )
    _check_turns(run, events, at, named, needs_turn="reply" in changes)
    if "model" in changes and not settings.LLM_BASE_URL:
        raise ForkError(_("No chat model is connected, so no model can be chosen. Set LLM_BASE_URL and LLM_API_KEY."))
    return at


def _check_turns(run: Run, events: Sequence[Event], at: int, named: Mapping[str, Any], *, needs_turn: bool) -> None:
    outline = Outline.of(events)
    turns = sum(isinstance(event, TurnStarted) for event in events)
    if at < (1 if needs_turn else 0) or at > max(turns, 0 if needs_turn else 1):
        sentence = ngettext(
            "Run %(run)s has %(turns)d turn; it cannot be forked at turn %(turn)s.",
            "Run %(run)s has %(turns)d turns; it cannot be forked at turn %(turn)s.",
            turns,
        )
        raise ForkError(sentence % {**named, "turns": turns})
    used = [each for each in events if isinstance(each, _USED) or (isinstance(each, ModelReplied) and each.turn < at)]
    if _ERASED in run.query or any(_ERASED in to_json(event) for event in used):
        raise ForkError(_("Words of run %(run)s have been erased since, so it cannot be replayed. Ask again.") % named)
    shown = outline.found.shown if outline.found and at > 1 else ()
    if past.never_among(run.owner_id, [number for each in shown if (number := parse_topic_id(each.id))]):
        raise ForkError(_("The replies of run %(run)s speak of what is never recalled now; fork it at turn 1.") % named)
    if at and (outline.enriched is None or (outline.found is None and is_search_replayed(events))):
        raise ForkError(_("Run %(run)s found nothing that could be replayed; fork it at turn 0.") % named)
    for event in used:
        if isinstance(event, ModelReplied) and not (event.error or event.message):
            sentence = _(
                "Run %(run)s cannot be forked at turn %(turn)s: what the model replied in turn %(before)s was not"
                " stored as it came. Fork it at turn %(before)s or earlier."
            )
            raise ForkError(sentence % {**named, "before": event.turn})


def first_asked(fork: Run) -> int:
    return (fork.turn or 0) + ("reply" in fork.changes)


def forecast(events: Sequence[Event], turn: int) -> Forecast:
    """What a fork at ``turn`` will probably cost: as much as the same part of the run did."""
    asked = [event for event in events if isinstance(event, ModelReplied) and event.turn >= turn]
    line = Outline.of(events).enriched
    usage = sum((event.usage for event in asked), Usage())
    return Forecast(len(asked), usage + line.usage if line and turn == 0 else usage)
