"""Artifacts: files that were sent, with what was understood of them."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp.models import Artifact, Role
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import ArtifactFilter
from rerankui.pages import page_of, show


@require_safe
def artifacts(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    filters = ArtifactFilter(request.GET)
    found = Artifact.objects.filter(owner=of).select_related("message")
    words = filters.chosen["q"]
    if words:
        contents = Q(summary__icontains=words) | Q(keywords__icontains=words) | Q(entities__icontains=words)
        found = found.filter(Q(name__icontains=words) | contents)
    if filters.chosen["state"]:
        found = found.filter(state=filters.chosen["state"])
    context = {
        "owner": of,
        "filters": filters,
        "page": page_of(request, found, filters.order),
        "total": found.count(),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return show(request, "pages/artifacts.html", "partials/artifacts.html", context)
