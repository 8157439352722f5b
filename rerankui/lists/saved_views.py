"""Saved views of lists: kept, renamed, shared and deleted; an address of one leads to its list."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp.models import SavedView
from rerankui.access import operator_of, owner_or_404
from rerankui.addresses import next_address
from rerankui.lists import saved

LONGEST_QUERY = 20_000


@require_http_methods(["GET", "HEAD", "POST"])
def view_save(request: HttpRequest, owner_id: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    if request.method != "POST":
        return redirect("topics", owner.pk)
    wanted, sent = request.POST.get("list", ""), request.POST.get("query", "")
    if wanted not in SavedView.List.values or len(sent) > LONGEST_QUERY:
        return HttpResponseBadRequest(_("Say which list is to be kept as a view."))
    back = next_address(request) or reverse("topics", args=[owner.pk])
    try:
        query = QueryDict(sent)
        is_shared = "shared" in request.POST
        view = saved.save(operator_of(request), owner, wanted, request.POST.get("name", ""), query, is_shared=is_shared)
    except saved.UnsavableView as error:
        messages.error(request, str(error))
        return redirect(back)
    messages.success(request, _("Saved as “%(name)s”.") % {"name": view})
    return redirect(saved.address_of(view))


@require_http_methods(["GET", "HEAD", "POST"])
def saved_view(request: HttpRequest, owner_id: int, savedview: int) -> HttpResponse:
    """Renames or deletes it when posted; opened, it leads to its list."""
    owner = owner_or_404(request, owner_id)
    view = get_object_or_404(saved.offered(operator_of(request)), owner=owner, pk=savedview)
    if request.method == "POST" and saved.may_change(operator_of(request), view):
        return _changed(request, view)
    if request.method == "POST":
        messages.error(request, _("This view is somebody else’s."))
    return redirect(saved.address_of(view))


def _changed(request: HttpRequest, view: SavedView) -> HttpResponse:
    if "delete" in request.POST:
        address, name = saved.address_of(view), view.name
        view.delete()
        messages.success(request, _("The view “%(name)s” is deleted; the list stays as it is.") % {"name": name})
        return redirect(address)
    try:
        saved.rename(view, request.POST.get("name", ""), is_shared="shared" in request.POST)
    except saved.UnsavableView as error:
        messages.error(request, str(error))
    return redirect(saved.address_of(view))
