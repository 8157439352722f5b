"""The page of embedding profiles, for admins: which one serves, what another would cost, how far it is, thresholds."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.insight.browsing import profiles as browsing
from memoryapp.insight.browsing.profiles import measured
from memoryapp.models import EmbeddingProfile, Role
from memoryapp.platform import work
from memoryapp.search import profiles, vectors
from rerankui.frame.access import open_to
from rerankui.frame.forms import ThresholdsForm
from rerankui.frame.pages import show


@open_to(Role.ADMIN)
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


@open_to(Role.ADMIN)
def embedding_similarities(request: HttpRequest, embeddingprofile: int) -> HttpResponse:
    """How similar texts are in a profile, as a picture, with the thresholds that follow from it."""
    row = get_object_or_404(EmbeddingProfile, pk=embeddingprofile)
    return render(request, "partials/embedding/similarities.html", {"row": row, "similarities": measured(row)})


@open_to(post=Role.ADMIN)
def embedding_change(request: HttpRequest, embeddingprofile: int) -> HttpResponse:
    """Does one thing with a profile: ``do`` is ask, stop, serve, retry, adopt, keep or remove."""
    row = get_object_or_404(EmbeddingProfile, pk=embeddingprofile)
    do = request.POST.get("do", "")
    if do not in _DONE:
        return HttpResponse(status=400)
    if _changed(row, do, request):
        messages.success(request, _DONE[do] % {"name": row})
    else:
        messages.error(request, _REFUSED[do] % {"name": row})
    return redirect("embedding")


_DONE: Mapping[str, Promise] = {
    "ask": _("The vectors of %(name)s are being made."),
    "stop": _("No more vectors of %(name)s are made; existing ones are kept."),
    "serve": _("Searches compare in %(name)s from now on."),
    "retry": _("Texts without a vector are sent again within seconds."),
    "adopt": _("The thresholds of %(name)s are in force."),
    "keep": _("The thresholds of %(name)s stay as they are."),
    "remove": _("The vectors of %(name)s were removed."),
}
_REFUSED: Mapping[str, Promise] = {
    "serve": _("The settings do not ask for %(name)s."),
    "adopt": _("A threshold is a number from 0 to 1. Nothing was changed."),
    "remove": _("%(name)s is in use. Nothing was removed."),
}


def _changed(row: EmbeddingProfile, do: str, request: HttpRequest) -> bool:
    """Whether it could be done."""
    decided = {"decision": EmbeddingProfile.Decision.MADE}
    if do == "ask":
        profiles.ask(row, request.user.get_username())
    elif do == "stop":
        profiles.stop(row)
    elif do == "retry":
        profiles.ask_again(row)
    elif do == "remove":
        return profiles.remove_vectors(row)
    elif do == "serve":
        if row != profiles.configured():
            return False
        profiles.serve(row)
    else:
        form = ThresholdsForm(request.POST)
        if do == "adopt" and not form.is_valid():
            return False
        EmbeddingProfile.objects.filter(pk=row.pk).update(**decided, **(form.cleaned_data if do == "adopt" else {}))
    return True
