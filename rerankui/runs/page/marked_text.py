"""A message as pages show it, with pieces of it marked; the marks are added to the HTML of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from rerankui.runs.page.result import Segment
from rerankui.text.markdown import to_html

# Characters for private use, which no text of a message keeps here.
_BEGINS, _ENDS = "\ue000", "\ue001"
_PRIVATE = re.compile(f"[{_BEGINS}{_ENDS}]")
# Marks of a block work only at the beginning or the end of its line, so those of a piece stand inside them.
_LEAD = re.compile(r"\s*+(?:(?:[-*+>]|#{1,6}|\d{1,9}[.)])[ \t]++)*+(?:```[^\n]*+\n|\|)?+")
_TOKEN = re.compile(f"(<[^<>]*>|[{_BEGINS}{_ENDS}])")


def marked_text(segments: Sequence[Segment]) -> SafeString:
    """Escaped text with code and bold; each stretch between two tags has a mark of its own, so that tags nest."""
    statuses = [segment.status for segment in segments if segment.status]
    return mark_safe("".join(_marked(to_html("".join(map(_fenced, segments))), statuses)))  # to_html escapes


def _fenced(segment: Segment) -> str:
    text = _PRIVATE.sub("", segment.text)
    if not segment.status:
        return text
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    kept = text[start:].rstrip().removesuffix("```").removesuffix("|").rstrip()
    return f"{text[:start]}{_BEGINS}{kept}{_ENDS}{text[start + len(kept) :]}"


def _marked(html: str, statuses: Sequence[str]) -> list[str]:
    parts: list[str] = []
    waiting, status = list(statuses), ""
    for token in _TOKEN.split(html):
        if token == _BEGINS:
            status = waiting.pop(0)
        elif token == _ENDS:
            status = ""
        elif status and token and not token.startswith("<"):
            parts.append(format_html('<mark class="is-{}">{}</mark>', status, mark_safe(token)))  # escaped by to_html
        else:
            parts.append(token)
    return parts
