"""Pages are compressed; answers that programs read line by line are not, because a reader would have to wait for whole
blocks.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class CompressedPages(GZipMiddleware):
    """Django's own compression, with its padding against BREACH, for HTML alone."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = response.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response
