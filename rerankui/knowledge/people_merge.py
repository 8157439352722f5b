"""Several people who are one: side by side, whose name survives, and what the one person would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from memoryapp import knowledge
from memoryapp.curation import CurationError
from memoryapp.knowledge import MOST_MERGED
from memoryapp.models import ChatUser, Person, Role
from rerankui import toasts
from rerankui.access import Request, owner_or_404, requires
from rerankui.addresses import undo_address


@require_http_methods(("GET", "HEAD", "POST"))
@requires(Role.CURATOR)
def people_merge(request: HttpRequest, owner_id: int) -> HttpResponse:
    """``people`` are the numbers of those chosen, ``survivor`` the one who keeps name and number."""
    owner = owner_or_404(request, owner_id)
    asked = request.POST if request.method == "POST" else request.GET
    people = _people(owner, asked.getlist("people"))
    survivor = _survivor(people, asked.get("survivor", ""))
    sentence = ""
    if request.method == "POST":
        try:
            return _merged(request, owner, people, survivor)
        except CurationError as error:
            sentence = str(error)
    context = {
        "owner": owner,
        "people": people,
        "survivor": survivor,
        "result": _result(people, survivor) if survivor and len(people) > 1 else None,
        "sentence": sentence,
    }
    template = (
        "partials/knowledge/people_merged.html" if cast(Request, request).htmx else "pages/knowledge/people_merge.html"
    )
    return render(request, template, context, status=409 if sentence else 200)


def _people(owner: ChatUser, numbers: Sequence[str]) -> list[Person]:
    """Those there are, the most spoken of first."""
    ids = [int(number) for number in numbers if number.isdecimal() and len(number) < 19][: MOST_MERGED + 1]
    return list(Person.objects.filter(owner=owner, pk__in=ids).order_by("-mention_count", "pk"))


def _survivor(people: Sequence[Person], number: str) -> Person | None:
    return next((person for person in people if str(person.pk) == number), next(iter(people), None))


def _result(people: Sequence[Person], survivor: Person) -> Person:
    """The one person, not stored."""
    whole = knowledge.merged([survivor, *(person for person in people if person != survivor)])
    times = {
        name: pick((getattr(p, name) for p in people if getattr(p, name)), default=None)
        for name, pick in (("first_seen", min), ("last_seen", max))
    }
    return Person(pk=survivor.pk, display_name=survivor.display_name, **{**whole, **times})


def _merged(request: HttpRequest, owner: ChatUser, people: Sequence[Person], survivor: Person | None) -> HttpResponse:
    asked = {number for number in request.POST.getlist("people") if number.isdecimal()}
    if survivor is None or len(people) != len(asked) or request.POST.get("survivor") != str(survivor.pk):
        raise CurationError(_("Some of these people are gone: somebody deleted or merged them."))
    others = [person for person in people if person != survivor]
    authorship = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
    made = knowledge.merge_people(owner, survivor, others, **authorship)
    sentence = ngettext("Merged %(n)d person into %(name)s", "Merged %(n)d people into %(name)s", len(others))
    toasts.add(request, sentence % {"n": len(others), "name": survivor}, undo_address(made), _("Undo"))
    return redirect("person", owner_id=owner.pk, person=survivor.pk)
