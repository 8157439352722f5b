"""People the chat user talks about."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, QuerySet, Value, When
from django.utils.translation import gettext_lazy as _

from memoryapp.browsing.quality import FEW_MENTIONS
from memoryapp.models import KnowledgeEdit, Person
from rerankui.filters import MeaningFilter, choice
from rerankui.knowledge.extraction import extraction_context
from rerankui.lists.facets import Facet, of_month
from rerankui.lists.list_page import AskedList, ListPage
from rerankui.pages import Page

_MENTIONS = {"3": _("10 and more"), "2": _("2–9"), "1": _("once or never")}


class PersonFilter(MeaningFilter):
    placeholder = _("Search names, aliases, notes")
    SORTS = {"mentions": ("-mention_count", "-id"), "name": ("display_name", "id")}
    WORDS = ("display_name", "username", "bio", "aliases")
    circle = choice(_("Circle"), _("all circles"), list(Person.Circle.choices), by="circle")


class PeopleList(ListPage[Person, PersonFilter]):
    title = _("People")
    name, near, noun = "people", "people", KnowledgeEdit.Noun.PERSON
    form = PersonFilter
    columns = {
        "id": "pk",
        "name": "display_name",
        "also_called": "aliases",
        "username": "username",
        "circle": "circle",
        "about": "bio",
        "mentions": "mention_count",
        "first_seen": "first_seen",
        "last_seen": "last_seen",
    }
    page, partial = "pages/knowledge/people.html", "partials/knowledge/people.html"

    def rows(self, asked: AskedList[PersonFilter]) -> QuerySet[Person]:
        return Person.objects.filter(owner=asked.owner)

    def facets(self, asked: AskedList[PersonFilter]) -> tuple[Facet, ...]:
        mentions = Case(
            When(mention_count__gte=10, then=Value("3")),
            When(mention_count__gte=FEW_MENTIONS, then=Value("2")),
            default=Value("1"),
        )
        return (
            Facet("of", _("Circle"), "circle", dict(Person.Circle.choices)),
            Facet("mentions", _("Mentions"), mentions, _MENTIONS, in_order=True),
            of_month("seen", _("Last seen"), "last_seen"),
        )

    def more(self, asked: AskedList[PersonFilter], page: Page[Person], found: Any) -> dict[str, Any]:
        context = {
            "most": max((person.mention_count for person in page), default=0) or 1,
            "chosen": asked.request.GET.get("chosen", ""),
        }
        return context if asked.moment else context | extraction_context(asked.owner)


PEOPLE = PeopleList()
