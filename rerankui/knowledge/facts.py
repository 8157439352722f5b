"""Facts: what is known of the chat user, the weightiest first."""

from typing import Any, TypeVar, cast

from django.db.models import Case, Model, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp import curation
from memoryapp.curation import extraction
from memoryapp.curation.knowledge import MODELS
from memoryapp.curation.suggestions.proposals import is_model_connected
from memoryapp.erasure.expiry import note_going
from memoryapp.insight.browsing.quality import WEEK
from memoryapp.memory import past
from memoryapp.models import ChatUser, Fact, KnowledgeEdit, Role
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.filters import Filter, MeaningFilter, choice
from rerankui.frame.pages import Page
from rerankui.lists.facets import Facet, of_month, of_project, stale
from rerankui.lists.list_page import AskedList, ListPage

# How far facts and people are extracted, for a panel on their lists, and topics that failed, to be read again.

MOST_FAILED = 100
RowT = TypeVar("RowT", bound=Model)
FilterT = TypeVar("FilterT", bound=Filter)


def extraction_context(owner: ChatUser) -> dict[str, Any]:
    """What the panel shows: the mode, what waits to be decided and to be read, and whether there is a model."""
    return {
        "has_model": is_model_connected(),
        "backlog": extraction.backlog(owner),
        "to_decide": extraction.waiting(owner).count(),
    }


@open_to(Role.VIEWER, post=Role.CURATOR)
def extraction_panel(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The topics that could not be read and why; posted, those named (``topic``) or all of them are read again."""
    if request.method == "POST":
        rows = extraction.failed(owner)
        topic = request.POST.get("topic", "")
        if topic:
            rows = rows.filter(topic=int(topic)) if topic.isdecimal() and len(topic) < 19 else rows.none()
        extraction.retry(rows)
        return redirect("extraction", owner_id=owner.pk)
    context = {
        "owner": owner,
        "failed": extraction.failed(owner)[:MOST_FAILED],
        "may_change": operator_of(request).may(Role.CURATOR),
        **extraction_context(owner),
    }
    return render(request, "pages/knowledge/extraction.html", context)


_IMPORTANCE = {"3": _("80 and more: part of the profile"), "2": _("50–79"), "1": _("under 50")}
_REPLACED = {"week": _("within a week"), "before": _("earlier"), "no": _("not replaced")}


class RowList(ListPage[RowT, FilterT]):
    """What the lists of facts, people and artifacts share: their page, and that their rows are those of their noun."""

    page = "pages/knowledge/rows.html"

    def rows(self, asked: AskedList[FilterT]) -> QuerySet[RowT]:
        return cast(QuerySet[RowT], MODELS[self.noun]._default_manager.filter(owner=asked.owner))


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


class FactList(RowList[Fact, FactFilter]):
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
    partial = "partials/knowledge/facts.html"

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
            *((stale(asked.owner, "fact"),) if not asked.moment else ()),
            Facet("kind", _("Type"), "type", dict(Fact.Type.choices)),
            Facet("category", _("Category"), "category"),
            of_project(),
            Facet("weight", _("Importance"), weight, _IMPORTANCE, in_order=True),
            Facet("replaced", _("Replaced"), replaced, _REPLACED),
            of_month("noted", _("Noted"), "created_at"),
        )

    def more(self, asked: AskedList[FactFilter], page: Page[Fact], found: Any) -> dict[str, Any]:
        owner, moment, topics = asked.owner, asked.moment, [fact.topic_id for fact in page if fact.topic_id]
        if not moment:
            note_going(owner, ["fact"], page)
        if moment:
            return {"holders": past.holders_at(owner.pk, topics, moment)}
        return {"holders": curation.heirs(owner.pk, topics), **extraction_context(owner)}


FACTS = FactList()
