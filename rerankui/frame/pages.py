"""Pages of a list by key, never by offset: a page costs the same at the end of a million rows as at the start.

A cursor is the value and the id of a row at the edge of what is shown (``2026-03-01T10:00:00+00:00,42``);
the address carries it as ``after`` or ``before``. A cursor nobody can read shows the first page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from memoryapp.engine.cells import cell
from memoryapp.platform import cells
from rerankui.frame.access import Request

PAGE_SIZE = 50

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class PageContext:
    """What the template of one page may name: the fields. ``tests/house/test_pages.py`` compares both."""

    def names(self, **more: Any) -> dict[str, Any]:
        """The context as Django's templates take it, with ``more`` of a single part."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | more


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Rows in the list's order; ``before`` and ``after`` are cursors, empty where the list ends."""

    rows: Sequence[Row]
    before: str
    after: str

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class _Ordering:
    """A column and the id, both in one direction, so that the order is total."""

    column: str
    descending: bool

    @classmethod
    def of(cls, order: Sequence[str]) -> _Ordering:
        return cls(order[0].lstrip("-"), order[0].startswith("-"))

    def names(self, *, reverse: bool = False) -> tuple[str, str]:
        sign = "-" if self.descending != reverse else ""
        return f"{sign}{self.column}", f"{sign}pk"

    def beyond(self, value: object, pk: object, *, reverse: bool = False) -> Q:
        """Rows strictly after ``(value, pk)``. The first condition repeats the second for the index's sake."""
        side = "lt" if self.descending != reverse else "gt"
        near = Q(**{f"{self.column}__{side}e": value})
        return near & (Q(**{f"{self.column}__{side}": value}) | Q(**{f"pk__{side}": pk}))

    def cursor(self, row: Model) -> str:
        value = getattr(row, self.column)
        return f"{value.isoformat() if isinstance(value, datetime) else value},{row.pk}"


def page_of(request: HttpRequest, rows: QuerySet[Row], order: Sequence[str], size: int = PAGE_SIZE) -> Page[Row]:
    """The page of ``rows`` that the address asks for; ``order`` is a column, then the id: ``("-at", "-id")``."""
    by = _Ordering.of(order)
    backwards = _read(rows.model, by, request.GET.get("before", ""))
    if backwards:
        found = _first(rows.filter(by.beyond(*backwards, reverse=True)), by.names(reverse=True), size + 1)
        shown = found[:size][::-1]
        return _page(by, shown, has_before=len(found) > size, has_after=True)
    forwards = _read(rows.model, by, request.GET.get("after", ""))
    if forwards:
        rows = rows.filter(by.beyond(*forwards))
    found = _first(rows, by.names(), size + 1)
    return _page(by, found[:size], has_before=bool(forwards), has_after=len(found) > size)


def _first(rows: QuerySet[Row], order: Sequence[str], size: int) -> list[Row]:
    """The first rows in this order; of all cells, where the rows are of memories and none is chosen."""
    ordered = rows.order_by(*order)[:size]
    if cell() is not None or not getattr(rows.model, "in_cell", False):
        return list(ordered)
    found: list[Row] = cells.everywhere()(lambda: list(ordered.all()))()
    for name in reversed(order):
        found.sort(key=attrgetter(name.lstrip("-")), reverse=name.startswith("-"))
    return found[:size]


def page_around(rows: QuerySet[Row], order: Sequence[str], row: Row, size: int = PAGE_SIZE) -> Page[Row]:
    by, half = _Ordering.of(order), size // 2
    value = getattr(row, by.column)
    before = list(rows.filter(by.beyond(value, row.pk, reverse=True)).order_by(*by.names(reverse=True))[: half + 1])
    after = list(rows.filter(by.beyond(value, row.pk)).order_by(*by.names())[: half + 1])
    shown = [*before[:half][::-1], row, *after[:half]]
    return _page(by, shown, has_before=len(before) > half, has_after=len(after) > half)


def page_of_rows(request: HttpRequest, rows: Sequence[Row], order: Sequence[str], size: int = PAGE_SIZE) -> Page[Row]:
    listed = in_order(rows, order)
    places = {str(row.pk): place for place, row in enumerate(listed)}
    after, before = (places.get(request.GET.get(name, "").rpartition(",")[2]) for name in ("after", "before"))
    first = after + 1 if after is not None else max(before - size, 0) if before is not None else 0
    shown = listed[first : first + size]
    return _page(_Ordering.of(order), shown, has_before=first > 0, has_after=first + size < len(listed))


def in_order(rows: Sequence[Row], order: Sequence[str]) -> list[Row]:
    """Rows in memory by a column, whatever the case of its letters, then by id."""
    by = _Ordering.of(order)

    def place(row: Row) -> tuple[Any, Any]:
        value = getattr(row, by.column)
        return value.casefold() if isinstance(value, str) else value, row.pk

    return sorted(rows, key=place, reverse=by.descending)


def _page(by: _Ordering, shown: Sequence[Row], *, has_before: bool, has_after: bool) -> Page[Row]:
    if not shown:
        return Page((), "", "")
    return Page(shown, by.cursor(shown[0]) if has_before else "", by.cursor(shown[-1]) if has_after else "")


def _read(model: type[Model], by: _Ordering, cursor: str) -> tuple[Any, Any] | None:
    value, comma, pk = cursor.rpartition(",")
    if not comma or "\0" in cursor:
        return None
    try:
        read = cast(Any, model._meta.get_field(by.column)).to_python(value)
        key = cast(Any, model._meta.pk).to_python(pk)
    except (ValidationError, OverflowError):
        return None
    is_naive = isinstance(read, datetime) and read.tzinfo is None
    return None if read is None or key is None or is_naive else (read, key)


def show(request: HttpRequest, page: str, fragment: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """One address, two answers: the whole page, or its list when htmx asks for a part of it."""
    shown = render(request, fragment if is_partial(request) else page, {"fragment": fragment, **context}, status=status)
    patch_vary_headers(shown, ["HX-Request"])
    return shown


def is_partial(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page; going back in the browser's history it asks for the whole."""
    htmx = cast(Request, request).htmx
    return bool(htmx) and not htmx.history_restore_request
