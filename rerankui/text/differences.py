"""Two texts side by side: which lines differ, and which words within a line. Prompts have few long lines, so a
rewritten line is shown beside the old one with the changed words marked. Equal lines are folded, except for a few
around each change."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

AROUND = 3
# Above these, lines are paired by their place and marked as a whole: the work grows with the square.
MOST_PAIRS = 900
MOST_WORDS = 600
ALIKE = 0.4

_WORD = re.compile(r"\w+")
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")

Kind = Literal["same", "changed", "removed", "added", "fold"]
Pair = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class TextLine:
    """``number`` counts from 1 in its own text."""

    number: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A line of each text, side by side; a side is None if its text has no such line. A ``fold`` has no sides and
    represents ``folded`` equal lines."""

    kind: Kind
    old: TextLine | None = None
    new: TextLine | None = None
    folded: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """``removed`` and ``added`` count lines; a rewritten one is both."""

    rows: tuple[DifferenceRow, ...]
    removed: int
    added: int

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


def difference(old: str, new: str) -> Difference:
    """How ``new`` differs from ``old``, with three same lines around each change."""
    rows = list(_numbered(_pairs(old.split("\n"), new.split("\n"))))
    removed = sum(row.kind in {"changed", "removed"} for row in rows)
    added = sum(row.kind in {"changed", "added"} for row in rows)
    return Difference(tuple(_folded(rows)), removed, added)


def _pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[Pair]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "equal":
            yield from zip(old[a:b], new[c:d], strict=True)
        else:
            yield from _rewritten(old[a:b], new[c:d])


def _rewritten(old: Sequence[str], new: Sequence[str]) -> Iterator[Pair]:
    """A block that was replaced: the lines most alike beside each other, in the order of both texts."""
    unlike, a, b = -ALIKE, -1, -1
    if len(old) * len(new) <= MOST_PAIRS:
        pairs = ((-_alike(one, other), a, b) for a, one in enumerate(old) for b, other in enumerate(new))
        unlike, a, b = min(pairs, default=(0.0, -1, -1))
    if a < 0 or unlike > -ALIKE:
        yield from ((line, None) for line in old)
        yield from ((None, line) for line in new)
        return
    yield from _rewritten(old[:a], new[:b])
    yield old[a], new[b]
    yield from _rewritten(old[a + 1 :], new[b + 1 :])


def _alike(one: str, other: str) -> float:
    """The share of words that both lines have, from 0 to 1."""
    ours, theirs = set(_WORD.findall(one)), set(_WORD.findall(other))
    return 2 * len(ours & theirs) / (len(ours) + len(theirs)) if ours and theirs else float(one == other)


def _numbered(pairs: Iterable[Pair]) -> Iterator[DifferenceRow]:
    old_number = new_number = 0
    for old, new in pairs:
        old_number += old is not None
        new_number += new is not None
        before, after = _marked(old, new)
        yield DifferenceRow(
            _kind(old, new),
            TextLine(old_number, before) if old is not None else None,
            TextLine(new_number, after) if new is not None else None,
        )


def _kind(old: str | None, new: str | None) -> Kind:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    return "same" if old == new else "changed"


def _marked(old: str | None, new: str | None) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    if old is None or new is None or old == new:
        return (Span(old or "", False),), (Span(new or "", False),)
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(before), len(after)) > MOST_WORDS:
        return (Span(old, True),), (Span(new, True),)
    sides: tuple[list[Span], list[Span]] = ([], [])
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        # a lone space between two changed words belongs to the change
        is_changed = tag != "equal" or (bool(sides[0] or sides[1]) and "".join(before[a:b]).isspace())
        for side, text in zip(sides, ("".join(before[a:b]), "".join(after[c:d])), strict=True):
            if text and side and side[-1].is_changed == is_changed:
                side[-1] = Span(side[-1].text + text, is_changed)
            elif text:
                side.append(Span(text, is_changed))
    return tuple(sides[0]), tuple(sides[1])


def _folded(rows: Sequence[DifferenceRow]) -> Iterator[DifferenceRow]:
    """Same lines farther than ``AROUND`` from any change become one fold, unless that would hide a single line."""
    near = {place + step for place, row in enumerate(rows) if row.kind != "same" for step in range(-AROUND, AROUND + 1)}
    waiting: list[DifferenceRow] = []
    for place, row in enumerate(rows):
        if place not in near:
            waiting.append(row)
            continue
        yield from _fold(waiting)
        waiting = []
        yield row
    yield from _fold(waiting)


def _fold(rows: Sequence[DifferenceRow]) -> Iterator[DifferenceRow]:
    if len(rows) > 1:
        yield DifferenceRow("fold", folded=len(rows))
    else:
        yield from rows


# A model's JSON indented for reading, from its first characters on.

_BEGINS_AS_JSON = re.compile(r'\s*[{\[]\s*["{\[\]}\d-]')
_CLOSES = {"{": "}", "[": "]"}
INDENT = "  "


def begins_as_json(text: str) -> bool:
    """Whether this is how an object or a list begins; prose such as ``[Topic:1] fits`` is not."""
    return _BEGINS_AS_JSON.match(text) is not None


def indented(text: str) -> str:
    """The JSON with an element a line. It reads each character once and never goes back, so that the lines of a
    beginning are the first lines of the whole: what somebody reads while it is being written stays where it is."""
    return "".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    """The characters, and before the next one what an earlier one made due: a bracket or a comma begins a line."""
    depth, opened, due, quoted, escaped = 0, "", "", False, False
    for char in text:
        if quoted:
            yield char
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        elif not char.isspace():
            if char in "}]":
                depth = max(depth - 1, 0)
                due = "" if _CLOSES.get(opened) == char else "\n" + INDENT * depth
            yield due + char
            depth += char in "{["
            due = "\n" + INDENT * depth if char in "{[," else " " if char == ":" else ""
            opened, quoted = char, char == '"'
