"""Facets: the values of a property of the listed rows, with counts, each a link that narrows the list to it.

A list costs one query for each facet, however many rows it has. The address carries what was chosen.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Case, Count, Func, Model, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Coalesce, TruncDay, TruncMonth
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.erasure.expiry import lately
from memoryapp.models import ChatUser

MOST_VALUES = 12
MOST_COUNTED = 20_000
LONGEST_VALUE = 200
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Facet:
    """``by`` is a field or an expression of the database; ``words`` are those of its values, as text. With ``in_order``
    the values are listed by themselves, greatest first, otherwise by their counts."""

    name: str
    label: str | Promise
    by: Any
    words: Callable[[str], str | Promise] | Mapping[str, Any] = str
    in_order: bool = False

    @property
    def column(self) -> str:
        return f"facet_{self.name}"

    def annotated(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        found: QuerySet[Row] = rows.annotate(
            **{self.column: Coalesce(Cast(self.by, TextField()), Value(""), output_field=TextField())}
        )
        return found


def of_project(nothing: str | Promise = "") -> Facet:
    """The projects of rows; ``nothing`` says what a row without one is, if not common."""
    return Facet("project", gettext_lazy("Project"), "project", {"": nothing or gettext_lazy("common to all projects")})


def day_facet(field: str) -> Facet:
    """The days of a time, newest first."""
    day = TruncDay(field, tzinfo=timezone.get_current_timezone())
    written = Func(day, Value("YYYY-MM-DD"), function="to_char", output_field=TextField())
    return Facet("day", gettext_lazy("Day"), written, _day_words, in_order=True)


def _day_words(value: str) -> str:
    day = parse_date(value)
    return date_format(day, "j M Y") if day else value


@dataclass(frozen=True, slots=True)
class FacetValue:
    words: str | Promise
    count: int
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class CountedFacet:
    """``chosen`` is the value that the address chooses, which may be the empty one; None if it chooses none."""

    name: str
    chosen: str | None
    label: str | Promise
    values: Sequence[FacetValue]
    is_cut: bool


def narrowed(rows: QuerySet[Row], facets: Sequence[Facet], query: QueryDict, but: str = "") -> QuerySet[Row]:
    """The rows with the chosen values; without the choice of the facet named ``but``."""
    for facet in facets:
        chosen = _chosen(query, facet)
        if chosen is not None and facet.name != but:
            rows = facet.annotated(rows).filter(**{facet.column: chosen})
    return rows


def is_narrowed(facets: Sequence[Facet], query: QueryDict) -> bool:
    return any(_chosen(query, facet) is not None for facet in facets)


def counted(
    request: HttpRequest, rows: QuerySet[Any], facets: Sequence[Facet], latest: Sequence[str] = ()
) -> list[CountedFacet]:
    """Each facet with its values among ``rows``, as the other facets narrow them. With an order as ``latest``, only the
    first ``MOST_COUNTED`` of the rows are counted."""
    found = (_counted(request, _among(narrowed(rows, facets, request.GET, each.name), latest), each) for each in facets)
    return [facet for facet in found if len(facet.values) > 1 or any(value.is_chosen for value in facet.values)]


def _among(rows: QuerySet[Any], latest: Sequence[str]) -> QuerySet[Any]:
    if not latest:
        return rows
    first = rows.order_by(*latest).values("pk")[:MOST_COUNTED]
    among: QuerySet[Any] = rows.model._default_manager.filter(pk__in=first)
    return among


def _counted(request: HttpRequest, rows: QuerySet[Any], facet: Facet) -> CountedFacet:
    order = (f"-{facet.column}",) if facet.in_order else ("-n", facet.column)
    values = facet.annotated(rows).order_by().values_list(facet.column).annotate(n=Count("pk")).order_by(*order)
    listed = list(values[: MOST_VALUES + 1])
    chosen = _chosen(request.GET, facet)
    shown = [_value(request, facet, value, n, is_chosen=value == chosen) for value, n in listed[:MOST_VALUES]]
    if chosen is not None and not any(value.is_chosen for value in shown):
        shown.append(_value(request, facet, chosen, 0, is_chosen=True))
    return CountedFacet(facet.name, chosen, facet.label, shown, len(listed) > MOST_VALUES)


def _value(request: HttpRequest, facet: Facet, value: str, count: int, *, is_chosen: bool) -> FacetValue:
    query = request.GET.copy()
    for gone in (facet.name, "after", "before", "format"):
        query.pop(gone, None)
    if not is_chosen:
        query[facet.name] = value
    words = facet.words.get(value, value) if isinstance(facet.words, Mapping) else facet.words(value)
    return FacetValue(words or _("none"), count, f"?{query.urlencode()}", is_chosen)


def _chosen(query: QueryDict, facet: Facet) -> str | None:
    """The chosen value, which may be the empty one; None if none was chosen."""
    value = query.get(facet.name)
    return None if value is None or "\0" in value else value[:LONGEST_VALUE]


def of_month(name: str, label: str | Promise, column: str) -> Facet:
    """The months of a moment on the reader's calendar, the latest first; a moment may be missing."""
    month = TruncMonth(column, tzinfo=timezone.get_current_timezone())
    written = Func(month, Value("YYYY-MM"), function="to_char", output_field=TextField())
    by = Case(When(Q(**{f"{column}__isnull": False}), then=written), default=Value(""), output_field=TextField())
    return Facet(name, label, by, _month_words, in_order=True)


