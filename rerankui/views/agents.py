"""What agents asked models outside of runs: the list of their questions, and one as a conversation to replay."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.curation import history
from memoryapp.curation.history import Narrowing
from memoryapp.engine.events import KINDS, Event, ModelReplied, from_payload
from memoryapp.models import AgentCall, Role, Topic
from memoryapp.runs.clients import try_endpoints
from memoryapp.runs.followers import StoredEvent
from rerankui.frame.access import agent_call_or_404, open_to, operator_of, visible_owners
from rerankui.frame.filters import AgentFilter
from rerankui.frame.pages import page_of, show
from rerankui.history.entry_views import entry_views
from rerankui.runs.fragments import EventView, event_views
from rerankui.runs.page.outcomes import SENTENCES, RunActivity, activity_after, error_words
from rerankui.runs.page.waterfall import axis

# The conversation of an agent as pages show it: with the event views of a run, on a time axis made from its turns.

UNANSWERED: dict[str, Promise] = {
    **SENTENCES,
    "parse_error": _("The model answered, and its answer could not be read."),
    "cut": _("The model's answer was cut off before its end, so it does not count."),
    "timeout": _("The time for the question was over before the model had answered."),
}


def talk_context(call: AgentCall, step: int | None) -> dict[str, Any]:
    """What the partials of a run need to show the conversation as of the event with that number."""
    stored = stored_events(call)
    last = len(stored)
    step = min(max(step, 1), last) if step is not None and last else last
    views = _without_activity(event_views(stored, step))
    shown = views[step - 1] if views else None
    replies = [item.event for item in stored if isinstance(item.event, ModelReplied)]
    return {
        "views": views,
        # what the partials of events expect from a run's first event
        "run_started": {"model": call.model},
        "last": last,
        "step": step,
        "activity": shown.activity if shown else activity_after(None),
        "playhead": shown.offset_ms if shown else 0,
        "axis": axis(stored, stored[-1].at if stored else call.at),
        "turns": len(replies),
        "error": next((error_words(reply) or reply.refusal for reply in reversed(replies)), ""),
        "sentence": UNANSWERED.get(call.outcome, call.outcome),
    }


def stored_events(call: AgentCall) -> list[StoredEvent]:
    """The events of the conversation, oldest first; those of a turn are spread evenly from its start to its reply."""
    events = [from_payload(each["kind"], each["payload"]) for each in call.events if each["kind"] in KINDS]
    began = call.at - timedelta(seconds=call.seconds)
    return [
        StoredEvent(seq, began + timedelta(seconds=moment), event)
        for seq, (moment, event) in enumerate(_with_seconds(events), start=1)
    ]


def _with_seconds(events: Sequence[Event]) -> Iterator[tuple[float, Event]]:
    began = 0.0
    for turn in _turns(events):
        last = turn[-1]
        seconds = last.seconds if isinstance(last, ModelReplied) else 0.0
        for place, event in enumerate(turn):
            yield began + seconds * place / max(len(turn) - 1, 1), event
        began += seconds


def _turns(events: Sequence[Event]) -> Iterator[list[Event]]:
    turn: list[Event] = []
    for event in events:
        turn.append(event)
        if isinstance(event, ModelReplied):
            yield turn
            turn = []
    if turn:
        yield turn


def _without_activity(views: list[EventView]) -> list[EventView]:
    """A conversation has no event that ends it; nothing is going on after its last event."""
    return [*views[:-1], *(replace(view, activity=RunActivity("", "")) for view in views[-1:])]


EDITS_SHOWN = 50
TOPICS_SHOWN = 30


@open_to(Role.VIEWER)
def agents(request: HttpRequest) -> HttpResponse:
    owners = visible_owners(request)
    filters = AgentFilter(request.GET, owners=owners)
    listed = AgentCall.objects.filter(owner__in=owners).select_related("owner").defer("events")
    page = page_of(request, filters.fitting(filters.worded(listed)), filters.order)
    context = {"filters": filters, "page": page, "may_try": operator_of(request).may(Role.DEBUGGER)}
    return show(request, "pages/agents/agents.html", "partials/agents/agents.html", context)


@open_to(post=Role.DEBUGGER)
def endpoint_trial(request: HttpRequest) -> HttpResponse:
    """What the connected endpoints can do; asking them takes at most about a minute."""
    context = {"trial": async_to_sync(try_endpoints)(), "may_try": True}
    return show(request, "pages/agents/endpoint_trial.html", "partials/agents/endpoint_trial.html", context)


@open_to(Role.VIEWER)
def agent_call(request: HttpRequest, pk: int) -> HttpResponse:
    """One question as a conversation, with the topics it was about and what came of it."""
    call = agent_call_or_404(request, pk)
    step = request.GET.get("step", "")
    led_to = history.page(call.owner, Narrowing(call=call.pk), EDITS_SHOWN)
    context = {
        "call": call,
        "owner": call.owner,
        "topics": Topic.objects.of(call.owner).filter(pk__in=call.topics[:TOPICS_SHOWN]).order_by("pk"),
        "more_topics": max(len(call.topics) - TOPICS_SHOWN, 0),
        "changes": entry_views(led_to.entries),
        "may_change": operator_of(request).may(Role.CURATOR),
        **talk_context(call, int(step) if step.isdecimal() and len(step) < 9 else None),
    }
    return render(request, "pages/agents/agent_call.html", context)
