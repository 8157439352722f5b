"""Texts in one line: their beginning, and what a summary begins with."""

from __future__ import annotations

import re

from memoryapp.engine.text.sentences import sentences
from rerankui.text.markdown import to_text

# No page shows more of it.
LONGEST_LINE = 2_000

LONGEST_HEADLINE = 80
SHORTEST_HEADLINE = 24
_PART = re.compile(r"\s·\s|\n")
# What stands between a headline and the rest.
_BETWEEN = " .,;:·\n"
_PARTS = (": ", "; ", ", ")
# The day that the embedded segmenter ends a summary with: "(20 November 2026)".
_DAY = re.compile(r" \(\d{1,2} \w{3,9} \d{4}\)$")


def line(text: str) -> str:
    """The beginning of the text in one line, without marks."""
    return " ".join(to_text(text[:LONGEST_LINE]).split())


def says_more(summary: str, title: str) -> bool:
    """Whether a summary has words that its headline leaves out; its day does not count: it is shown beside it."""
    return _DAY.sub("", summary.strip().rstrip(".")) != _DAY.sub("", title)


def beyond(summary: str, title: str) -> str:
    """What a summary says after its headline: all of it where the headline is cut, nothing where it says no more."""
    whole = summary.strip()
    if not says_more(whole, title):
        return ""
    if not whole.startswith(title):
        return whole
    rest = whole[len(title) :].lstrip(_BETWEEN)
    return rest[:1].upper() + rest[1:]


def headline(summary: str) -> str:
    """What a summary begins with, short enough for a title: its first sentence, or the part before a mark in it."""
    first = next(iter(sentences(_PART.split(summary.strip(), maxsplit=1)[0])), "")
    if len(first) <= LONGEST_HEADLINE:
        return first.rstrip(".;")
    head = first[: LONGEST_HEADLINE + 1]
    place = max(head.rfind(mark) for mark in _PARTS)
    if place >= SHORTEST_HEADLINE:
        return head[:place]
    return head[: max(head.rfind(" "), SHORTEST_HEADLINE)].rstrip() + "…"
