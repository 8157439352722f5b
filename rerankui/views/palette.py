"""The palette: sections, chat users and topics by a few letters."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp import browse
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Topic
from rerankui.access import seen_owners
from rerankui.filters import LONGEST_SEARCH
from rerankui.frame import Frame
from rerankui.pages import show

FEW = 8


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    frame = Frame(request)
    seen = seen_owners(request)
    context: dict[str, Any] = {
        "words": words,
        "sections": [section for section in frame.sections if words.lower() in section.label.lower()],
        "owners": seen.filter(Q(name__icontains=words) | Q(display_name__icontains=words))[:FEW] if words else [],
        "topics": [],
    }
    if words:
        topics = Topic.objects.live().filter(owner__in=seen).select_related("owner")
        found = browse.topics_by_words(topics, words, parse_topic_id(words))
        context["topics"] = found.order_by("-ended_at", "-id")[:FEW]
    return show(request, "pages/find.html", "partials/found.html", context)
