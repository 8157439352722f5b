"""Links, forms and redirects of a page of the past, which lead on to the same moment.

They are rewritten in the finished page, so that no link can be forgotten: every address of a memory or of its runs gets
the moment unless it already names one.
"""

from __future__ import annotations

import re

from django.utils.html import format_html

from rerankui.web.moment import PARAMETER, PastMoment

# Of a memory or its runs, or of the page itself.
_ADDRESS = r"(?:/(?:memory|topics|sessions|runs|find|compare)/|\?)[^\"]*"
_LINK = re.compile(rf'(\s(?:href|action|formaction|hx-get|hx-post|data-peek)=")({_ADDRESS})(?=")')
_TAG = re.compile(rf'<form\b[^<>]*>|\s(?:href|formaction|hx-get|hx-post|data-peek)="{_ADDRESS}(?=")')
_KEEPS = re.compile(_ADDRESS)
# A form that chooses the moment itself.
CHOOSES = "data-moment"


def kept(address: str, moment: PastMoment, joint: str = "&") -> str:
    """The address with the moment; other sites and pages of no memory as they are."""
    if not _KEEPS.fullmatch(address) or f"{PARAMETER}=" in address:
        return address
    path, sharp, place = address.partition("#")
    return f"{path}{joint if '?' in path else '?'}{PARAMETER}={moment.text}{sharp}{place}"


def kept_in(page: str, moment: PastMoment) -> str:
    """The page with the moment in its links. A form whose fields become the address gets it as a field."""
    field = format_html('<input type="hidden" name="{}" value="{}">', PARAMETER, moment.text)

    def rewritten(found: re.Match[str]) -> str:
        tag = found[0]
        if not tag.startswith("<form"):
            return _LINK.sub(address, tag + '"')[:-1]
        if CHOOSES in tag:
            return tag
        return f"{tag}{field}" if 'method="get"' in tag else _LINK.sub(address, tag)

    def address(found: re.Match[str]) -> str:
        return f"{found[1]}{kept(found[2], moment, '&amp;')}"

    return _TAG.sub(rewritten, page)
