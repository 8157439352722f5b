"""How far facts and people are extracted, for a panel on their lists, and topics that failed, to be read again."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryapp import extraction
from memoryapp.models import ChatUser, Role
from memoryapp.suggestions.proposals import is_model_connected
from rerankui.access import operator_of, owner_or_404, requires

MOST_FAILED = 100


def extraction_context(owner: ChatUser) -> dict[str, Any]:
    """What the panel shows: the mode, what waits to be decided and to be read, and whether there is a model."""
    return {
        "has_model": is_model_connected(),
        "backlog": extraction.backlog(owner),
        "to_decide": extraction.waiting(owner).count(),
    }


@require_http_methods(("GET", "HEAD", "POST"))
def extraction_panel(request: HttpRequest, owner_id: int) -> HttpResponse:
    """The topics that could not be read and why; posted, those named (``topic``) or all of them are read again."""
    owner = owner_or_404(request, owner_id)
    if request.method == "POST":
        answer: HttpResponse = _retry(request, owner)
        return answer
    context = {
        "owner": owner,
        "failed": extraction.failed(owner)[:MOST_FAILED],
        "may_change": operator_of(request).may(Role.CURATOR),
        **extraction_context(owner),
    }
    return render(request, "pages/knowledge/extraction.html", context)


@requires(Role.CURATOR)
def _retry(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    rows = extraction.failed(owner)
    topic = request.POST.get("topic", "")
    if topic:
        rows = rows.filter(topic=int(topic)) if topic.isdecimal() and len(topic) < 19 else rows.none()
    extraction.retry(rows)
    return redirect("extraction", owner_id=owner.pk)
