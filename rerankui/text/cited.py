"""An answer in words as pages show it: each ``[n]`` is a link to its source, words that its source lacks are marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from memoryapp.engine.text.scripts import WORD
from rerankui.text.markdown import to_html

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
