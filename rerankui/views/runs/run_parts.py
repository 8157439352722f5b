"""Parts of a run, opened from its page: a candidate, candidates that were not shown, a part of the context, an
attachment.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from memoryapp import media
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.chat.media import MediaError
from memoryapp.engine.events import MediaItem
from memoryapp.engine.outline import Outline
from memoryapp.models import Message, PassageMessage, Role, Topic
from memoryapp.runs import following, recall_document
from rerankui import fragments
from rerankui.access import requires, run_or_404
from rerankui.pages import show
from rerankui.run.context_parts import NAMES
from rerankui.run.legend import AnyCandidate
from rerankui.run.result import segments
from rerankui.run.score_parts import is_by_summary
from rerankui.text import pictures


@require_safe
@requires(Role.VIEWER)
def run_below(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Candidates of one kind that were ranked but not shown to the model; of topics, if no kind is given."""
    found = run_or_404(request, pk)
    views = fragments.event_views(following.stored(pk))
    search = Outline.of([view.event for view in views]).found
    if search is None:
        raise Http404
    kinds: dict[str, Sequence[AnyCandidate]] = {"people": search.people, "artifacts": search.artifacts}
    ranked = kinds.get(request.GET.get("kind", ""), search.ranked())
    below = [candidate for candidate in ranked if not candidate.shown]
    context = {"run": found, "below": below, "states": fragments.states(views)}
    return show(request, "pages/runs/run_below.html", "partials/runs/run_below.html", context)


@require_safe
@requires(Role.VIEWER)
def run_topic(request: HttpRequest, pk: UUID, topic: int) -> HttpResponse:
    """A candidate of this run with its messages, the excerpt highlighted where it was found."""
    found = run_or_404(request, pk)
    stored = following.stored(pk)
    outline = Outline.of([item.event for item in stored])
    states = fragments.states(fragments.event_views(stored))
    shown = Topic.objects.of(found.owner_id).filter(pk=topic).first()
    name = f"Topic:{topic}"
    candidate = outline.topic(name)
    if shown is None or candidate is None:
        raise Http404
    selected = outline.selected(name)
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
        "by_summary": is_by_summary(candidate.parts),
        "marked_messages": [
            (message, segments(message.text, [piece for piece in pieces if piece.message == message.pk]))
            for message in messages
        ],
    }
    return show(request, "pages/runs/run_topic.html", "partials/runs/run_topic.html", context)


@require_safe
@requires(Role.VIEWER)
def run_item(request: HttpRequest, pk: UUID, item: str) -> HttpResponse:
    """A person or an artifact as this run found it."""
    run = run_or_404(request, pk)
    stored = following.stored(pk)
    outline = Outline.of([each.event for each in stored])
    shown = outline.item(item)
    if shown is None:
        raise Http404
    context = {
        "run": run,
        "item": shown,
        "selected": outline.selected(item),
        "state": fragments.states(fragments.event_views(stored)).get(item, ""),
        "found_at": _found_at(run.owner_id, shown),
    }
    return show(request, "pages/runs/run_item.html", "partials/runs/run_item.html", context)


def _found_at(owner: int, item: ItemCandidate) -> str:
    """The address of the item in its list."""
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
    """Shows one part of the context of this run, as text."""
    run = run_or_404(request, pk)
    try:
        text = recall_document.part_text(run, part)
    except LookupError as error:
        raise Http404(str(error)) from error
    context = {"run": run, "name": NAMES.get(part, part), "text": text}
    return show(request, "pages/runs/run_part.html", "partials/runs/run_part.html", context)
