"""The page of embedding profiles, for admins: which one serves, what another would cost, how far it is, thresholds."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from memoryapp.insight.browsing import profiles as browsing
from memoryapp.insight.browsing.profiles import measured
from memoryapp.models import EmbeddingProfile, Role
from memoryapp.platform import work
from memoryapp.search import profiles, vectors
from rerankui.frame.access import requires
from rerankui.frame.forms import ThresholdsForm
from rerankui.frame.pages import show


@require_safe
@requires(Role.ADMIN)
def embedding(request: HttpRequest) -> HttpResponse:
    """Every profile; asked for every few seconds while vectors are made."""
    states = browsing.states()
    context: dict[str, Any] = {
        "states": states,
        "is_changing": any(state.is_wanted and not state.row.is_serving for state in states),
        "is_at_work": any(state.is_being_made or (state.row.is_serving and state.forecast) for state in states),
        "current": work.current(None, vectors.EMBED),
    }
    return show(request, "pages/embedding.html", "partials/embedding/profiles.html", context)


@require_safe
@requires(Role.ADMIN)
def embedding_similarities(request: HttpRequest, embeddingprofile: int) -> HttpResponse:
    """How similar texts are in a profile, as a picture, with the thresholds that follow from it."""
    row = get_object_or_404(EmbeddingProfile, pk=embeddingprofile)
    return render(request, "partials/embedding/similarities.html", {"row": row, "similarities": measured(row)})


@require_POST
@requires(Role.ADMIN)
def embedding_change(request: HttpRequest, embeddingprofile: int) -> HttpResponse:
    """Does one thing with a profile: ``do`` is ask, stop, serve, retry, adopt, keep or remove."""
    row = get_object_or_404(EmbeddingProfile, pk=embeddingprofile)
    change = _CHANGES.get(request.POST.get("do", ""))
    if change is None:
        return HttpResponse(status=400)
    change(request, row)
    return redirect("embedding")


def _ask(request: HttpRequest, row: EmbeddingProfile) -> None:
    profiles.ask(row, request.user.get_username())
    messages.success(request, _("The vectors of %(name)s are being made.") % {"name": row})


def _stop(request: HttpRequest, row: EmbeddingProfile) -> None:
    profiles.stop(row)
    messages.success(request, _("No more vectors of %(name)s are made; existing ones are kept.") % {"name": row})


def _serve(request: HttpRequest, row: EmbeddingProfile) -> None:
    if row != profiles.configured():
        messages.error(request, _("The settings do not ask for %(name)s.") % {"name": row})
        return
    profiles.serve(row)
    messages.success(request, _("Searches compare in %(name)s from now on.") % {"name": row})


def _retry(request: HttpRequest, row: EmbeddingProfile) -> None:
    profiles.ask_again(row)
    messages.success(request, _("Texts without a vector are sent again within seconds."))


def _adopt(request: HttpRequest, row: EmbeddingProfile) -> None:
    form = ThresholdsForm(request.POST)
    if form.is_valid():
        EmbeddingProfile.objects.filter(pk=row.pk).update(**form.cleaned_data, decision=EmbeddingProfile.Decision.MADE)
        messages.success(request, _("The thresholds of %(name)s are in force.") % {"name": row})
    else:
        messages.error(request, _("A threshold is a number from 0 to 1. Nothing was changed."))


def _keep(request: HttpRequest, row: EmbeddingProfile) -> None:
    EmbeddingProfile.objects.filter(pk=row.pk).update(decision=EmbeddingProfile.Decision.MADE)
    messages.success(request, _("The thresholds of %(name)s stay as they are.") % {"name": row})


def _remove(request: HttpRequest, row: EmbeddingProfile) -> None:
    if profiles.remove_vectors(row):
        messages.success(request, _("The vectors of %(name)s were removed.") % {"name": row})
    else:
        messages.error(request, _("%(name)s is in use. Nothing was removed.") % {"name": row})


_CHANGES = {
    "ask": _ask,
    "stop": _stop,
    "serve": _serve,
    "retry": _retry,
    "adopt": _adopt,
    "keep": _keep,
    "remove": _remove,
}
