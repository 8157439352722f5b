"""Facts: what is known of the chat user, the weightiest first."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, QuerySet, Value, When
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp import curation, past
from memoryapp.browsing.quality import WEEK
from memoryapp.models import Fact, KnowledgeEdit
from rerankui.filters import MeaningFilter, choice
from rerankui.knowledge.extraction import extraction_context
from rerankui.lists.facets import Facet, of_month
from rerankui.lists.list_page import AskedList, ListPage
from rerankui.pages import Page

_IMPORTANCE = {"3": _("80 and more: part of the profile"), "2": _("50–79"), "1": _("under 50")}
_REPLACED = {"week": _("within a week"), "before": _("earlier"), "no": _("not replaced")}


class FactFilter(MeaningFilter):
    placeholder = _("Search facts")
    SORTS = {"importance": ("-importance", "-id"), "newest": ("-created_at", "-id"), "category": ("category", "id")}
    WORDS = ("content", "relation", "category")
    type = choice(_("Type"), _("all types"), list(Fact.Type.choices), by="type")
    time = choice(
        _("True when"),
        _("true today"),
        [("past", pgettext_lazy("facts", "true in the past")), ("all", _("ever noted"))],
        by={"": {"superseded_at__isnull": True}, "past": {"superseded_at__isnull": False}},
    )


class FactList(ListPage[Fact, FactFilter]):
    title = _("Facts")
    name, near, noun = "facts", "facts", KnowledgeEdit.Noun.FACT
    form = FactFilter
    columns = {
        "id": "pk",
        "fact": "content",
        "relation": "relation",
        "category": "category",
        "type": "type",
        "importance": "importance",
        "topic": "topic_id",
        "noted_at": "created_at",
        "until": "superseded_at",
    }
    page, partial = "pages/knowledge/facts.html", "partials/knowledge/facts.html"

    def rows(self, asked: AskedList[FactFilter]) -> QuerySet[Fact]:
        return Fact.objects.filter(owner=asked.owner)

    def facets(self, asked: AskedList[FactFilter]) -> tuple[Facet, ...]:
        weight = Case(
            When(importance__gte=80, then=Value("3")), When(importance__gte=50, then=Value("2")), default=Value("1")
        )
        replaced = Case(
            When(superseded_at__gte=timezone.now() - WEEK, then=Value("week")),
            When(superseded_at__isnull=False, then=Value("before")),
            default=Value("no"),
        )
        return (
            Facet("kind", _("Type"), "type", dict(Fact.Type.choices)),
            Facet("category", _("Category"), "category"),
            Facet("weight", _("Importance"), weight, _IMPORTANCE, in_order=True),
            Facet("replaced", _("Replaced"), replaced, _REPLACED),
            of_month("noted", _("Noted"), "created_at"),
        )

    def more(self, asked: AskedList[FactFilter], page: Page[Fact], found: Any) -> dict[str, Any]:
        owner, moment, topics = asked.owner, asked.moment, [fact.topic_id for fact in page if fact.topic_id]
        if moment:
            return {"holders": past.holders_at(owner.pk, topics, moment)}
        return {"holders": curation.heirs(owner.pk, topics), **extraction_context(owner)}


FACTS = FactList()
