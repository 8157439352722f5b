"""A list as one value: what it lists today and at an earlier moment, what narrows and orders it, its page and its file.
A list is a subclass of ``ListPage`` that says what differs from the others, and a partial with its rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar, cast

from django.db.models import Case, IntegerField, Model, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import URLPattern, path
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.curation.suggestions import proposals
from memoryapp.memory import past
from memoryapp.models import ChatUser, Role
from memoryapp.search.neighbours import MOST_FOUND, NearestRows, Scores
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.filters import Filter, MeaningFilter
from rerankui.frame.pages import PAGE_SIZE, Page, in_order, is_partial, page_around, page_of, page_of_rows, show
from rerankui.lists.facets import MOST_ROWS, Facet, counted, file_of, is_asked, is_narrowed, narrowed
from rerankui.web.moment import moment_of

Row = TypeVar("Row", bound=Model)
FilterT = TypeVar("FilterT", bound=Filter)


@dataclass(frozen=True, slots=True)
class NearList:
    """Rows that a recall would find, with its scores. ``sentence`` is what a reader of the list has to know."""

    scores: Scores
    sentence: str

    def of(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Those of the rows that were found."""
        return rows.filter(pk__in=list(self.scores))

    @property
    def order(self) -> Sequence[Any]:
        """The nearest first."""
        places = [When(pk=number, then=Value(place)) for place, number in enumerate(self.scores)]
        return (Case(*places, default=Value(MOST_FOUND), output_field=IntegerField()),)

    def page(self, rows: QuerySet[Row]) -> Page[Row]:
        """All of them on one page, each with its score as ``nearness``."""
        shown = list(rows.order_by(*self.order))
        for row in shown:
            row.nearness = self.scores[row.pk]  # type: ignore[attr-defined]
        return Page(shown, "", "")


@dataclass(frozen=True, slots=True)
class AskedList(Generic[FilterT]):
    """What an address asks of a list. ``owner`` is None for one of all memories, ``moment`` for today. ``at`` is the
    row that the page is to be around, ``request`` is None where only the rows are wanted."""

    owner: Any
    filters: FilterT
    moment: datetime | None = None
    near: NearList | None = None
    at: Any = None
    request: Any = None

    @property
    def query(self) -> QueryDict:
        return cast(QueryDict, self.filters.data)


