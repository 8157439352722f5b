"""A run as a file: downloaded, and a file of another installation opened."""

from __future__ import annotations

from uuid import UUID

from csp.decorators import csp_exempt
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template import TemplateSyntaxError
from django.urls import NoReverseMatch
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from memoryapp import capsules
from memoryapp.capsules import Capsule, CapsuleError
from memoryapp.models import Role
from rerankui.access import requires, run_or_404
from rerankui.runs.capsule import page

# What the partials raise for events that no run has: their values were read, but do not fit together.
UNSHOWABLE = (ArithmeticError, AttributeError, LookupError, NoReverseMatch, TemplateSyntaxError, TypeError, ValueError)


@require_safe
@requires(Role.VIEWER)
def run_capsule(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The run as one HTML file, or as JSON; with ``mask`` without personal data."""
    run = run_or_404(request, pk)
    try:
        capsule = capsules.capsule_of(run)
    except CapsuleError as error:
        raise Http404(str(error)) from error
    if request.GET.get("mask"):
        capsule = capsules.masked(capsule, run.owner)
    if request.GET.get("format") == "json":
        response: HttpResponse = JsonResponse(capsules.document(capsule), json_dumps_params={"ensure_ascii": False})
        name = f"run-{run.short_id}.json"
    else:
        response, name = HttpResponse(page(capsule)), f"run-{run.short_id}.html"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Role.VIEWER)
def run_open(request: HttpRequest) -> HttpResponseBase:
    """Shows the run of a JSON file; nothing of it is stored."""
    if request.method != "POST":
        return _asked(request)
    sent = request.FILES.get("file")
    if sent is None:
        return _asked(request, _("Choose the file of a run."))
    if (sent.size or 0) > capsules.LARGEST_BYTES:
        return _asked(request, _("This file is larger than 20 MB, which no run is."))
    try:
        return _shown(capsules.opened(sent.read()))
    except CapsuleError as error:
        return _asked(request, str(error))
    except UNSHOWABLE:
        return _asked(request, _("The events of this file do not fit together, so that they cannot be shown."))


def _asked(request: HttpRequest, sentence: str = "") -> HttpResponse:
    return render(request, "pages/runs/run_open.html", {"sentence": sentence}, status=422 if sentence else 200)


def _shown(capsule: Capsule) -> HttpResponseBase:
    """The page has a policy of its own, which is stricter than that of the others and forbids theirs."""
    response = HttpResponse(page(capsule, is_foreign=True))
    return csp_exempt()(lambda _request: response)(HttpRequest())
