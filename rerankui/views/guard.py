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
_OUT = (GuardPolicy.OFF, GuardPolicy.MASK)


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
        return GuardSpot.objects.filter(owner=asked.owner).select_related("message")

    def facets(self, asked: AskedList[GuardFilter]) -> tuple[Facet, ...]:
        return (
            Facet("kind", gettext_lazy("Kind"), "kind", dict(GuardKind.choices)),
            Facet("state", gettext_lazy("State"), "state", dict(GuardSpot.State.choices)),
            of_month("found", gettext_lazy("Found"), "at"),
        )

    def more(self, asked: AskedList[GuardFilter], page: Page[GuardSpot], found: Any) -> dict[str, Any]:
        request, owner = asked.request, asked.owner
        if is_partial(request):
            return {}
        counts = dict(GuardSpot.objects.filter(owner=owner).values_list("kind").annotate(n=Count("pk")).order_by())
        is_rehearsed = "rehearse" in request.GET
        rehearsal = masking.rehearse(owner, enough_after(SECONDS)) if is_rehearsed else None
        receipts = Erasure.objects.filter(owner_number=owner.pk, kind=Erasure.Kind.MASK)
        return {
            # Each with its policies here and everywhere, and how many messages have something of it.
            "kinds": [
                (
                    kind,
                    (owner.guard.get(kind, ""), GuardPolicy(settings.GUARD.get(kind, "off"))),
                    (owner.guard_out.get(kind, ""), GuardPolicy(settings.GUARD_OUT.get(kind, "off"))),
                    counts.get(kind, 0),
                )
                for kind in GuardKind
            ],
            "options": GuardPolicy.choices,
            "options_out": [(policy.value, policy.label) for policy in _OUT],
            "rehearsal": rehearsal,
            "would": [(GuardKind(kind), n, rehearsal.first[kind]) for kind, n in rehearsal.kinds.most_common()]
            if rehearsal
            else [],
            "may_change": operator_of(request).may(Role.CURATOR) and operator_of(request).projects is None,
            "look": receipts.order_by("-pk").first(),
        }

    def sent(self, request: HttpRequest, owner: ChatUser) -> HttpResponse:
        """The policies are stored, or the worker is asked to look through the memory."""
        check_whole(request)
        if "look" in request.POST:
            masking.ask(owner, request.user.get_username())
            messages.success(request, _("The worker looks through the memory."))
            return redirect("guard", owner.pk)
        for name, options in (("guard", list(GuardPolicy)), ("guard_out", _OUT)):
            given = {kind.value: request.POST.get(f"{name}-{kind.value}", "") for kind in GuardKind}
            ChatUser.objects.filter(pk=owner.pk).update(**{name: {k: v for k, v in given.items() if v in options}})
        messages.success(request, _("The policies are saved. They apply to what arrives from now on."))
        return redirect("guard", owner.pk)


GUARD = GuardList()


def _there(message: Message) -> HttpResponse:
    return redirect(f"{reverse('messages', args=[message.owner_id])}?at={message.pk}")


@open_to(Role.VIEWER, post=Role.CURATOR)
def guarded(request: HttpRequest, owner: ChatUser, message: int) -> HttpResponse:
    """Decides about a held message, or restores a masked one, when posted; opening it leads to the message."""
    found, who = get_object_or_404(Message.objects.of(owner), pk=message), request.user.get_username()
    if request.method != "POST":
        return _there(found)
    decision = request.POST.get("do", "")
    if decision == "restore":
        masking.restore(found, who)
        messages.success(request, _("The message has its text back, and the guard leaves it as it is."))
        return redirect("guard", owner.pk)
    said = {
        "release": _("The message is in the memory as it arrived."),
        "mask": _("The message is in the memory with its masks."),
        "discard": _("The message is gone."),
    }
    is_done = decision in said and masking.decide(found, who, decision)
    messages.success(
        request, said[decision] if is_done else _("This was decided meanwhile; the page shows the decision.")
    )
    return redirect("inbox", owner.pk)


@never_cache
@open_to(Role.VIEWER, post=Role.CURATOR, deed=Deed.EXPORT)
def reveal(request: HttpRequest, owner: ChatUser, message: int) -> HttpResponse:
    """Shows once what the masks of a message hide, when posted; the audit log calls it an export."""
    if request.method != "POST":
        return _there(get_object_or_404(Message.objects.of(owner), pk=message))
    found = get_object_or_404(UnmaskedText.objects.select_related("message"), owner=owner, message=message)
    is_held = GuardSpot.objects.filter(message=message, state=GuardSpot.State.HELD).exists()
    return render(request, "pages/guard/reveal.html", {"owner": owner, "unmasked": found, "is_held": is_held})
