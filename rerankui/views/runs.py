"""Runs: the list, one run (live or replay), and a topic as a run saw it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from memoryapp import runs
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.models import Message, Role, Run, Topic
from rerankui import fragments
from rerankui.access import requires, run_or_404, seen_owners
from rerankui.filters import RunFilter
from rerankui.pages import page_of, show
from rerankui.result import segments


@require_safe
@requires(Role.VIEWER)
def run_list(request: HttpRequest) -> HttpResponse:
    owners = seen_owners(request)
    filters = RunFilter(request.GET, owners=owners)
    listed = Run.objects.by_hand().filter(owner__in=owners).select_related("owner", "operator")
    page = page_of(request, _filtered(listed, filters.chosen), filters.order)
    return show(request, "pages/runs.html", "partials/runs.html", {"filters": filters, "page": page})


def _filtered(listed: QuerySet[Run], chosen: Mapping[str, str]) -> QuerySet[Run]:
    if chosen["q"]:
        listed = listed.filter(query__icontains=chosen["q"])
    if chosen["user"]:
        listed = listed.filter(owner__name=chosen["user"])
    if chosen["strategy"]:
        listed = listed.filter(strategy=chosen["strategy"])
    if chosen["outcome"]:
        fallback = "" if chosen["outcome"] == "chosen" else chosen["outcome"]
        listed = listed.filter(fallback=fallback, state=Run.State.FINISHED)
    return listed


@require_safe
@requires(Role.VIEWER)
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    found = run_or_404(request, pk)
    step = request.GET.get("step", "")
    context = fragments.run_context(
        found, runs.stored(pk), step=int(step) if step.isdecimal() and len(step) < 9 else None
    )
    return render(
        request,
        "pages/run.html",
        {**context, "section": fragments.run_section(context), "memory": found.owner, "language": get_language()},
    )


@require_safe
@requires(Role.VIEWER)
def run_topic(request: HttpRequest, pk: UUID, topic: int) -> HttpResponse:
    """A candidate of this run with its messages, the excerpt highlighted where it was found."""
    found = run_or_404(request, pk)
    stored = runs.stored(pk)
    events = [item.event for item in stored]
    states = fragments.states(fragments.event_views(stored, len(stored)))
    shown = Topic.objects.of(found.owner_id).filter(pk=topic).first()
    name = f"Topic:{topic}"
    candidate = next((c for e in events if isinstance(e, CandidatesFound) for c in e.candidates if c.id == name), None)
    if shown is None or candidate is None:
        raise Http404
    selected = next((s for e in events if isinstance(e, RunFinished) for s in e.selected if s.id == name), None)
    messages = Message.objects.of(found.owner_id).filter(topicmessage__topic=shown).in_order()
    pieces = selected.excerpt if selected else ()
    context = {
        "run": found,
        "topic": shown,
        "candidate": candidate,
        "selected": selected,
        "state": states.get(name, ""),
        "messages": [
            (message, segments(message.text, [piece for piece in pieces if piece.message == message.pk]))
            for message in messages
        ],
    }
    return show(request, "pages/run_topic.html", "partials/run_topic.html", context)
