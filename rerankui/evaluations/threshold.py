"""The page that draws what the embedded scorer's least certainty costs and saves in one memory, and sets it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from memoryapp.engine.cells import enter
from memoryapp.insight.evaluation.threshold import Trade, trade_of
from memoryapp.models import ChatUser, GoldenQuestion, Role
from memoryapp.models.user import CERTAINTY
from rerankui.frame.access import open_to, operator_of, visible_owners

MOST_OWNERS = 200
# The picture's own units.
WIDTH, HEIGHT = 100, 40


@open_to(Role.VIEWER, post=Role.CURATOR, whole=True)
def threshold(request: HttpRequest) -> HttpResponse:
    """The trade of the memory that ``owner`` names, the first with golden questions without it; a curator sets its
    least certainty, an empty one is the usual."""
    with_questions = GoldenQuestion.objects.filter(owner__in=visible_owners(request)).values("owner")
    owners = list(visible_owners(request).filter(pk__in=with_questions).order_by("name")[:MOST_OWNERS])
    typed = request.POST if request.method == "POST" else request.GET
    named = typed.get("owner", "")
    number = int(named) if named.isdecimal() and len(named) < 10 else 0
    owner = get_object_or_404(visible_owners(request), pk=number) if named else next(iter(owners), None)
    may_set = operator_of(request).may(Role.CURATOR)
    if request.method == "POST" and owner:
        return _set(request, owner)
    context: dict[str, Any] = {"owners": owners, "owner": owner, "may_set": may_set, "width": WIDTH, "height": HEIGHT}
    if owner:
        enter(owner.cell)
        trade = trade_of(owner)
        context |= {"trade": trade, "lines": _lines(trade), "at": trade.in_force * WIDTH / 100}
    return render(request, "pages/evaluations/threshold.html", context)


def _set(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    typed = request.POST.get("least", "").strip()
    if typed and not (typed.isdecimal() and len(typed) < 4 and int(typed) <= CERTAINTY[1]):
        messages.error(request, _("A least certainty is a whole number from 0 to 100."))
        return redirect(f"{reverse('threshold')}?owner={owner.pk}")
    least = int(typed) if typed else None
    ChatUser.objects.filter(pk=owner.pk).update(least_certainty=least)
    said = _("%(name)s uses the usual value.") if least is None else _("%(name)s: chosen from %(least)s %% on.")
    messages.success(request, said % {"name": owner, "least": least})
    return redirect(f"{reverse('threshold')}?owner={owner.pk}")


def _lines(trade: Trade) -> list[tuple[str, str]]:
    """Each line's name and its points in the picture, from the left."""

    def drawn(values: list[float]) -> str:
        xs = (point.least * WIDTH / 100 for point in trade.points)
        return " ".join(f"{x:g},{HEIGHT * (1 - value):g}" for x, value in zip(xs, values, strict=True))

    return [
        ("right", drawn([point.right for point in trade.points])),
        ("refused", drawn([point.refused for point in trade.points])),
    ]
