"""Chats as texts whose messages have no ids: their lines, and what tells equal messages apart."""

import io
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from django.utils.translation import gettext as _

from memoryapp.importers.record import MOST_TEXT
from memoryapp.importers.source import SourceFile, not_utf8

# Minutes whose messages are remembered; enough for the hour that comes twice at the end of summer time.
MOST_MINUTES = 10_000


class AlikeTexts:
    """Counts messages with equal texts in each minute; it remembers the latest ``MOST_MINUTES``."""

    def __init__(self) -> None:
        self._minutes: dict[datetime, Counter[str]] = {}

    def count(self, at: datetime, digest: str) -> int:
        words = self._minutes.setdefault(at, Counter())
        if len(self._minutes) > MOST_MINUTES:
            del self._minutes[next(iter(self._minutes))]
        words[digest] += 1
        return words[digest]


def text_lines(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Yields the lines with their numbers. Raises UnreadableFile when the text is not UTF-8."""
    with source.opened() as file, io.TextIOWrapper(file, "utf-8", newline=None) as text:
        number = 0
        try:
            while line := text.readline(MOST_TEXT + 2):
                number += 1
                yield number, line.rstrip("\n")
        except UnicodeDecodeError as fault:
            raise not_utf8(source.name, fault, _("from line %(number)s on") % {"number": number + 1}) from None