class ListPage(Generic[Row, FilterT]):
    """``name`` is that of its route, its saved views and its file; ``columns`` of the file are fields by their titles;
    ``partial`` shows the rows.

    ``noun`` is that of rows whose changes are followed back to a moment; with ``has_past`` ``rows`` reads those of the
    moment. ``today_only`` are columns that say what is so today. ``near`` is the noun of rows that are found by
    meaning, see ``NearestRows``. ``latest`` counts facets among the latest rows alone, ``is_counted`` all rows for the
    page. ``sent`` answers what curators post to the list. The ``whole`` memory is not for who sees only some projects.
    """

    name: ClassVar[str]
    form: type[FilterT]
    columns: ClassVar[Mapping[str, str]]
    title: ClassVar[str | Promise]
    partial: ClassVar[str]
    page: ClassVar[str] = "pages/lists/list.html"
    today_only: ClassVar[frozenset[str]] = frozenset()
    noun: ClassVar[str] = ""
    has_past: ClassVar[bool] = False
    near: ClassVar[str] = ""
    size: ClassVar[int] = PAGE_SIZE
    latest: ClassVar[bool] = False
    is_counted: ClassVar[bool] = True
    sent: ClassVar[Callable[..., HttpResponse] | None] = None
    whole: ClassVar[bool] = False

    def rows(self, asked: AskedList[FilterT]) -> QuerySet[Row]:
        """All rows, of today or of the moment, before a choice or a search narrows them."""
        raise NotImplementedError

    def facets(self, asked: AskedList[FilterT]) -> Sequence[Facet]:
        return ()

    def more(self, asked: AskedList[FilterT], page: Page[Row], found: Any) -> dict[str, Any]:
        """What else the templates are given, of the page and of all that was found."""
        return {}

    @property
    def path(self) -> URLPattern:
        @open_to(Role.VIEWER, post=Role.CURATOR if self.sent else None, whole=self.whole)
        def listed(request: HttpRequest, owner: ChatUser) -> HttpResponse:
            if self.sent and request.method == "POST":
                return self.sent(request, owner)
            return self.answer(self.asked(request, owner))

        listed.has_past = self.has_past or self.noun  # type: ignore[attr-defined]
        return path(f"memory/<int:owner_id>/{self.name}/", listed, name=self.name)

    def asked(self, request: HttpRequest, owner: ChatUser) -> AskedList[FilterT]:
        filters, moment = self.form(request.GET), moment_of(request) if self.has_past or self.noun else None
        near = None if moment else self.nearest(owner, filters)
        return AskedList(owner, filters, moment, near, request=request)

    def matching(self, owner: ChatUser, query: QueryDict) -> QuerySet[Row]:
        """The rows of today that the list with this address shows, on all of its pages."""
        filters = self.form(query)
        asked = AskedList(owner, filters, near=self.nearest(owner, filters))
        return narrowed(self.listed(asked), self.facets(asked), query)

    def nearest(self, owner: ChatUser, filters: FilterT) -> NearList | None:
        """The rows nearest to the search; None where it goes by words."""
        if not (self.near and cast(MeaningFilter, filters).is_by_meaning):
            return None
        found = proposals.rows_alike(owner, filters.chosen["q"])
        return NearList(getattr(found, self.near), _sentence(found, self.near))

    def listed(self, asked: AskedList[FilterT]) -> QuerySet[Row]:
        """The rows that fit words and choices, whatever facet is chosen."""
        rows = asked.filters.fitting(self.rows(asked))
        return asked.near.of(rows) if asked.near else self.worded(asked, rows)

    def worded(self, asked: AskedList[FilterT], rows: QuerySet[Row]) -> QuerySet[Row]:
        return asked.filters.worded(rows)

    def answer(self, asked: AskedList[FilterT]) -> HttpResponse:
        """The page, its list alone, or the file that the address asks for."""
        facets: Sequence[Facet] = ()
        listed: Any
        found: Any
        if asked.moment and self.noun:
            listed = found = asked.filters.among(past.known_at(asked.owner.pk, self.noun, asked.moment))
        else:
            facets, listed = self.facets(asked), self.listed(asked)
            found = narrowed(listed, facets, asked.query)
        if is_asked(asked.request):
            return self.file(asked, found)
        page = self.shown(asked, found)
        order = asked.filters.order if self.latest else ()
        context = {
            "owner": asked.owner,
            "filters": asked.filters,
            "page": page,
            "total": (len(found) if isinstance(found, list) else found.count()) if self.is_counted else 0,
            "facets": counted(asked.request, listed, facets, order) if facets else [],
            "near": asked.near,
            "is_narrowed": asked.filters.is_narrowed or is_narrowed(facets, asked.query),
            "is_partial": is_partial(asked.request),
            "is_past": asked.moment is not None,
            "may_change": not (asked.moment and self.noun) and operator_of(asked.request).may(Role.CURATOR),
            "of_list": self,
        }
        return show(asked.request, self.page, self.partial, context | self.more(asked, page, found))

    def shown(self, asked: AskedList[FilterT], found: Any) -> Page[Row]:
        if asked.near:
            return asked.near.page(found)
        if asked.at:
            return page_around(found, asked.filters.order, asked.at, self.size)
        if isinstance(found, list):
            return page_of_rows(asked.request, found, asked.filters.order, self.size)
        return page_of(asked.request, found, asked.filters.order, self.size)

    def file(self, asked: AskedList[FilterT], found: Any) -> HttpResponse:
        """The rows found, in their order, as the file that the address asks for."""
        columns = {key: field for key, field in self.columns.items() if not (asked.moment and key in self.today_only)}
        if isinstance(found, list):
            rows = in_order(found, asked.filters.order)
            values: Any = ([getattr(row, field) for field in columns.values()] for row in rows)
        else:
            # Read whole: a server of coroutines would read a stream of rows whole, too, and may leave its cursor open.
            order = asked.near.order if asked.near else asked.filters.order
            values = found.order_by(*order).values_list(*columns.values())[:MOST_ROWS]
        return self.file_of(asked, columns, values)

    def file_of(
        self, asked: AskedList[FilterT], titles: Iterable[str], values: Iterable[Sequence[Any]]
    ) -> HttpResponse:
        return file_of(asked.request, titles, values, f"{self.name}-{asked.owner.pk}" if asked.owner else self.name)


def _sentence(found: NearestRows, noun: str) -> str:
    if found.is_late:
        return _("The search was not done in time. Try again, or search by words.")
    if not found.has_vector:
        return _("The embedding model gave no vector of your words in time: this is found by words alone.")
    if found.without_vector:
        return ngettext(
            "%(n)d passage has no vector yet and is found by its words alone.",
            "%(n)d passages have no vectors yet and are found by their words alone.",
            found.without_vector,
        ) % {"n": found.without_vector}
    if noun == "facts":
        return _("Facts have no vectors of their own: they stand in the order of the topics they come from.")
    return _("At most %(n)d, as a recall would find them, with its scores.") % {"n": MOST_FOUND}
