"""Facts: what is known of the chat user, the weightiest first."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp import curation
from memoryapp.models import Fact, Role
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import FactFilter
from rerankui.pages import page_of, show
from rerankui.views.knowledge.extraction import extraction_context


@require_safe
def facts(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    filters = FactFilter(request.GET)
    found = Fact.objects.filter(owner=of)
    words = filters.chosen["q"]
    if words:
        labels = Q(relation__icontains=words) | Q(category__icontains=words)
        found = found.filter(Q(content__icontains=words) | labels)
    if filters.chosen["time"] != "all":
        found = found.filter(superseded_at__isnull=filters.chosen["time"] != "past")
    if filters.chosen["type"]:
        found = found.filter(type=filters.chosen["type"])
    page = page_of(request, found, filters.order)
    context = {
        "owner": of,
        "filters": filters,
        "page": page,
        "holders": curation.heirs(of.pk, [fact.topic_id for fact in page if fact.topic_id]),
        "total": found.count(),
        "may_change": operator_of(request).may(Role.CURATOR),
        **extraction_context(of),
    }
    return show(request, "pages/knowledge/facts.html", "partials/knowledge/facts.html", context)
