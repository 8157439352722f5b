"""Any list as a file: what the page lists, as CSV or JSON, in its order and with its filters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse

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
    """Whether the address asks for a file."""
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
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield "["
    for number, row in enumerate(rows):
        document = dict(zip(columns, row, strict=True))
        yield (",\n" if number else "\n") + json.dumps(document, ensure_ascii=False, cls=DjangoJSONEncoder)
    yield "\n]\n"
