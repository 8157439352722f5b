"""People the chat user talks about."""

from collections.abc import Sequence
from typing import Any, cast

from django.db.models import Case, Value, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memoryapp.curation import CurationError, knowledge
from memoryapp.curation.knowledge import MOST_MERGED
from memoryapp.insight.browsing.quality import FEW_MENTIONS
from memoryapp.models import ChatUser, KnowledgeEdit, Person, Role
from rerankui.frame import toasts
from rerankui.frame.access import Request, open_to
from rerankui.frame.filters import MeaningFilter, choice
from rerankui.frame.pages import Page
from rerankui.frame.toasts import undo_address
from rerankui.knowledge.facts import RowList, extraction_context
from rerankui.lists.facets import Facet, of_month, of_project
from rerankui.lists.list_page import AskedList

_MENTIONS = {"3": _("10 and more"), "2": _("2–9"), "1": _("once or never")}


class PersonFilter(MeaningFilter):
    placeholder = _("Search names, aliases, notes")
    SORTS = {"mentions": ("-mention_count", "-id"), "name": ("display_name", "id")}
    WORDS = ("display_name", "username", "bio", "aliases")
    circle = choice(_("Circle"), _("all circles"), list(Person.Circle.choices), by="circle")


class PeopleList(RowList[Person, PersonFilter]):
    title = _("People")
    name, near, noun = "people", "people", KnowledgeEdit.Noun.PERSON
    form = PersonFilter
    columns = {
        "id": "pk",
        "name": "display_name",
        "also_called": "aliases",
        "username": "username",
        "circle": "circle",
        "about": "bio",
        "mentions": "mention_count",
        "first_seen": "first_seen",
        "last_seen": "last_seen",
    }
    partial = "partials/knowledge/people.html"

    def facets(self, asked: AskedList[PersonFilter]) -> tuple[Facet, ...]:
        mentions = Case(
            When(mention_count__gte=10, then=Value("3")),
            When(mention_count__gte=FEW_MENTIONS, then=Value("2")),
            default=Value("1"),
        )
        return (
            Facet("of", _("Circle"), "circle", dict(Person.Circle.choices)),
            of_project(),
            Facet("mentions", _("Mentions"), mentions, _MENTIONS, in_order=True),
            of_month("seen", _("Last seen"), "last_seen"),
        )

    def more(self, asked: AskedList[PersonFilter], page: Page[Person], found: Any) -> dict[str, Any]:
        context = {
            "most": max((person.mention_count for person in page), default=0) or 1,
            "chosen": asked.request.GET.get("chosen", ""),
        }
        return context if asked.moment else context | extraction_context(asked.owner)


PEOPLE = PeopleList()


# Several people who are one: side by side, whose name survives, and what the one person would be.


@open_to(Role.CURATOR, post=Role.CURATOR)
def people_merge(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """``people`` are the numbers of those chosen, ``survivor`` the one who keeps name and number."""
    asked = request.POST if request.method == "POST" else request.GET
    ids = [int(n) for n in asked.getlist("people") if n.isdecimal() and len(n) < 19][: MOST_MERGED + 1]
    people = list(Person.objects.filter(owner=owner, pk__in=ids).order_by("-mention_count", "pk"))
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
        raise CurationError(gettext("Some of these people are gone: somebody deleted or merged them."))
    others = [person for person in people if person != survivor]
    authorship = {"actor": request.user.get_username(), "reason": request.POST.get("reason", "").strip()}
    made = knowledge.merge_people(owner, survivor, others, **authorship)
    sentence = ngettext("Merged %(n)d person into %(name)s", "Merged %(n)d people into %(name)s", len(others))
    toasts.add(request, sentence % {"n": len(others), "name": survivor}, undo_address(made), gettext("Undo"))
    return redirect("person", owner_id=owner.pk, person=survivor.pk)
