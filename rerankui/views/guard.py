"""What must not be stored: the policies of a memory, what the guard found, and what people decide about it."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from memoryapp.erasure import masking
from memoryapp.models import ChatUser, Erasure, GuardKind, GuardPolicy, GuardSpot, Message, Role, UnmaskedText
from memoryapp.models.audit import Deed
from memoryapp.platform.database import enough_after
from rerankui.frame.access import check_whole, open_to, operator_of
from rerankui.frame.filters import Filter
from rerankui.frame.pages import Page, is_partial
from rerankui.lists.facets import Facet, of_month
from rerankui.lists.list_page import AskedList, ListPage

# So long a person waits for a rehearsal; of a large memory it looks at the latest messages.
SECONDS = 4.0
# By the column of a memory: when policies apply, and which ones there are.
_POLICIES = {
    "guard": (gettext_lazy("When it arrives"), list(GuardPolicy)),
    "guard_out": (gettext_lazy("When it is handed to an assistant"), [GuardPolicy.OFF, GuardPolicy.MASK]),
}
_SAID = {
    "restore": gettext_lazy("The message has its text back, and the guard leaves it as it is."),
    "release": gettext_lazy("The message is in the memory as it arrived."),
    "mask": gettext_lazy("The message is in the memory with its masks."),
    "discard": gettext_lazy("The message is gone."),
}


class GuardFilter(Filter):
    placeholder = gettext_lazy("Search messages")
    SORTS = {"newest": ("-at", "-id")}
    WORDS = ("message__text",)


class GuardList(ListPage[GuardSpot, GuardFilter]):
    """What was found, with the policies, a rehearsal of a look through the memory, and the last look."""

    title = gettext_lazy("What must not be stored")
    name = "guard"
    form = GuardFilter
    columns = {"message": "message_id", "kind": "kind", "state": "state", "by": "by", "at": "at"}
    page, partial = "pages/guard/guard.html", "partials/guard/spots.html"

    def rows(self, asked: AskedList[GuardFilter]) -> QuerySet[GuardSpot]:
        found = GuardSpot.objects.filter(owner=asked.owner).select_related("message")
        number = asked.query.get("message", "")
        return found.filter(message=int(number)) if number.isdecimal() and len(number) < 19 else found

    def facets(self, asked: AskedList[GuardFilter]) -> tuple[Facet, ...]:
        return (
            Facet("kind", gettext_lazy("Kind"), "kind", dict(GuardKind.choices)),
            Facet("state", gettext_lazy("State"), "state", dict(GuardSpot.State.choices)),
            of_month("found", gettext_lazy("Found"), "at"),
        )

    def more(self, asked: AskedList[GuardFilter], page: Page[GuardSpot], found: Any) -> dict[str, Any]:
        owner, is_rehearsed = asked.owner, "rehearse" in asked.request.GET
        if is_partial(asked.request):
            return {}
        counts = dict(GuardSpot.objects.filter(owner=owner).values_list("kind").annotate(n=Count("pk")).order_by())

        def choice(column: str, kind: GuardKind) -> tuple[Any, ...]:
            usual = getattr(settings, column.upper()).get(kind, GuardPolicy.OFF)
            return (column, *_POLICIES[column], getattr(owner, column).get(kind, ""), GuardPolicy(usual).label)

        return {
            "kinds": [(kind, [choice(each, kind) for each in _POLICIES], counts.get(kind, 0)) for kind in GuardKind],
            "rehearsal": masking.rehearse(owner, enough_after(SECONDS)) if is_rehearsed else None,
            "look": Erasure.objects.filter(owner_number=owner.pk, kind=Erasure.Kind.MASK).order_by("-pk").first(),
            "may_change": operator_of(asked.request).may(Role.CURATOR) and operator_of(asked.request).projects is None,
        }

    def sent(self, request: HttpRequest, owner: ChatUser) -> HttpResponse:
        """The policies are stored, or the worker is asked to look through the memory."""
        check_whole(request)
        if "look" in request.POST:
            masking.ask(owner, request.user.get_username())
            messages.success(request, _("The worker looks through the memory."))
            return redirect("guard", owner.pk)
        for column, (_when, options) in _POLICIES.items():
            given = {kind.value: request.POST.get(f"{column}-{kind}", "") for kind in GuardKind}
            chosen = {kind: policy for kind, policy in given.items() if policy in options}
            ChatUser.objects.filter(pk=owner.pk).update(**{column: chosen})
        messages.success(request, _("The policies are saved. They apply to what arrives from now on."))
        return redirect("guard", owner.pk)


GUARD = GuardList()


@open_to(Role.VIEWER, post=Role.CURATOR)
def guarded(request: HttpRequest, owner: ChatUser, message: int) -> HttpResponse:
    """Decides about a held message, or restores a masked one, when posted; opening it leads to the message."""
    found, decision = get_object_or_404(Message.objects.of(owner), pk=message), request.POST.get("do", "")
    if request.method != "POST":
        return redirect(f"{reverse('messages', args=[owner.pk])}?at={found.pk}")
    if masking.decide(found, request.user.get_username(), decision):
        messages.success(request, _SAID[decision])
    else:
        messages.warning(request, _("This was decided meanwhile; the page shows the decision."))
    return redirect("guard" if decision == "restore" else "inbox", owner.pk)


@never_cache
@open_to(Role.VIEWER, post=Role.CURATOR, deed=Deed.EXPORT)
def reveal(request: HttpRequest, owner: ChatUser, message: int) -> HttpResponse:
    """Shows once what the masks of a message hide, when posted; the audit log calls it an export."""
    if request.method != "POST":
        return redirect("guarded", owner.pk, message)
    found = get_object_or_404(UnmaskedText.objects.select_related("message"), owner=owner, message=message)
    is_held = found.message.spots.filter(state=GuardSpot.State.HELD).exists()
    return render(
        request,
        "pages/guard/reveal.html",
        {"owner": owner, "unmasked": found, "message": found.message, "is_held": is_held},
    )
