"""The audit log: who read, asked and changed what, whose it was, when, from where and by which door."""

from typing import Any

from django import forms
from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy, pgettext_lazy

from memoryapp.models import ApiToken, AuditEntry, ChatUser, Deed, Door, Role
from rerankui.frame.access import open_to
from rerankui.frame.filters import LONGEST_SEARCH, Filter, choice
from rerankui.frame.pages import Page
from rerankui.lists.facets import Facet, day_facet
from rerankui.lists.list_page import AskedList, ListPage


def _of_user(typed: str) -> Q:
    """Entries about the chat user of this name, or of this number, who may be erased."""
    numbers = list(ChatUser.objects.filter(name=typed).values_list("pk", flat=True))
    if typed.isdecimal() and len(typed) < len(str(2**63)):
        numbers.append(int(typed))
    return Q(owner_number__in=numbers)


class AuditFilter(Filter):
    placeholder = gettext_lazy("Search who, what, from where")
    SORTS = {"newest": ("-at", "-id"), "oldest": ("at", "id")}
    WORDS = ("who", "what", "address")
    user = forms.CharField(required=False, max_length=LONGEST_SEARCH)
    user.by = _of_user  # type: ignore[attr-defined]
    deed = choice(pgettext_lazy("audit", "Deed"), gettext_lazy("all deeds"), Deed.choices, by="deed")
    door = choice(pgettext_lazy("audit", "Door"), gettext_lazy("all doors"), Door.choices, by="door")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        whose = gettext_lazy("Whose: name or number")
        self.fields["user"].widget = forms.TextInput(
            attrs={"class": "field", "placeholder": whose, "aria-label": whose, "autocomplete": "off"}
        )


class AuditList(ListPage[AuditEntry, AuditFilter]):
    title = gettext_lazy("Audit log")
    name = "audit"
    form = AuditFilter
    columns = {
        name: name
        for name in ("place", "at", "who", "door", "deed", "owner_number", "what", "address", "former", "seal")
    }
    page, partial = "pages/audit/audit.html", "partials/audit/audit.html"
    latest = True
    is_counted = False

    def rows(self, asked: AskedList[AuditFilter]) -> QuerySet[AuditEntry]:
        return AuditEntry.objects.all()

    def facets(self, asked: AskedList[AuditFilter]) -> tuple[Facet, ...]:
        return Facet("by", pgettext_lazy("audit", "Who"), "who"), day_facet("at")

    def more(self, asked: AskedList[AuditFilter], page: Page[AuditEntry], found: Any) -> dict[str, Any]:
        """Names of the tokens and chat users of the page that there still are."""
        owners = ChatUser.objects.in_bulk({row.owner_number for row in page.rows if row.owner_number})
        beginnings = {row.who.removesuffix("…") for row in page.rows}
        tokens = dict(ApiToken.objects.filter(prefix__in=beginnings).values_list("prefix", "name"))
        for row in page.rows:
            row.owner = owners.get(row.owner_number or 0)  # type: ignore[attr-defined]
            row.token = tokens.get(row.who.removesuffix("…"))  # type: ignore[attr-defined]
        return {"is_on": settings.AUDIT_LOG, "days": settings.AUDIT_DAYS}


AUDIT = AuditList()


@open_to(Role.ADMIN)
def audit(request: HttpRequest) -> HttpResponse:
    return AUDIT.answer(AskedList(None, AuditFilter(request.GET), request=request))
