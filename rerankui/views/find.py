"""The palette: pages, chat users, topics, people, artifacts and runs by a few letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from memoryapp.browsing.summary_search import topics_by_words
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Artifact, ChatUser, Person, Run, Topic
from rerankui.access import visible_owners
from rerankui.filters import LONGEST_SEARCH
from rerankui.frame import PageFrame, Section
from rerankui.pages import show

FEW = 8
# Queries have no index of words; older runs are found in their list.
RUNS_LOOKED_AT = 2_000


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    frame, seen = PageFrame(request), visible_owners(request)
    context: dict[str, Any] = {
        "words": words,
        "sections": [page for page in _pages(frame) if words.lower() in page.label.lower()],
    }
    if words:
        context |= _results(seen, words)
    context["is_empty"] = not any(value for name, value in context.items() if name != "words")
    context["has_topics_here"] = any(topic.owner == frame.owner for topic in context.get("topics", ()))
    return show(request, "pages/find.html", "partials/find/found.html", context)


def _pages(frame: PageFrame) -> list[Section]:
    """Returns the sections, and the pages of this memory in one of them."""
    below: Sequence[Section] = ()
    if frame.owner is not None:
        of = [frame.owner.pk]
        below = (
            Section("topic_map", _("Map of topics"), "chart-dots", reverse("topic_map", args=of), is_current=False),
            Section("imports", _("Imports"), "database-import", reverse("imports", args=of), is_current=False),
        )
    return [*frame.sections, *below]


def _results(seen: QuerySet[ChatUser], words: str) -> dict[str, Any]:
    """What is called so in any memory that may be seen, a few of each; a query for each noun."""
    topics = topics_by_words(Topic.objects.live().filter(owner__in=seen), words, parse_topic_id(words))
    called = Q(display_name__icontains=words) | Q(username__icontains=words) | Q(aliases__icontains=words)
    people = Person.objects.filter(called, owner__in=seen).order_by("-mention_count", "pk")
    artifacts = Artifact.objects.filter(name__icontains=words, owner__in=seen).order_by("-created_at", "-pk")
    latest = Run.objects.filter(owner__in=seen, evaluation__isnull=True).order_by("-created_at", "-id")
    runs = Run.objects.filter(pk__in=latest.values("pk")[:RUNS_LOOKED_AT]).filter(_run_condition(words))
    return {
        "owners": seen.filter(Q(name__icontains=words) | Q(display_name__icontains=words))[:FEW],
        "topics": topics.select_related("owner").order_by("-ended_at", "-id")[:FEW],
        "people": people.select_related("owner")[:FEW],
        "artifacts": artifacts.select_related("owner")[:FEW],
        "runs": runs.order_by("-created_at", "-id")[:FEW],
    }


def _run_condition(words: str) -> Q:
    """A run by the words of its query, or by the beginning of its id."""
    return Q(query__icontains=words) | Q(id__istartswith=words)
