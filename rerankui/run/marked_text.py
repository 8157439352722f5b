"""A message as pages show it, with pieces of it marked; the marks are added to the HTML of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from rerankui.run.result import Segment
from rerankui.text.prose import shown

# Characters for private use, which no text of a message keeps here.
_BEGINS, _ENDS = "\ue000", "\ue001"
_PRIVATE = re.compile(f"[{_BEGINS}{_ENDS}]")
_TOKEN = re.compile(f"(<[^<>]*>|[{_BEGINS}{_ENDS}])")


def marked_text(segments: Sequence[Segment]) -> SafeString:
    """Escaped text with code and bold; each stretch between two tags has a mark of its own, so that tags nest."""
    statuses = [segment.status for segment in segments if segment.status]
    return mark_safe("".join(_marked(shown("".join(map(_fenced, segments))), statuses)))  # shown escapes it


def _fenced(segment: Segment) -> str:
    text = _PRIVATE.sub("", segment.text)
    return f"{_BEGINS}{text}{_ENDS}" if segment.status else text


def _marked(html: str, statuses: Sequence[str]) -> list[str]:
    parts: list[str] = []
    waiting, status = list(statuses), ""
    for token in _TOKEN.split(html):
        if token == _BEGINS:
            status = waiting.pop(0)
        elif token == _ENDS:
            status = ""
        elif status and token and not token.startswith("<"):
            parts.append(format_html('<mark class="is-{}">{}</mark>', status, mark_safe(token)))  # escaped by shown
        else:
            parts.append(token)
    return parts
