"""The moment whose memory a page shows: in the address as ``as_of``, which every link of the page keeps."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import resolve
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _

from memoryapp.memory import past
from rerankui.web.pages import Steps, middleware

PARAMETER = "as_of"
# Pages that show the memory of the moment, beside the lists that say so themselves (``has_past``).
SHOWING = frozenset(
    ("memory", "topic", "topic_peek", "topic_blame", "person", "fact", "artifact", "find", "ask", "recall")
)
# Pages of one run, which always show what it found then.
_OF_RUNS = ("run", "answer", "source", "judge", "filter", "prompt_try", "compare")
# What is sent while a moment is chosen: questions to its memory, and what changes no memory.
_SENDING = frozenset(("ask", "recall", "theme", "language", "logout"))
# The form of a fork has a field of this name.
OWN_USE = frozenset(("run_fork",))
LONGEST = 60


@dataclass(frozen=True, slots=True)
class PastMoment:
    """``at`` is in UTC; ``text`` is how an address names it, so that it is the same moment for every reader."""

    at: datetime

    @property
    def text(self) -> str:
        return written(self.at)

    @property
    def words(self) -> str:
        return date_format(timezone.localtime(self.at), _("j M Y, H:i"))


def written(moment: datetime) -> str:
    """The moment as an address names it: ISO 8601 in UTC, without signs that an address has to escape."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read(text: str) -> PastMoment:
    """A day, or a moment on the reader's clock or with its own zone. Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError("too long for a moment")
    return PastMoment(past.moment_of(text.strip()))


def past_of(request: HttpRequest) -> PastMoment | None:
    """The moment that this page is to show; None for the present."""
    return getattr(request, "past", None)


def moment_of(request: HttpRequest) -> datetime | None:
    chosen = past_of(request)
    return chosen.at if chosen else None


def refusal() -> str:
    return _("Nothing can be changed while you look at an earlier moment. Go back to now first.")


def is_of_runs(route: str) -> bool:
    return route.startswith(_OF_RUNS)


def is_sent(route: str) -> bool:
    """Whether what is sent to this page changes no memory."""
    return route in _SENDING or is_of_runs(route)


def offered() -> list[tuple[str, str]]:
    """Days to choose without typing, with their names."""
    today = timezone.localdate()
    steps = ((1, _("yesterday evening")), (7, _("a week ago")), (30, _("a month ago")))
    return [((today - timedelta(days=days)).isoformat(), str(words)) for days, words in steps]


# Links, forms and redirects of a page of the past, which lead on to the same moment.
#
# They are rewritten in the finished page, so that no link can be forgotten: every address of a memory or of its runs
# gets the moment unless it already names one.

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


# Reads the moment of a page from its address, refuses changes while one is set, and keeps it in the page's links.

NOT_PAGES = ("/v1/", "/mcp", "/admin/")
SAFE = ("GET", "HEAD", "OPTIONS")


@middleware
def past_pages(request: HttpRequest) -> Steps:
    """Sets ``request.past``, and ``request.past_fault`` to what names no moment."""
    if redirected := _read(request):
        return redirected
    return _with_moment(request, (yield))


def _read(request: HttpRequest) -> HttpResponse | None:
    """Notes the moment; a redirect where the address names it in another way than links do. Raises PermissionDenied
    for what would change something."""
    if PARAMETER not in request.GET or request.path.startswith(NOT_PAGES):
        return None
    text, is_read, route = request.GET[PARAMETER].strip(), request.method in SAFE, route_of(request)
    if route in OWN_USE:
        return None
    moment = None
    try:
        moment = read(text) if text else None
    except (ValueError, OverflowError):
        request.past_fault = text  # type: ignore[attr-defined]
    request.past = moment  # type: ignore[attr-defined]
    if text and not is_read and not is_sent(route):
        raise PermissionDenied(refusal())
    if text and moment is None:
        return None
    if not is_read or getattr(request, "htmx", False) or (moment and moment.text == text):
        return None
    query = request.GET.copy()
    del query[PARAMETER]
    if moment:
        query[PARAMETER] = moment.text
    return HttpResponseRedirect(f"{request.path}?{query.urlencode(safe=':')}" if query else request.path)


def route_of(request: HttpRequest) -> str:
    """The name of the address, known before its view is; empty for an unknown one."""
    try:
        return resolve(request.path_info).url_name or ""
    except Http404:
        return ""


def _with_moment(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    moment = past_of(request)
    if moment is None or not isinstance(response, HttpResponse):
        return response
    if response.has_header("Location"):
        response["Location"] = kept(response["Location"], moment)
    is_page = response.get("Content-Type", "").startswith("text/html")
    if is_page and response.content and not response.has_header("Content-Disposition"):
        response.content = kept_in(response.content.decode(), moment).encode()
    return response
