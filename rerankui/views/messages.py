"""Messages as a conversation, from the newest back; a permalink shows one among its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from memoryapp import past
from memoryapp.browsing.months import MOST_MONTHS, messages_by_month
from memoryapp.models import ChatUser, Message, Role
from rerankui.access import Request, message_or_404, operator_of, owner_or_404
from rerankui.filters import MessageFilter
from rerankui.lists import of_items
from rerankui.lists.by_meaning import NearList, near_list
from rerankui.lists.downloads import download
from rerankui.lists.facets import counted, is_narrowed, narrowed
from rerankui.pages import Page, is_partial, page_around, page_of, show
from rerankui.text.talk import talk_of
from rerankui.web.moment import moment_of

SHOWN = 80
MOST_COUNTED = 1_000

Month = tuple[date, int]


@require_safe
def messages(request: Request, owner_id: int) -> HttpResponseBase:
    owner, moment = owner_or_404(request, owner_id), moment_of(request)
    filters, near = MessageFilter(request.GET), None
    at = _pointed_at(request, owner)
    if moment:
        listed = _filtered_then(owner, filters, moment)
        at = at if at and listed.filter(pk=at.pk).exists() else None
    else:
        near = None if at else near_list(owner, filters, "messages")
        listed = _filtered(owner, filters, with_withdrawn=bool(at and at.is_withdrawn), near=near)
    facets = () if moment else of_items.message_facets()
    found = narrowed(listed, facets, request.GET).select_related("topic")
    columns = of_items.MESSAGES_THEN if moment else of_items.MESSAGES
    if file := download(request, found, columns, near.order if near else filters.order, f"messages-{owner.pk}"):
        return file
    page = _page(request, found, filters, at, near)
    rows = list(page.rows) if near else list(page.rows)[::-1]
    if moment:
        _shelve(owner, rows, moment)
    months = messages_by_month(owner) if not moment and _wants_months(request, filters) else []
    is_some = filters.is_narrowed or is_narrowed(facets, request.GET)
    total = 0 if at else _total(found, page, filters, () if is_some else months)
    context: dict[str, Any] = {
        "owner": owner,
        "filters": filters,
        "page": page,
        "talk": talk_of(rows, here=at.pk if at else None),
        "total": total,
        "more": "+" if filters.chosen["q"] and total >= MOST_COUNTED else "",
        "at": at,
        "facets": counted(request, listed, facets, filters.order),
        "is_narrowed": is_some,
        "near": near,
        "is_past": moment is not None,
        "may_erase": operator_of(request).may(Role.ADMIN),
        "months": months,
        "is_swapped": is_partial(request),
        "busiest": max((count for _month, count in months), default=0),
    }
    return show(request, "pages/messages.html", "partials/messages/messages.html", context)


def _page(
    request: Request, found: QuerySet[Message], filters: MessageFilter, at: Message | None, near: NearList | None
) -> Page[Message]:
    if near:
        return near.page(found)
    return page_around(found, filters.order, at, SHOWN) if at else page_of(request, found, filters.order, SHOWN)


def _wants_months(request: Request, filters: MessageFilter) -> bool:
    """Months count all messages and lead out of a search, so it has none; the list alone brings them as one is left."""
    if filters.chosen["q"]:
        return False
    return not is_partial(request) or "q" in parse_qs(urlsplit(request.htmx.current_url or "").query)


@require_safe
def session(request: Request, message: int) -> HttpResponse:
    """The messages of an active session, by the number of its first one; there they also are once it is archived."""
    first = message_or_404(request, message)
    at = request.GET.get("at", "")
    number = at if at.isdecimal() else first.pk
    return redirect(f"{reverse('messages', args=[first.owner_id])}?at={number}#message-{number}")


def _total(found: QuerySet[Message], page: Page[Message], filters: MessageFilter, months: Sequence[Month]) -> int:
    """How many are found, by their texts up to ``MOST_COUNTED``: each is looked at.

    Nothing is counted where the page holds all of them, nor where ``months`` say how many there are.
    """
    if not (page.before or page.after):
        return len(page)
    if filters.chosen["q"]:
        return found.order_by().values("pk")[:MOST_COUNTED].count()
    if months and len(months) < MOST_MONTHS:
        return sum(count for _month, count in months)
    return found.count()


def _filtered(
    owner: ChatUser, filters: MessageFilter, *, with_withdrawn: bool, near: NearList | None
) -> QuerySet[Message]:
    """Messages of a withdrawn import are listed alone, or around one of them that an old run leads to."""
    found, chosen = Message.objects.of(owner), filters.chosen
    if chosen["place"] == "withdrawn":
        found = found.filter(is_withdrawn=True)
    elif not with_withdrawn:
        found = found.present()
    found = found.active() if chosen["place"] == "active" else found
    return _of_kind(near.of(found), filters) if near else _worded(found, filters)


def _worded(found: QuerySet[Message], filters: MessageFilter) -> QuerySet[Message]:
    chosen = filters.chosen
    return _of_kind(found.filter(text__icontains=chosen["q"]) if chosen["q"] else found, filters)


def _of_kind(found: QuerySet[Message], filters: MessageFilter) -> QuerySet[Message]:
    chosen = filters.chosen
    if chosen["role"]:
        found = found.filter(role=chosen["role"])
    if chosen["place"] == "forwarded":
        found = found.exclude(forwarded_from="")
    return found


def _filtered_then(owner: ChatUser, filters: MessageFilter, moment: datetime) -> QuerySet[Message]:
    """Messages that were in by the moment; nothing was withdrawn of them then."""
    chosen = filters.chosen
    is_active = chosen["place"] == "active"
    found = past.in_no_topic_at(owner.pk, moment) if is_active else past.messages_at(owner.pk, moment)
    if chosen["place"] == "withdrawn":
        return found.none()
    return _worded(found, filters)


def _shelve(owner: ChatUser, rows: Sequence[Message], moment: datetime) -> None:
    """Gives the messages the topics in which they were at the moment. They are not to be saved."""
    topics = past.topics_of([row.pk for row in rows], owner.pk, moment)
    for row in rows:
        row.topic, row.is_withdrawn = topics.get(row.pk), False


def _pointed_at(request: HttpRequest, owner: ChatUser) -> Message | None:
    """The message of a permalink (``at``), or the first one of a day (``on``)."""
    if "at" in request.GET:
        return _message_or_404(owner, request.GET["at"])
    day = _day(request.GET.get("on", ""))
    return Message.objects.of(owner).present().filter(sent_at__gte=day).in_order().first() if day else None


def _message_or_404(owner: ChatUser, number: str) -> Message:
    found = Message.objects.of(owner).filter(pk=number).first() if number.isdecimal() else None
    if found is None:
        raise Http404
    return found


def _day(text: str) -> datetime | None:
    try:
        day: date | None = parse_date(text)
    except ValueError:
        return None
    return timezone.make_aware(datetime(day.year, day.month, day.day)) if day else None
