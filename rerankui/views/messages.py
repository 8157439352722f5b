"""Messages as a conversation, from the newest back; a permalink shows one among its neighbours."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from django.db.models import BigIntegerField, OuterRef, Prefetch, Q, QuerySet, Subquery, prefetch_related_objects
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.erasure.expiry import note_going
from memoryapp.insight.browsing.quality import MOST_MONTHS, messages_by_month
from memoryapp.memory import past
from memoryapp.models import ChatUser, ExpiringRow, GuardKind, GuardSpot, Message, Role
from rerankui.frame.access import Request, message_or_404, open_to, operator_of
from rerankui.frame.filters import MeaningFilter, choice
from rerankui.frame.pages import Page, is_partial
from rerankui.lists.facets import Facet, is_narrowed, of_month, of_project
from rerankui.lists.list_page import AskedList, ListPage
from rerankui.text.talk import talk_of
from rerankui.web.moment import moment_of

MOST_COUNTED = 1_000

Month = tuple[date, int]


class MessageFilter(MeaningFilter):
    placeholder = _("Search what was said")
    SORTS = {"newest": ("-sent_at", "-id")}
    WORDS = ("text",)
    role = choice(_("Who"), pgettext_lazy("messages of", "everyone"), list(Message.Author.choices), by="role")
    place = choice(
        _("Where"),
        _("all messages"),
        [
            ("active", _("in no topic yet")),
            ("forwarded", pgettext_lazy("messages", "forwarded")),
            ("withdrawn", pgettext_lazy("messages", "withdrawn")),
        ],
        by={"forwarded": ~Q(forwarded_from="")},
    )


class MessageList(ListPage[Message, MessageFilter]):
    title = _("Messages")
    name = near = "messages"
    form = MessageFilter
    columns = {
        "id": "pk",
        "external_id": "external_id",
        "sent_at": "sent_at",
        "role": "role",
        "author": "author",
        "text": "text",
        "topic": "topic_id",
    }
    # The column says where a message is today.
    has_past, today_only = True, frozenset(("topic",))
    page, partial = "pages/messages.html", "partials/messages/messages.html"
    size, latest, is_counted = 80, True, False

    def asked(self, request: HttpRequest, owner: ChatUser) -> AskedList[MessageFilter]:
        at, moment, filters = _pointed_at(request, owner), moment_of(request), MessageFilter(request.GET)
        near = None if at or moment else self.nearest(owner, filters)
        asked = AskedList(owner, filters, moment, near, request=request)
        is_there = at and (not moment or self.listed(asked).filter(pk=at.pk).exists())
        return replace(asked, at=at) if is_there else asked

    def rows(self, asked: AskedList[MessageFilter]) -> QuerySet[Message]:
        """Messages of a withdrawn import are listed alone, or around one of them that an old run leads to; nothing was
        withdrawn of those that were in by a moment."""
        owner, place, moment = asked.owner, asked.filters.chosen["place"], asked.moment
        if moment:
            if place == "withdrawn":
                return Message.objects.none()
            return past.in_no_topic_at(owner.pk, moment) if place == "active" else past.messages_at(owner.pk, moment)
        found = Message.objects.of(owner)
        if place == "withdrawn":
            return found.filter(is_withdrawn=True)
        if not (asked.at and asked.at.is_withdrawn):
            aside = _aside(owner).values_list(Cast("number", BigIntegerField()))
            found = found.filter(Q(is_withdrawn=False) | Q(pk__in=aside))
        return found.active() if place == "active" else found

    def facets(self, asked: AskedList[MessageFilter]) -> tuple[Facet, ...]:
        if asked.moment:
            return ()
        return (
            Facet("who", _("Author"), "author"),
            Facet("as", _("Role"), "role", dict(Message.Author.choices)),
            of_project(),
            Facet("chat", _("Chat or session"), "session"),
            of_month("month", _("Month"), "sent_at"),
            Facet("file", _("Imported from"), "batch__source"),
            Facet("guard", _("The guard found"), Subquery(_FOUND.values("kind")[:1]), dict(GuardKind.choices)),
        )

    def shown(self, asked: AskedList[MessageFilter], found: Any) -> Page[Message]:
        return super().shown(asked, found.select_related("topic"))

    def more(self, asked: AskedList[MessageFilter], page: Page[Message], found: Any) -> dict[str, Any]:
        request, filters, at = cast(Request, asked.request), asked.filters, asked.at
        rows = list(page.rows) if asked.near else list(page.rows)[::-1]
        prefetch_related_objects(rows, Prefetch("spots", GuardSpot.objects.order_by("state"), to_attr="guarded"))
        if asked.moment:
            # In the topics of that moment; these rows are not to be saved.
            topics = past.topics_of([row.pk for row in rows], asked.owner.pk, asked.moment)
            for row in rows:
                row.topic, row.is_withdrawn = topics.get(row.pk), False
        else:
            note_going(asked.owner, ["message"], [row for row in rows if row.is_withdrawn])
        months = messages_by_month(asked.owner) if not asked.moment and _wants_months(request, filters) else []
        # Months count what is recalled: while the list has messages that a rule set aside, the facet alone counts them.
        months = months if months and not _aside(asked.owner).exists() else []
        is_some = filters.is_narrowed or is_narrowed(self.facets(asked), asked.query)
        total = 0 if at else _total(found, page, filters, () if is_some else months)
        return {
            "talk": talk_of(rows, here=at.pk if at else None),
            "total": total,
            "more": "+" if filters.chosen["q"] and total >= MOST_COUNTED else "",
            "at": at,
            "may_erase": operator_of(request).may(Role.ADMIN),
            "months": months,
            "busiest": max((count for _month, count in months), default=0),
        }


MESSAGES = MessageList()
_FOUND = GuardSpot.objects.filter(message=OuterRef("pk")).order_by("pk")


def _aside(owner: ChatUser) -> QuerySet[ExpiringRow]:
    return ExpiringRow.objects.filter(owner=owner, kept_by="", batch__edit__isnull=False, batch__state="aside")


def _wants_months(request: Request, filters: MessageFilter) -> bool:
    """Months count all messages and lead out of a search, so it has none; the list alone brings them as one is left."""
    if filters.chosen["q"]:
        return False
    return not is_partial(request) or "q" in parse_qs(urlsplit(request.htmx.current_url or "").query)


@open_to(Role.VIEWER)
def session(request: Request, message: int) -> HttpResponse:
    """The messages of an active session, by the number of its first one; there they also are once it is archived."""
    first = message_or_404(request, message)
    at = request.GET.get("at", "")
    number = at if at.isdecimal() else first.pk
    return redirect(f"{reverse('messages', args=[first.owner_id])}?at={number}#message-{number}")


def _total(found: QuerySet[Message], page: Page[Message], filters: MessageFilter, months: Sequence[Month]) -> int:
    """How many are found, by their texts up to ``MOST_COUNTED``: each is looked at. Nothing is counted where the page
    holds all of them, nor where ``months`` say how many there are."""
    if not (page.before or page.after):
        return len(page)
    if filters.chosen["q"]:
        return found.order_by().values("pk")[:MOST_COUNTED].count()
    if months and len(months) < MOST_MONTHS:
        return sum(count for _month, count in months)
    return found.count()


def _pointed_at(request: HttpRequest, owner: ChatUser) -> Message | None:
    """The message of a permalink (``at``), or the first one of a day (``on``)."""
    if "at" in request.GET:
        number = request.GET["at"]
        found = Message.objects.of(owner).filter(pk=number).first() if number.isdecimal() else None
        if found is None:
            raise Http404
        return found
    day = _day(request.GET.get("on", ""))
    return Message.objects.of(owner).present().filter(sent_at__gte=day).in_order().first() if day else None


def _day(text: str) -> datetime | None:
    try:
        day: date | None = parse_date(text)
    except ValueError:
        return None
    return timezone.make_aware(datetime(day.year, day.month, day.day)) if day else None
