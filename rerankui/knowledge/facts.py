"""Facts: what is known of the chat user, the weightiest first."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from memoryapp import curation, past
from memoryapp.models import ChatUser, Fact, KnowledgeEdit, Role
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import FactFilter
from rerankui.knowledge.extraction import extraction_context
from rerankui.lists import of_items
from rerankui.lists.by_meaning import near_list
from rerankui.lists.downloads import download
from rerankui.lists.facets import counted, is_narrowed, narrowed
from rerankui.pages import is_partial, page_of, show
from rerankui.past.lists import file_of_rows, page_of_rows, with_words
from rerankui.web.moment import moment_of


@require_safe
def facts(request: HttpRequest, owner_id: int) -> HttpResponseBase:
    owner = owner_or_404(request, owner_id)
    filters = FactFilter(request.GET)
    if moment := moment_of(request):
        return _facts_then(request, owner, filters, moment)
    listed: QuerySet[Fact] = Fact.objects.filter(owner=owner)
    near = near_list(owner, filters, "facts")
    words = filters.chosen["q"]
    if near:
        listed = near.of(listed)
    elif words:
        labels = Q(relation__icontains=words) | Q(category__icontains=words)
        listed = listed.filter(Q(content__icontains=words) | labels)
    if filters.chosen["time"] != "all":
        listed = listed.filter(superseded_at__isnull=filters.chosen["time"] != "past")
    if filters.chosen["type"]:
        listed = listed.filter(type=filters.chosen["type"])
    facets = of_items.fact_facets()
    found = narrowed(listed, facets, request.GET)
    if file := download(request, found, of_items.FACTS, near.order if near else filters.order, f"facts-{owner.pk}"):
        return file
    page = near.page(found) if near else page_of(request, found, filters.order)
    context = {
        "owner": owner,
        "filters": filters,
        "page": page,
        "holders": curation.heirs(owner.pk, [fact.topic_id for fact in page if fact.topic_id]),
        "total": found.count(),
        "facets": counted(request, listed, facets),
        "near": near,
        "is_narrowed": filters.is_narrowed or is_narrowed(facets, request.GET),
        "is_partial": is_partial(request),
        "may_change": operator_of(request).may(Role.CURATOR),
        **extraction_context(owner),
    }
    return show(request, "pages/knowledge/facts.html", "partials/knowledge/facts.html", context)


def _facts_then(request: HttpRequest, owner: ChatUser, filters: FactFilter, moment: datetime) -> HttpResponseBase:
    """The facts of the moment, as they were noted then."""
    rows: list[Fact] = past.known_at(owner.pk, KnowledgeEdit.Noun.FACT, moment)
    found = with_words(rows, filters.chosen["q"], lambda row: (row.content, row.relation, row.category))
    if filters.chosen["time"] != "all":
        found = [row for row in found if bool(row.superseded_at) == (filters.chosen["time"] == "past")]
    if kind := filters.chosen["type"]:
        found = [row for row in found if row.type == kind]
    if file := file_of_rows(request, found, of_items.FACTS, filters.order, f"facts-{owner.pk}"):
        return file
    page = page_of_rows(request, found, filters.order)
    holders = past.holders_at(owner.pk, [fact.topic_id for fact in page if fact.topic_id], moment)
    context = {"owner": owner, "filters": filters, "page": page, "holders": holders, "total": len(found)}
    context |= {"is_past": True, "is_partial": is_partial(request)}
    return show(request, "pages/knowledge/facts.html", "partials/knowledge/facts.html", context)