def _month_words(value: str) -> str:
    """``2026-05`` in the reader's language."""
    day = parse_date(f"{value}-01")
    return date_format(day, "F Y") if day else value


# Within so many days: not stale, stale for 3 months, for 6.
_FRESH = (("00", 91), ("03", 182), ("06", 365))
_STALE = {
    "12": gettext_lazy("for 12 months and longer"),
    "06": gettext_lazy("for 6 to 12 months"),
    "03": gettext_lazy("for 3 to 6 months"),
    "00": gettext_lazy("not stale"),
}


def stale(owner: ChatUser, noun: str) -> Facet:
    """How long facts or topics were neither recalled nor changed or confirmed, the longest first. One query."""
    now = timezone.now()
    last = lately(owner, noun, now - timedelta(days=365))
    fresh = {months: [pk for pk, at in last.items() if at >= now - timedelta(days=days)] for months, days in _FRESH}
    cases = [When(pk__in=numbers, then=Value(months)) for months, numbers in fresh.items()]
    return Facet("stale", gettext_lazy("Stale"), Case(*cases, default=Value("12")), _STALE, in_order=True)


# Any list as a file: what the page lists, as CSV or JSON, in its order and with its filters.

MOST_ROWS = 50_000
# A cell that begins so would be a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def file_of(request: HttpRequest, titles: Iterable[str], rows: Iterable[Sequence[Any]], name: str) -> HttpResponse:
    """The rows, whose values have these titles, as the file that the address asks for (``format``)."""
    kind, columns = _kind(request), list(titles)
    lines = _csv(columns, rows) if kind == "csv" else _json(columns, rows)
    answer = HttpResponse("".join(lines), content_type="text/csv" if kind == "csv" else "application/json")
    answer["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    return answer


def is_asked(request: HttpRequest) -> bool:
    return _kind(request) is not None


def _kind(request: HttpRequest) -> str | None:
    kind = request.GET.get("format", "")
    return kind if kind in ("csv", "json") else None


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield "\ufeff" + _line(columns)
    for row in rows:
        yield _line(_cell(value) for value in row)


def _line(cells: Any) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(list(cells))
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, cls=DjangoJSONEncoder)
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield "["
    for number, row in enumerate(rows):
        document = dict(zip(columns, row, strict=True))
        yield (",\n" if number else "\n") + json.dumps(document, ensure_ascii=False, cls=DjangoJSONEncoder)
    yield "\n]\n"
