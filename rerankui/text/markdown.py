"""Markdown as people and models write it in chats: read by markdown-it, shown as HTML or as plain text, never trusted.
HTML stays text, as do entities, backslashes and indented lines, which are none of Markdown's in a chat. Links lead to
http, https and mailto alone. An image is a link to it, so that no page loads anything for a message."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from memoryapp.engine.text.scripts import WORD
from memoryapp.engine.text.sentences import sentences

# Longer texts take the parser too long if they are hostile: brackets alone take the square of their number.
LONGEST = 16_000

# No text without one of these has marks.
_MARKS = re.compile(r"[*_~`#|>\[<]|^[ \t]*(?:(?:[-+]|\d{1,9}[.)])[ \t]|---)", re.M)
# By private characters ``marked_text`` finds its marks again, which an address would encode.
_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\ue000-\uf8ff]*", re.I)
_REL = {"rel": "noopener nofollow"}
_BREAKS = {"softbreak", "hardbreak"}
_BLOCKS = {"inline", "fence"}
_CELLS = {"th_open", "td_open"}


class _Html(RendererHTML):
    """HTML without line breaks between blocks, because those of the text are kept."""

    def renderToken(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return super().renderToken(tokens, idx, options, env).replace("\n", "")

    def softbreak(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "\n"

    hardbreak = softbreak

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return format_html("<pre><code>{}</code></pre>", tokens[idx].content.removesuffix("\n"))

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        address, words = str(tokens[idx].attrs["src"]), tokens[idx].content
        link = Token("link_open", "a", 1, attrs={"href": address, **_REL})
        return f"{self.renderToken([link], 0, options, env)}{escape(words or address)}</a>"

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A heading is a strong line: the headings of a page are its own."""
        return "<p><strong>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</strong></p>"

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        tokens[idx].attrs.update(_REL)
        return self.renderToken(tokens, idx, options, env)

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return '<div class="table-in-text" tabindex="0"><table>'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>"


class _Markdown(MarkdownIt):
    def normalizeLink(self, url: str) -> str:
        """The address to link to; empty for one that nothing may link to."""
        return super().normalizeLink(url) if _ADDRESS.fullmatch(url) else ""

    def validateLink(self, url: str) -> bool:
        return bool(url)


_PARSER = _Markdown("js-default", {"html": False}, renderer_cls=_Html)
_PARSER.disable(["code", "lheading", "reference", "html_block", "html_inline", "entity", "escape"])


def to_html(text: str) -> SafeString:
    """Escaped text with everything as it is meant; what is longer than ``LONGEST`` goes on as it was written."""
    text = text.strip("\n")
    if not _MARKS.search(text):
        return format_html("<p>{}</p>", text)
    head, rest = _cut(text)
    plain = format_html("<p>{}</p>", rest) if rest else ""
    return SafeString(_PARSER.render(head) + plain)  # the parser and format_html escape


def to_inline_html(text: str) -> SafeString:
    """The same without blocks, for a text inside a line."""
    head, rest = _cut(text)
    return SafeString(_PARSER.renderInline(head) + escape(rest))  # the parser escapes


def to_text(text: str) -> str:
    """The text without marks; its words, their order and its lines stay."""
    if not _MARKS.search(text):
        return text
    head, rest = _cut(text)
    return "".join(_pieces(_PARSER.parse(head))) + rest


def _cut(text: str) -> tuple[str, str]:
    if len(text) <= LONGEST:
        return text, ""
    end = text.rfind("\n", 0, LONGEST) + 1 or LONGEST
    return text[:end], text[end:]


def _pieces(tokens: Sequence[Token]) -> Iterator[str]:
    """The words of each block, and between them what stands between cells, lines and paragraphs."""
    end, row, mark = -1, -1, ""
    for before, token in pairwise([Token("", "", 0), *tokens]):
        if token.type == "list_item_open":
            mark = f"{token.info}{token.markup} " if token.info else "• "
        if token.type not in _BLOCKS or token.map is None:
            continue
        start, is_cell = token.map[0], before.type in _CELLS
        if is_cell and not token.content:
            continue
        if end >= 0:
            yield _between(start - end, is_cell, start - row)
        yield mark + _words(token)
        end, row, mark = token.map[1], start if is_cell else -1, ""


def _between(lines: int, is_cell: bool, rows: int) -> str:
    """What separates a block from the one that ended so many lines, or the cell that stands so many rows, before."""
    if is_cell and not rows:
        return " · "
    return "\n\n" if lines > 0 and not (is_cell and rows <= 2) else "\n"


def _words(token: Token) -> str:
    if token.type != "inline":
        return token.content.removesuffix("\n")
    return "".join("\n" if each.type in _BREAKS else each.content for each in token.children or ())


# An answer in words as pages show it: each ``[n]`` is a link to its source, words that its source lacks are marked.

_TOKEN = re.compile(r"(<[^<>]*>|\[\d{1,3}\])")


@dataclass(frozen=True, slots=True)
class Link:
    """The address of the message in its topic, and of its preview."""

    address: str
    preview: str


def cited_text(text: str, links: Mapping[int, Link]) -> SafeString:
    """Escaped text; ``links`` are those of the sources by number. A number without one stays as it is."""
    return mark_safe("".join(_linked(token, links) for token in _TOKEN.split(to_html(text))))  # to_html escapes


def marked(text: str, words: Iterable[str]) -> SafeString:
    """Escaped text in which the ``words`` are marked wherever they stand as whole words."""
    wanted = {part for word in words for part in WORD.findall(word)}
    parts = list[tuple[SafeString | str]]()
    end = 0
    for found in WORD.finditer(text):
        if found[0] in wanted:
            parts += [(text[end : found.start()],), (format_html("<mark>{}</mark>", found[0]),)]
            end = found.end()
    return format_html_join("", "{}", [*parts, (text[end:],)])


def _linked(token: str, links: Mapping[int, Link]) -> str:
    number = int(token[1:-1]) if token[:1] + token[-1:] == "[]" and token[1:-1].isdecimal() else 0
    if number not in links:
        return token
    return format_html(
        '<a class="cite" href="{}" data-peek="{}" title="{}">{}</a>',
        links[number].address,
        links[number].preview,
        _("source %(n)d: open the message") % {"n": number},
        number,
    )


# Texts in one line: their beginning, and what a summary begins with.

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


def beyond(summary: str, title: str) -> str:
    """What a summary says after its headline: all of it where the headline is cut, nothing where it says no more."""
    whole = summary.strip()
    # The day that ends a summary is shown beside it.
    if _DAY.sub("", whole.rstrip(".")) == _DAY.sub("", title):
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
