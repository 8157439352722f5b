"""Parts of a run, opened from its page: a candidate, candidates that were not shown, a part of the context, an
attachment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from memoryapp.browsing.topic_runs import topic_runs
from memoryapp.content import media
from memoryapp.curation import former
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.chat.media import MediaError
from memoryapp.engine.events import MediaItem
from memoryapp.engine.memory import document_id
from memoryapp.engine.outline import Outline
from memoryapp.models import Message, PassageMessage, Role, Run, Topic
from memoryapp.runs import followers, recall_document
from rerankui.access import requires, run_or_404
from rerankui.pages import show
from rerankui.runs import fragments
from rerankui.runs.page.context_parts import name_of
from rerankui.runs.page.legend import AnyCandidate
from rerankui.runs.page.result import segments
from rerankui.runs.page.score_parts import is_by_summary
from rerankui.text import pictures


@dataclass(frozen=True, slots=True)
class _Seen:
    """The ``run`` as a whole, and what a reader has seen of it ``until`` the step of the address: the state of each
    candidate, and the outline. ``at`` ends the addresses of its parts."""

    run: Outline
    until: Outline
    states: Mapping[str, str]
    at: str


def _seen(request: HttpRequest, pk: UUID) -> _Seen:
    stored = followers.stored(pk)
    step = fragments.step_of(request.GET.get("step", ""))
    until = [item for item in stored if step is None or item.seq <= step]
    return _Seen(
        Outline.of([view.event for view in fragments.event_views(stored)]),
        Outline.of([item.event for item in until]),
        fragments.states(fragments.event_views(until)),
        "" if step is None else f"?step={step}",
    )


@require_safe
@requires(Role.VIEWER)
def run_below(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Candidates of one kind that were ranked but not shown to the model; of topics, if no kind is given."""
    found = run_or_404(request, pk)
    seen = _seen(request, pk)
    search = seen.run.found
    if search is None:
        raise Http404
    kinds: dict[str, Sequence[AnyCandidate]] = {"people": search.people, "artifacts": search.artifacts}
    ranked = kinds.get(request.GET.get("kind", ""), search.candidates)
    below = [candidate for candidate in ranked if not candidate.shown]
    context = {"run": found, "below": below, "states": seen.states, "at": seen.at}
    context["by_similarity"] = fragments.by_similarity(found)
    return show(request, "pages/runs/run_below.html", "partials/runs/run_below.html", context)


@require_safe
@requires(Role.VIEWER)
def run_topic(request: HttpRequest, pk: UUID, topic: int) -> HttpResponse:
    """A candidate of this run with its messages, the excerpt highlighted where it was found."""
    run = run_or_404(request, pk)
    shown = Topic.objects.of(run.owner_id).filter(pk=topic).first()
    if shown is None:
        raise Http404
    messages = Message.objects.of(run.owner_id).filter(topicmessage__topic=shown)
    return _found_talk(request, run, f"Topic:{topic}", messages, seen_in=topic_runs(shown, former(shown)))


@require_safe
@requires(Role.VIEWER)
def run_session(request: HttpRequest, pk: UUID, session: int) -> HttpResponse:
    """An active session as this run found it; if it was archived since, with the topics that it is in."""
    run = run_or_404(request, pk)
    name = f"Session:{session}"
    search = Outline.of([item.event for item in followers.stored(pk)]).found
    messages = Message.objects.of(run.owner_id).filter(pk__in=list(search.sessions.get(name, ())) if search else [])
    topics = messages.filter(topic__isnull=False).order_by("topic").values_list("topic", flat=True).distinct()
    return _found_talk(request, run, name, messages, archived_as=list(topics))


def _found_talk(
    request: HttpRequest,
    found: Run,
    name: str,
    talk: QuerySet[Message],
    *,
    archived_as: Sequence[int] = (),
    seen_in: Any = None,
) -> HttpResponse:
    seen = _seen(request, found.pk)
    candidate = seen.run.topic(name)
    if candidate is None:
        raise Http404
    selected = seen.until.selected(name)
    messages = list(talk.order_by("sent_at", "pk"))
    pieces = selected.excerpt if selected else ()
    passage = PassageMessage.objects.filter(owner=found.owner_id, passage=candidate.passage_id)
    found_by = set(passage.values_list("message", flat=True))
    context = {
        "run": found,
        "archived_as": archived_as,
        "candidate": candidate,
        "selected": selected,
        "state": seen.states.get(name, ""),
        "found_by": [message.pk for message in messages if message.pk in found_by],
        "seen": seen_in,
        "by_summary": is_by_summary(candidate.parts),
        "marked_messages": [
            (message, segments(message.text, [piece for piece in pieces if piece.message == message.pk]))
            for message in messages
        ],
    }
    return show(request, "pages/runs/run_topic.html", "partials/runs/run_topic.html", context)


@require_safe
@requires(Role.VIEWER)
def run_document(request: HttpRequest, pk: UUID, document: str) -> HttpResponse:
    """A document of another program's memory, with its text as far as the program sent it."""
    run = run_or_404(request, pk)
    seen, name = _seen(request, pk), document_id(document)
    candidate = seen.run.topic(name)
    if candidate is None:
        raise Http404
    context = {"run": run, "candidate": candidate, "selected": seen.until.selected(name)}
    context["state"] = seen.states.get(name, "")
    return show(request, "pages/runs/run_document.html", "partials/runs/foreign/document.html", context)


@require_safe
@requires(Role.VIEWER)
def run_item(request: HttpRequest, pk: UUID, item: str) -> HttpResponse:
    """A person or an artifact as this run found it."""
    run = run_or_404(request, pk)
    seen = _seen(request, pk)
    shown = seen.run.item(item)
    if shown is None:
        raise Http404
    context = {
        "run": run,
        "item": shown,
        "selected": seen.until.selected(item),
        "state": seen.states.get(item, ""),
        "found_at": _found_at(run.owner_id, shown),
    }
    return show(request, "pages/runs/run_item.html", "partials/runs/run_item.html", context)


def _found_at(owner_id: int, item: ItemCandidate) -> str:
    """The address of the item in its list."""
    kind, _colon, number = item.id.lower().partition(":")
    names = {"person": "people", "artifact": "artifacts"}
    return f"{reverse(names[kind], args=[owner_id])}?{urlencode({'q': item.name})}#{kind}-{number}"


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
    """Shows one part of the context of this run, as text."""
    run = run_or_404(request, pk)
    try:
        text = recall_document.part_text(run, part)
    except LookupError as error:
        raise Http404(str(error)) from error
    context = {"run": run, "name": name_of(part, recall_document.handed_over(run)), "text": text}
    return show(request, "pages/runs/run_part.html", "partials/runs/run_part.html", context)
