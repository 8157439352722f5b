"""The quality of one memory, or of all that the operator may see: figures, each leading to the list that fixes it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryapp.browsing.quality import Quality, qualities
from rerankui.access import owner_or_404, visible_owners
from rerankui.lists import of_quality
from rerankui.pages import page_of


@require_safe
def quality(request: HttpRequest, owner_id: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    found = qualities([owner], now=timezone.now())[owner.pk]
    return render(
        request,
        "pages/quality/quality.html",
        {"owner": owner, "found": found, "sections": of_quality.sections(owner, found)},
    )


@require_safe
def quality_of_all(request: HttpRequest) -> HttpResponse:
    page = page_of(request, visible_owners(request), ("name", "id"))
    found = qualities(page.rows, now=timezone.now())
    rows = [(owner, of_quality.row(owner, found[owner.pk])) for owner in page]
    total = sum(found.values(), Quality())
    sums = [head.of(total) for head in of_quality.heads()]
    context = {"page": page, "rows": rows, "heads": of_quality.heads(), "sums": sums}
    return render(request, "pages/quality/quality_all.html", context)
