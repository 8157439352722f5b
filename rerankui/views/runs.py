"""Runs: the list, one run (live or replay), and a topic as a run saw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import answer, media, runs
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.events import CandidatesFound, MediaItem, RunFinished
from memoryapp.engine.media import MediaError
from memoryapp.models import Message, PassageMessage, Role, Run, Topic
from rerankui import fragments, pictures
from rerankui.access import Request, operator_of, requires, run_or_404, seen_owners
from rerankui.filters import RunFilter
from rerankui.handed_over import NAMES
from rerankui.legend import AnyCandidate
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
        listed = listed.filter(_ended(chosen["outcome"]), state=Run.State.FINISHED)
    return listed


def _ended(outcome: str) -> Q:
    """``chosen`` and ``none`` are the model's own answers, with anything of the memory and with nothing of it."""
    if outcome not in ("chosen", "none"):
        return Q(fallback=outcome)
    nothing = Q(selected_count=0, selected_people_count=0, selected_artifact_count=0)
    return Q(nothing if outcome == "none" else ~nothing, fallback="")


@require_safe
@requires(Role.VIEWER)
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    found = run_or_404(request, pk)
    step = request.GET.get("step", "")
    context = fragments.run_context(
        found,
        runs.stored(pk),
        step=int(step) if step.isdecimal() and len(step) < 9 else None,
        progress=None if found.is_finished else fragments.progress_of(pk),
    )
    return render(
        request,
        "pages/run.html",
        {
            **context,
            "section": fragments.run_section(context),
            "memory": found.owner,
            "language": get_language(),
            "may_stop": context["is_live"] and operator_of(request).may(Role.DEBUGGER),
        },
    )


@require_safe
@requires(Role.VIEWER)
def run_frame(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What a viewer lacks who has the events up to ``last``; for a page whose socket is blocked."""
    found = run_or_404(request, pk)
    last = request.GET.get("last", "")
    seen = fragments.Seen(int(last) if last.isdecimal() and len(last) < 9 else -1)
    frame = fragments.frame(found.pk, seen=seen, language=get_language() or settings.LANGUAGE_CODE)
    return HttpResponse(frame.html, status=200 if frame.html else 204)


@require_safe
@requires(Role.VIEWER)
def run_json(request: HttpRequest, pk: UUID) -> JsonResponse:
    """The run as programs get it, with what it was asked."""
    found = run_or_404(request, pk)
    try:
        told = answer.document(found)
    except LookupError as error:
        raise Http404(str(error)) from error
    asked = {"user": found.owner.name, "query": found.query, "strategy": found.strategy, "parameters": found.parameters}
    return JsonResponse({**asked, **told}, json_dumps_params={"ensure_ascii": False, "indent": 2})


@require_safe
@requires(Role.VIEWER)
def run_below(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The candidates of a kind that were ranked and not shown to the model; without one the topics."""
    found = run_or_404(request, pk)
    views = fragments.event_views(runs.stored(pk))
    search = next((view.event for view in views if isinstance(view.event, CandidatesFound)), None)
    if search is None:
        raise Http404
    kinds: dict[str, Sequence[AnyCandidate]] = {"people": search.people, "artifacts": search.artifacts}
    ranked = kinds.get(request.GET.get("kind", ""), search.ranked())
    below = [candidate for candidate in ranked if not candidate.shown]
    context = {"run": found, "below": below, "states": fragments.states(views)}
    return show(request, "pages/run_below.html", "partials/run_below.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.DEBUGGER)
def run_stop(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a run that goes on; whoever opens the address is asked first."""
    found = run_or_404(request, pk)
    if request.method != "POST":
        return render(request, "pages/run_stop.html", {"run": found})
    runs.stop(found.pk, operator_of(request).user.get_username())
    return HttpResponse(status=204) if cast(Request, request).htmx else redirect("run", pk=found.pk)


@require_safe
@requires(Role.VIEWER)
def run_topic(request: HttpRequest, pk: UUID, topic: int) -> HttpResponse:
    """A candidate of this run with its messages, the excerpt highlighted where it was found."""
    found = run_or_404(request, pk)
    stored = runs.stored(pk)
    events = [item.event for item in stored]
    states = fragments.states(fragments.event_views(stored))
    shown = Topic.objects.of(found.owner_id).filter(pk=topic).first()
    name = f"Topic:{topic}"
    candidate = next((c for e in events if isinstance(e, CandidatesFound) for c in e.ranked() if c.id == name), None)
    if shown is None or candidate is None:
        raise Http404
    selected = next((s for e in events if isinstance(e, RunFinished) for s in e.selected if s.id == name), None)
    messages = list(Message.objects.of(found.owner_id).filter(topicmessage__topic=shown).in_order())
    pieces = selected.excerpt if selected else ()
    passage = PassageMessage.objects.filter(owner=found.owner_id, passage=candidate.passage_id)
    found_by = set(passage.values_list("message", flat=True))
    context = {
        "run": found,
        "topic": shown,
        "candidate": candidate,
        "selected": selected,
        "state": states.get(name, ""),
        "found_by": [message.pk for message in messages if message.pk in found_by],
        "marked_messages": [
            (message, segments(message.text, [piece for piece in pieces if piece.message == message.pk]))
            for message in messages
        ],
    }
    return show(request, "pages/run_topic.html", "partials/run_topic.html", context)


@require_safe
@requires(Role.VIEWER)
def run_item(request: HttpRequest, pk: UUID, item: str) -> HttpResponse:
    """A person or an artifact as this run found it."""
    run = run_or_404(request, pk)
    stored = runs.stored(pk)
    events = [item.event for item in stored]
    offered = [c for e in events if isinstance(e, CandidatesFound) for c in (*e.people, *e.artifacts)]
    shown = next((candidate for candidate in offered if candidate.id == item), None)
    if shown is None:
        raise Http404
    chosen = [s for e in events if isinstance(e, RunFinished) for s in (*e.people, *e.artifacts)]
    context = {
        "run": run,
        "item": shown,
        "selected": next((selected for selected in chosen if selected.id == item), None),
        "state": fragments.states(fragments.event_views(stored)).get(item, ""),
        "found_at": _found_at(run.owner_id, shown),
    }
    return show(request, "pages/run_item.html", "partials/run_item.html", context)


def _found_at(owner: int, item: ItemCandidate) -> str:
    """Where its list shows it."""
    kind, _colon, number = item.id.lower().partition(":")
    names = {"person": "people", "artifact": "artifacts"}
    return f"{reverse(names[kind], args=[owner])}?{urlencode({'q': item.name})}#{kind}-{number}"


@require_safe
@requires(Role.VIEWER)
def run_media(request: HttpRequest, pk: UUID, sha256: str) -> HttpResponse:
    """What came with the query of this run, as bytes."""
    run = run_or_404(request, pk)
    item = next((MediaItem(**item) for item in run.media if item["sha256"] == sha256), None)
    if item is None:
        raise Http404
    try:
        return pictures.answer(media.read(run.owner_id, item))
    except MediaError as error:
        raise Http404(str(error)) from error


@require_safe
@requires(Role.VIEWER)
def run_part(request: HttpRequest, pk: UUID, part: str) -> HttpResponse:
    """One part of the context this run handed over, as text."""
    run = run_or_404(request, pk)
    try:
        text = answer.part_text(run, part)
    except LookupError as error:
        raise Http404(str(error)) from error
    context = {"run": run, "name": NAMES.get(part, part), "text": text}
    return show(request, "pages/run_part.html", "partials/run_part.html", context)
