"""Lists of people, facts and artifacts as they were: the rows of the moment are read whole, then narrowed and paged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from rerankui.lists.downloads import file_of
from rerankui.pages import PAGE_SIZE, Page

Row = TypeVar("Row", bound=Model)


def with_words(rows: Sequence[Row], words: str | None, texts: Callable[[Row], Sequence[str]]) -> list[Row]:
    """The rows of which one of the texts contains the words, whatever their case."""
    sought = (words or "").casefold()
    return [row for row in rows if not sought or any(sought in text.casefold() for text in texts(row))]


def page_of_rows(request: HttpRequest, rows: Sequence[Row], order: Sequence[str], size: int = PAGE_SIZE) -> Page[Row]:
    """The page of ``rows`` that the address asks for, as ``pages.page_of`` has it of a query."""
    listed = _in_order(rows, order)
    places = {str(row.pk): place for place, row in enumerate(listed)}
    first = 0
    if (at := _place(places, request.GET.get("after", ""))) is not None:
        first = at + 1
    elif (at := _place(places, request.GET.get("before", ""))) is not None:
        first = max(at - size, 0)
    shown = listed[first : first + size]
    if not shown:
        return Page((), "", "")
    column = order[0].lstrip("-")
    before = _cursor(shown[0], column) if first else ""
    return Page(shown, before, _cursor(shown[-1], column) if first + size < len(listed) else "")


def file_of_rows(
    request: HttpRequest, rows: Sequence[Row], columns: Mapping[str, str], order: Sequence[str], name: str
) -> HttpResponse | None:
    """The rows as the file that the address asks for, or None; ``columns`` are fields by their titles."""
    values = ([getattr(row, field) for field in columns.values()] for row in _in_order(rows, order))
    return file_of(request, columns, values, name)


def _in_order(rows: Sequence[Row], order: Sequence[str]) -> list[Row]:
    column, is_descending = order[0].lstrip("-"), order[0].startswith("-")
    return sorted(rows, key=lambda row: (_comparable(getattr(row, column)), row.pk), reverse=is_descending)


def _comparable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _place(places: Mapping[str, int], cursor: str) -> int | None:
    return places.get(cursor.rpartition(",")[2])


def _cursor(row: Model, column: str) -> str:
    return f"{getattr(row, column)},{row.pk}"
