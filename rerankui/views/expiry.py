"""What expires: the rules of a memory or of all, each rehearsed before it is switched on, and what they set aside."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.forms.models import modelform_factory
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache

from memoryapp.curation import CurationError
from memoryapp.erasure import expiry
from memoryapp.models import ChatUser, ExpiryBatch, ExpiryRule, Fact, Media, Message, Role, Run
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.pages import page_of

MOST_RULES = 100
SHIELDS = {
    "pinned": gettext_lazy("pinned"),
    "golden": gettext_lazy("evidence of a golden question"),
    "miss": gettext_lazy("under an open miss"),
    "judged": gettext_lazy("judged by a person"),
    "read": gettext_lazy("being read at this moment"),
}
# Of each noun its words and its page, where it has one.
_SHOWN: dict[str, tuple[Any, str, str]] = {
    "message": (Message, "text", "/memory/{owner}/messages/?at={number}#message-{number}"),
    "fact": (Fact, "content", "/memory/{owner}/facts/{number}/"),
    "run": (Run, "query", "/runs/{number}/"),
    "trace": (Run, "query", "/runs/{number}/"),
    "media": (Media, "name", ""),
}


def _field(column: Any, **options: Any) -> Any:
    field = column.formfield(**options)
    field.widget.attrs["class"] = "field"
    return field


RuleForm = modelform_factory(
    ExpiryRule, fields=("noun", "kind", "days", "condition", "grace_days"), formfield_callback=_field
)


@never_cache
@open_to(Role.ADMIN, post=Role.ADMIN, whole=True)
def expiry_all(request: HttpRequest) -> HttpResponse:
    return _rules(request, None)


@never_cache
@open_to(Role.VIEWER, post=Role.CURATOR, whole=True)
def expiry_page(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    return _rules(request, owner)


def _rules(request: HttpRequest, owner: ChatUser | None) -> HttpResponse:
    rules = ExpiryRule.objects.filter(owner=owner)
    switched = request.POST.get("switch", "")
    if switched.isdecimal() and len(switched) < 19:
        rule = get_object_or_404(rules, pk=switched)
        rules.filter(pk=rule.pk).update(is_on=not rule.is_on)
        return redirect(request.path)
    data = request.POST if request.method == "POST" else request.GET if "days" in request.GET else None
    form = RuleForm(data, instance=ExpiryRule(owner=owner, made_by=request.user.get_username()))
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, _("The rule is on: the worker sets aside what it finds within a minute."))
        return redirect(request.path)
    found = expiry.rehearse(form.instance) if form.is_bound and form.is_valid() else None
    context = {
        "owner": owner,
        "form": form,
        "rules": rules[:MOST_RULES],
        "of_all": ExpiryRule.objects.filter(owner=None, is_on=True)[:MOST_RULES] if owner else (),
        "page": page_of(request, expiry.batches(ChatUser.objects.filter(pk=owner.pk) if owner else None), ("-id",)),
        "may_change": operator_of(request).may(Role.CURATOR),
        "may_rule_all": owner and operator_of(request).may(Role.ADMIN),
        "found": found,
        "kinds": found.kinds.most_common() if found else (),
        "shields": [(SHIELDS[name], count) for name, count in found.shields.items()] if found else (),
        "first": _named(form.instance.noun, ((row.owner, row.number, row) for row in found.first)) if found else (),
    }
    return render(request, "pages/expiry/expiry.html", context, status=422 if form.errors else 200)


@never_cache
@open_to(Role.VIEWER, post=Role.CURATOR, whole=True)
def expiring(request: HttpRequest, owner: ChatUser, expirybatch: int) -> HttpResponse:
    """The rows of a batch; posted, those named (``number``) or all of them are brought back and kept."""
    batches = expiry.batches(ChatUser.objects.filter(pk=owner.pk)).select_related("receipt")
    batch = get_object_or_404(batches, pk=expirybatch)
    if request.method == "POST":
        try:
            kept = expiry.keep(batch, request.POST.getlist("number") or None, actor=request.user.get_username())
        except CurationError as error:
            messages.error(request, str(error))
        else:
            sentence = ngettext("%(n)d row is back, and the rule leaves it.", "%(n)d rows are back.", kept)
            messages.success(request, sentence % {"n": kept})
        return redirect(request.get_full_path())
    page = page_of(request, batch.rows.all(), ("id",))
    context = {
        "owner": owner,
        "batch": batch,
        "page": page,
        "rows": _named(batch.rule.noun, ((owner.pk, row.number, row) for row in page)),
        "may_change": operator_of(request).may(Role.CURATOR) and batch.state == ExpiryBatch.State.ASIDE,
        "may_erase": operator_of(request).may(Role.ADMIN),
    }
    return render(request, "pages/expiry/expiring.html", context)


def _named(noun: str, rows: Iterable[tuple[int, str, Any]]) -> list[tuple[Any, str, str]]:
    """Each row with its words and its address; both are empty for one that is gone. One query."""
    listed = list(rows)
    model, words, address = _SHOWN[noun]
    found = dict(model._default_manager.filter(pk__in=[number for _o, number, _row in listed]).values_list("pk", words))
    said = {str(number): text for number, text in found.items()}
    return [
        (row, said.get(number, ""), address.format(owner=owner, number=number) if number in said else "")
        for owner, number, row in listed
    ]
