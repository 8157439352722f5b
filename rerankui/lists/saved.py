"""Saved views: the search, filters, facets and order of a list under a name, as tabs above it. A view is an address
that can be read: its parameters are those of the list, and nothing else depends on the row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from memoryapp.models import ChatUser, Operator, Role, SavedView
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.toasts import next_address

MOST_VIEWS = 40
MOST_NAMES, MOST_VALUES, LONGEST_VALUE = 24, 10, 2_000
# Where on the list somebody is, and what is shown of it, is no part of a view.
PLACES = frozenset(("after", "before", "at", "on", "format", "chosen", "as_of", "all", "next"))
Query = Mapping[str, Sequence[str]]


class UnsavableView(Exception):
    """The text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class ListedView:
    row: SavedView
    address: str
    is_current: bool
    may_change: bool


def query_of(sent: QueryDict) -> dict[str, list[str]]:
    """What of an address makes a view: names with values, in their order; an empty facet is a choice, too."""
    return {name: values for name in sorted(sent) if name not in PLACES and (values := sent.getlist(name)) != [""]}


def address_of(view: SavedView) -> str:
    address = reverse(view.list) if view.list == SavedView.List.RUNS else reverse(view.list, args=[view.owner_id])
    anchor = "#latest" if view.list == SavedView.List.MESSAGES else ""
    # The database keeps no order of names.
    query = urlencode(sorted(view.query.items()), doseq=True)
    return f"{address}?{query}{anchor}" if query else f"{address}{anchor}"


def offered(operator: Operator) -> QuerySet[SavedView]:
    """The operator's own views and those that are shared, of the memories that the operator may see."""
    seen = ChatUser.objects.seen_by(operator)
    return SavedView.objects.filter(Q(user=operator.user) | Q(is_shared=True), owner__in=seen)


def listed(operator: Operator, owner: ChatUser, of_list: str, now: QueryDict) -> list[ListedView]:
    """The views of one list, by name; the one that the address ``now`` shows is current."""
    rows = offered(operator).filter(owner=owner, list=of_list).order_by("name", "pk")[:MOST_VIEWS]
    shown = query_of(now)
    return [ListedView(row, address_of(row), row.query == shown, may_change(operator, row)) for row in rows]


def called(operator: Operator, words: str) -> list[ListedView]:
    """The views with the words in their names, for the palette."""
    rows = offered(operator).filter(name__icontains=words).select_related("owner").order_by("name", "pk")
    return [ListedView(row, address_of(row), False, may_change(operator, row)) for row in rows[:MOST_VIEWS]]


def may_change(operator: Operator, view: SavedView) -> bool:
    """Everybody changes their own; one that is shared also whoever may change the memory."""
    return view.user_id == operator.user.pk or (view.is_shared and operator.may(Role.CURATOR))


def save(
    operator: Operator, owner: ChatUser, of_list: str, name: str, sent: QueryDict, *, is_shared: bool
) -> SavedView:
    """Keeps the view under the name; one of the same name and person is replaced. Raises UnsavableView."""
    query, called = query_of(sent), named(name)
    values = [value for each in query.values() for value in each]
    is_long = len(query) > MOST_NAMES or any(len(each) > MOST_VALUES for each in query.values())
    if is_long or any(len(value) > LONGEST_VALUE or "\0" in value for value in (*query, *values)):
        raise UnsavableView(_("This address is too long to be kept as a view."))
    mine = SavedView.objects.filter(owner=owner, list=of_list, user=operator.user)
    if mine.count() >= MOST_VIEWS and not mine.filter(name=called).exists():
        raise UnsavableView(_("You have %(n)d views of this list; delete one first.") % {"n": MOST_VIEWS})
    view, _made = SavedView.objects.update_or_create(
        owner=owner, list=of_list, user=operator.user, name=called, defaults={"query": query, "is_shared": is_shared}
    )
    return view


def rename(view: SavedView, name: str, *, is_shared: bool) -> None:
    """Raises UnsavableView, then nothing is changed."""
    called = named(name)
    others = SavedView.objects.filter(owner=view.owner_id, list=view.list, user=view.user_id, name=called)
    if others.exclude(pk=view.pk).exists():
        raise UnsavableView(_("Another view of this list is called “%(name)s”.") % {"name": called})
    SavedView.objects.filter(pk=view.pk).update(name=called, is_shared=is_shared)


def named(name: str) -> str:
    called = " ".join(name.replace("\0", "").split())
    longest = SavedView._meta.get_field("name").max_length or 0
    if not called or len(called) > longest:
        raise UnsavableView(_("A view needs a name of at most %(n)d characters.") % {"n": longest})
    return called


# Saved views of lists: kept, renamed, shared and deleted; an address of one leads to its list.

LONGEST_QUERY = 20_000


@open_to(Role.VIEWER, post=Role.VIEWER)
def view_save(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    if request.method != "POST":
        return redirect("topics", owner.pk)
    wanted, sent = request.POST.get("list", ""), request.POST.get("query", "")
    if wanted not in SavedView.List.values or len(sent) > LONGEST_QUERY:
        return HttpResponseBadRequest(_("Say which list is to be kept as a view."))
    back = next_address(request) or reverse("topics", args=[owner.pk])
    try:
        query = QueryDict(sent)
        is_shared = "shared" in request.POST
        view = save(operator_of(request), owner, wanted, request.POST.get("name", ""), query, is_shared=is_shared)
    except UnsavableView as error:
        messages.error(request, str(error))
        return redirect(back)
    messages.success(request, _("Saved as “%(name)s”.") % {"name": view})
    return redirect(address_of(view))


@open_to(Role.VIEWER, post=Role.VIEWER)
def saved_view(request: HttpRequest, owner: ChatUser, savedview: int) -> HttpResponse:
    """Renames or deletes it when posted; opened, it leads to its list."""
    view = get_object_or_404(offered(operator_of(request)), owner=owner, pk=savedview)
    if request.method == "POST" and may_change(operator_of(request), view):
        if "delete" in request.POST:
            address, name = address_of(view), view.name
            view.delete()
            messages.success(request, _("The view “%(name)s” is deleted; the list stays as it is.") % {"name": name})
            return redirect(address)
        try:
            rename(view, request.POST.get("name", ""), is_shared="shared" in request.POST)
        except UnsavableView as error:
            messages.error(request, str(error))
        return redirect(address_of(view))
    if request.method == "POST":
        messages.error(request, _("This view is somebody else’s."))
    return redirect(address_of(view))
