"""The pages of a demo that everybody may look at, with ``DEMO_READ_ONLY``: nothing is taken but questions."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from memoryapp.doors.api.refusals import refusal
from memoryapp.upkeep.demo import visits
from rerankui.web.moment import NOT_PAGES, SAFE, route_of

_ASKING = frozenset(("ask", "recall", "run_fork"))
_IN_COOKIES = frozenset(("theme", "language"))
_ABOUT_ACCOUNTS = frozenset(("login", "account", "password"))


class ReadOnlyPages(MiddlewareMixin):
    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Refuses what would change something. Raises PermissionDenied, for pages, with a sentence."""
        route = route_of(request)
        if request.method in SAFE:
            return redirect("overview") if route in _ABOUT_ACCOUNTS else None
        if request.path.startswith(NOT_PAGES):
            return refusal(403, "This is a demo for everybody to look at: nothing is changed here.")
        if request.method != "POST" or route not in _ASKING | _IN_COOKIES:
            raise PermissionDenied(_("This is a demo for everybody to look at: nothing is changed here."))
        if route in _ASKING and visits.is_busy():
            raise PermissionDenied(_("Many visitors are asking right now. Try again in a minute."))
        return None
