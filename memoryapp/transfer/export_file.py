"""Reads the file of an export line by line, and names the line of every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document
from memoryapp.importers.formats.registry import members
from memoryapp.importers.lines import numbered
from memoryapp.importers.record import BadRecord, UnreadableFile, clean
from memoryapp.importers.source import SourceFile, sources
from memoryapp.models import ChatUser, Message
from memoryapp.transfer.checking import value_of
from memoryapp.transfer.rows import FORMAT, MARK, label

Line = tuple[int, dict[str, Any]]
# Called while a file is read; it raises an exception when nobody wants the file any longer.
Ask = Callable[[], None]


def ask_nobody() -> None:
    pass


def recognises(path: Path, ask: Ask = ask_nobody) -> bool:
    """Whether the file is an export of a whole memory. Raises UnreadableFile, and what ``ask`` raises meanwhile."""
    return any(MARK in value and "user" in value for _number, value in first(path, ask))


def outline(path: Path, ask: Ask = ask_nobody) -> Counter[str]:
    """How many rows of each kind the file has. Raises UnreadableFile, and what ``ask`` raises meanwhile."""
    counts: Counter[str] = Counter(value.get(MARK, label(Message)) for _number, value in lines(path, ask))
    for other in (FORMAT, "place", label(ChatUser)):
        del counts[other]
    return counts


def name_of(path: Path, header: dict[str, Any]) -> str:
    """Returns the name of the chat user in the file. Raises UnreadableFile."""
    try:
        name: str = value_of(ChatUser._meta.get_field("name"), header.get("user"))
    except BadRecord as error:
        raise bad(path, 1, error) from None
    return name


def first(path: Path, ask: Ask) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the first line with its number, if it is an object."""
    source = sources(path, members, ask)[0]
    for number, line in numbered(source):
        try:
            value = document.parse_line(line, "replace")
        except ValueError:
            return
        if isinstance(value, dict):
            yield number, value
        return


def lines(path: Path, ask: Ask = ask_nobody) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields every line before the last with its number. Raises UnreadableFile."""
    [source, *_rest] = sources(path, members, ask)
    ended = False
    for count, (number, line) in enumerate(numbered(source)):
        value = _parse(source, number, line)
        if value.get(MARK) == "end":
            ended = value.get("lines") == count
            break
        yield number, value
    if not ended:
        raise UnreadableFile(_("%(path)s was cut off before its end; export it again.") % {"path": path})


def _parse(source: SourceFile, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = clean(document.parse_line(line))
    except (ValueError, BadRecord) as error:
        raise bad(source.name, number, error) from None
    if not isinstance(value, dict):
        raise bad(source.name, number, _("not an object"))
    if not isinstance(value.get(MARK), str | int | None):
        raise bad(source.name, number, _("no such row is known"))
    return value


def bad(path: object, number: int, why: object) -> UnreadableFile:
    return UnreadableFile(
        _("Line %(number)s of %(path)s cannot be restored: %(why)s.")
        % {"number": number, "path": path, "why": str(why).removesuffix(".")}
    )
