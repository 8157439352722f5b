"""People the chat user talks about."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from memoryapp import past
from memoryapp.models import ChatUser, KnowledgeEdit, Person, Role
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import PersonFilter
from rerankui.knowledge.extraction import extraction_context
from rerankui.lists import of_items
from rerankui.lists.by_meaning import near_list
from rerankui.lists.downloads import download
from rerankui.lists.facets import counted, is_narrowed, narrowed
from rerankui.pages import is_partial, page_of, show
from rerankui.past.lists import file_of_rows, page_of_rows, with_words
from rerankui.web.moment import moment_of


@require_safe
def people(request: HttpRequest, owner_id: int) -> HttpResponseBase:
    owner = owner_or_404(request, owner_id)
    filters = PersonFilter(request.GET)
    if moment := moment_of(request):
        return _people_then(request, owner, filters, moment)
    listed = Person.objects.filter(owner=owner)
    near = near_list(owner, filters, "people")
    words = filters.chosen["q"]
    if near:
        listed = near.of(listed)
    elif words:
        names = Q(display_name__icontains=words) | Q(username__icontains=words) | Q(bio__icontains=words)
        listed = listed.filter(names | Q(aliases__icontains=words))
    if filters.chosen["circle"]:
        listed = listed.filter(circle=filters.chosen["circle"])
    facets = of_items.people_facets()
    found = narrowed(listed, facets, request.GET)
    if file := download(request, found, of_items.PEOPLE, near.order if near else filters.order, f"people-{owner.pk}"):
        return file
    page = near.page(found) if near else page_of(request, found, filters.order)
    most = max((person.mention_count for person in page), default=0)
    context = {
        "owner": owner,
        "filters": filters,
        "page": page,
        "most": most or 1,
        "total": found.count(),
        "may_change": operator_of(request).may(Role.CURATOR),
        **extraction_context(owner),
        "chosen": request.GET.get("chosen", ""),
        "facets": counted(request, listed, facets),
        "near": near,
        "is_narrowed": filters.is_narrowed or is_narrowed(facets, request.GET),
        "is_partial": is_partial(request),
    }
    return show(request, "pages/knowledge/people.html", "partials/knowledge/people.html", context)


def _people_then(request: HttpRequest, owner: ChatUser, filters: PersonFilter, moment: datetime) -> HttpResponseBase:
    """The people of the moment, with what was known of them then."""
    rows: list[Person] = past.known_at(owner.pk, KnowledgeEdit.Noun.PERSON, moment)
    found = with_words(rows, filters.chosen["q"], lambda row: (row.display_name, row.username, row.bio, *row.aliases))
    if circle := filters.chosen["circle"]:
        found = [row for row in found if row.circle == circle]
    if file := file_of_rows(request, found, of_items.PEOPLE, filters.order, f"people-{owner.pk}"):
        return file
    page = page_of_rows(request, found, filters.order)
    most = max((person.mention_count for person in page), default=0)
    context = {"owner": owner, "filters": filters, "page": page, "most": most or 1, "total": len(found)}
    context |= {"is_past": True, "is_partial": is_partial(request)}
    return show(request, "pages/knowledge/people.html", "partials/knowledge/people.html", context)
