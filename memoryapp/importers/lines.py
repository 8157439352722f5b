"""JSON Lines: the lines of a source with their numbers, and their values; one line is in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document
from memoryapp.importers.record import Rejected
from memoryapp.importers.source import SourceFile

MOST_LINE = 16_000_000


def numbered(source: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not blank, with their numbers; of a line that is too long, its beginning."""
    with source.opened() as file:
        number = 1
        while line := file.readline(MOST_LINE + 1):
            if line.strip():
                yield number, line
            while not line.endswith(b"\n") and (rest := file.readline(MOST_LINE)):
                line = rest
            number += 1


def values(source: SourceFile) -> Iterator[tuple[int, Any]]:
    """Yields each line's number and value, or a rejection if it has none; one line is in memory at a time."""
    for number, line in numbered(source):
        yield number, value(number, line)


def value(number: int, line: bytes) -> Any:
    """Returns the value of a line, or a rejection if it has none."""
    if len(line) > MOST_LINE:
        most = f"{MOST_LINE // 1_000_000}"
        return Rejected(number, _("longer than %(most)s MB: write the conversation as several lines") % {"most": most})
    try:
        return document.parse_line(line)
    except UnicodeDecodeError:
        return Rejected(number, _("not UTF-8 text"))
    except json.JSONDecodeError as error:
        # The parser saw this line alone, so its own place would say "line 1".
        place = _("%(error)s: column %(column)s") % {"error": error.msg, "column": error.colno}
        return Rejected(number, _("not valid JSON: %(error)s") % {"error": place})
    except ValueError as error:
        return Rejected(number, _("not valid JSON: %(error)s") % {"error": error})
