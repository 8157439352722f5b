"""Markdown as people and models write it in chats, without a parser: shown in a message, taken off in a line.

Text that is no mark stays unchanged. Each expression here is linear: no mark looks beyond the next one of its kind.
"""

from __future__ import annotations

import re

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from memoryapp.engine.text.sentences import sentences

# No page shows more of it.
LONGEST_LINE = 2_000

LONGEST_HEADLINE = 80
SHORTEST_HEADLINE = 24
_PART = re.compile(r"\s·\s|\n")
_PARTS = (": ", "; ", ", ")
# The day that the embedded segmenter ends a summary with: "(20 November 2026)".
_DAY = re.compile(r" \(\d{1,2} \w{3,9} \d{4}\)$")

_FENCE = re.compile(r"```[\w+#.-]*[ \t]*\n?(.*?)(?:\n?```|\Z)", re.S)
_CODE = re.compile(r"`([^`\n]+)`")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+)(?<=\S)\*(?![\w*])")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.M)
_BULLET = re.compile(r"^([ \t]*)[*+-][ \t]+(?=\S)", re.M)
# The line of titles, the one that rules it off, and the rows.
_TABLE = re.compile(r"^(\|[^\n]*)\n\|[ \t:|-]*(?=\n|\Z)((?:\n\|[^\n]*)*)(\n?)", re.M)
_LINK = re.compile(r"\[([^\[\]\n]+)\]\((https?://[^\s()\[\]]+)\)")


def shown(text: str) -> SafeString:
    """Escaped text with code, bold, headings, lists and tables as they are meant."""
    parts = _FENCE.split(text)
    lines = (
        format_html("<pre><code>{}</code></pre>", part) if place % 2 else _inline(part)
        for place, part in enumerate(parts)
    )
    return mark_safe("".join(lines))  # every part is escaped above


def _inline(text: str) -> str:
    marked = _CODE.sub(r"<code>\1</code>", escape(text.strip("\n")))
    marked = _BULLET.sub(r"\1• ", _HEADING.sub(r"<strong>\1</strong>", marked))
    marked = _LINK.sub(r"\1 (\2)", _EMPHASIS.sub(r"<em>\1</em>", _BOLD.sub(r"<strong>\1</strong>", marked)))
    return _TABLE.sub(_table, marked)


def _table(found: re.Match[str]) -> str:
    """Of escaped text; wider ones are scrolled."""
    head, body = (_row("th", found[1]), "".join(_row("td", row) for row in found[2].splitlines()[1:]))
    return f'<div class="table-in-text" tabindex="0"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _row(cell: str, line: str) -> str:
    return f"<tr>{''.join(f'<{cell}>{words}</{cell}>' for words in _cells(line))}</tr>"


def _cells(line: str) -> list[str]:
    return [words.strip() for words in line.strip().strip("|").split("|")]


def unmarked(text: str) -> str:
    """The text without marks, for pages that show one line of it; its words and their order stay."""
    bare = _TABLE.sub(_lines, _FENCE.sub(r"\1", text))
    bare = _BULLET.sub(r"\1• ", _HEADING.sub(r"\1", _CODE.sub(r"\1", bare)))
    return _LINK.sub(r"\1", _EMPHASIS.sub(r"\1", _BOLD.sub(r"\1", bare)))


def _lines(table: re.Match[str]) -> str:
    return "\n".join(" · ".join(_cells(row)) for row in f"{table[1]}{table[2]}".splitlines()) + table[3]


def line(text: str) -> str:
    """The beginning of the text in one line, without marks."""
    return " ".join(unmarked(text[:LONGEST_LINE]).split())


def says_more(summary: str, title: str) -> bool:
    """Whether a summary has words that its headline leaves out; its day does not count: it is shown beside it."""
    return _DAY.sub("", summary.strip().rstrip(".")) != _DAY.sub("", title)


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
