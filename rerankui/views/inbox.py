"""The inbox: everything in one memory that waits for a person, each kind with a page of its own. Several suggestions
and findings can be decided at once, and one undo brings all of them back."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memoryapp.curation import CurationError, extraction, suggestions
from memoryapp.curation.suggestions.inbox import Waiting, forgetting, waiting_in
from memoryapp.curation.suggestions.inbox import alarms as alarms_of
from memoryapp.curation.suggestions.inbox import failures as failures_of
from memoryapp.insight.misses import misses
from memoryapp.memory import guard
from memoryapp.models import ChatUser, Fact, Finding, KnowledgeEdit, Person, Role, Suggestion
from rerankui.curation.queue_page import lines_of, other_holder, seconds_each
from rerankui.curation.views.review import doubt_in_words
from rerankui.evaluations.nights import worse_in
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of
from rerankui.frame.filters import Filter
from rerankui.frame.pages import Page, is_partial
from rerankui.lists.facets import Facet, of_month
from rerankui.lists.list_page import AskedList, ListPage

FEW = 20
MOST_FAILURES = 50
# They have no page of their own.
MOST_FORGETTING = 200


class FindingFilter(Filter):
    placeholder = gettext_lazy("Search findings")
    SORTS = {"oldest": ("id", "id"), "newest": ("-id", "-id")}
    WORDS = ("values__content", "values__display_name", "values__aliases", "values__bio")


class InboxList(ListPage[Finding, FindingFilter]):
    """The findings that wait, and on the page around them the first of each other kind."""

    title = gettext_lazy("Inbox")
    name = "inbox"
    form = FindingFilter
    columns = {"id": "pk", "kind": "noun", "values": "values", "topic": "topic_id", "found_at": "found_at"}
    page, partial = "pages/inbox/inbox.html", "partials/inbox/findings.html"

    def rows(self, asked: AskedList[FindingFilter]) -> QuerySet[Finding]:
        return extraction.waiting(asked.owner).select_related("topic")

    def facets(self, asked: AskedList[FindingFilter]) -> tuple[Facet, ...]:
        return (
            Facet("kind", gettext_lazy("Kind"), "noun", dict(KnowledgeEdit.Noun.choices)),
            Facet("relation", gettext_lazy("Relation"), KeyTextTransform("relation", "values")),
            of_month("found", gettext_lazy("Found"), "found_at"),
        )

    def more(self, asked: AskedList[FindingFilter], page: Page[Finding], found: Any) -> dict[str, Any]:
        request, owner = asked.request, asked.owner
        said = extraction.messages_of(page.rows)
        people = Person.objects.in_bulk([row.target for row in page if row.noun == "person" and row.target])
        doubts = [(row, doubt_in_words(row, said.get(row.pk, []), people.get(row.target))) for row in page]
        if is_partial(request):
            return {"findings": doubts}
        waiting = waiting_in(owner)
        return {
            "findings": doubts,
            "waiting": waiting,
            "minutes": _minutes(request, owner, waiting),
            "suggestions": lines_of(list(suggestions.opened(owner).defer("evidence")[:FEW]), request.user),
            "failures": failures_of(owner, FEW)[:FEW],
            "forgetting": list(forgetting(owner)[:MOST_FORGETTING]),
            "misses": misses.opened(owner, FEW),
            "held": guard.held(owner).prefetch_related("spots")[:FEW],
            "alarms": [(alarm, worse_in(alarm.night)) for alarm in alarms_of(owner)[:FEW]],
            "may_erase": operator_of(request).may(Role.ADMIN),
        }

    def sent(self, request: HttpRequest, owner: ChatUser) -> HttpResponse:
        """The ticked ones are decided, or a message that was to be forgotten is kept, or an alarm was seen."""
        for name, rows in (("keep", forgetting), ("seen", alarms_of)):
            if number := request.POST.get(name, ""):
                if number.isdecimal() and rows(owner).filter(pk=number[:18]).delete()[0] and name == "keep":
                    messages.success(request, _("The message is kept."))
                return redirect("inbox", owner_id=owner.pk)
        return _decide(request, owner)


INBOX = InboxList()


def _minutes(request: HttpRequest, owner: ChatUser, waiting: Waiting) -> int | None:
    """How long the suggestions and findings take at this person's pace; None until something was decided twice."""
    own = {"owner": owner, "decided_by": request.user.get_username()}
    of_suggestion = seconds_each(Suggestion.objects.filter(**own))
    of_finding = seconds_each(Finding.objects.filter(**own))
    known = [seconds for seconds in (of_suggestion, of_finding) if seconds is not None]
    if not known or not (waiting.suggestions or waiting.findings):
        return None
    # Where one kind was never decided, it takes as long as the other.
    seconds = waiting.suggestions * (of_suggestion or known[0]) + waiting.findings * (of_finding or known[-1])
    return max(1, round(seconds / 60))


def _decide(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Rejects the ticked suggestions and findings, or confirms the ticked findings, beside the facts that they
    contradict (``both``) or in place of them; what cannot be decided stays."""
    actor, decision, back = request.user.get_username(), request.POST.get("decision"), toasts.next_address(request)
    is_confirmed = decision in ("confirm", "both")
    findings = _findings(owner, request.POST).filter(state=Finding.State.WAITING)
    free = [row for row in _suggestions(owner, request.POST) if not other_holder(row, request.user)]
    confirm = partial(extraction.confirm, keep_both=decision == "both") if is_confirmed else extraction.reject
    decided = _each(findings, lambda row: confirm(row, actor=actor))
    declined = (
        [] if is_confirmed else _each(free, lambda row: suggestions.decide(row, Suggestion.State.NEVER, actor=actor))
    )
    total = len(decided) + len(declined)
    if not total:
        messages.warning(request, _("Nothing was decided: tick what you mean."))
        return redirect(back or request.get_full_path())
    sentence = (
        ngettext("%(n)d finding is confirmed", "%(n)d findings are confirmed", total)
        if is_confirmed
        else ngettext("%(n)d is rejected and not suggested again", "%(n)d are rejected and not suggested again", total)
    )
    undone = urlencode({"finding": decided, "suggestion": declined, "next": back}, doseq=True)
    toasts.add(request, sentence % {"n": total}, f"{reverse('inbox_undo', args=[owner.pk])}?{undone}", _("Undo"))
    return redirect(back or request.get_full_path())


@open_to(Role.VIEWER, post=Role.CURATOR)
def inbox_undo(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Takes back every decision that the address names, when posted; opening it leads to the inbox."""
    if request.method != "POST":
        return redirect("inbox", owner.pk)
    actor = request.user.get_username()
    back = _each(_findings(owner, request.GET), lambda row: extraction.take_back(row, actor=actor))
    back += _each(_suggestions(owner, request.GET), lambda row: suggestions.take_back(row, actor=actor))
    sentence = ngettext("%(n)d decision was taken back.", "%(n)d decisions were taken back.", len(back))
    messages.success(request, sentence % {"n": len(back)})
    return redirect(toasts.next_address(request) or reverse("inbox", args=[owner.pk]))


def _each(rows: Iterable[Finding] | Iterable[Suggestion], act: Callable[..., object]) -> list[int]:
    """Does it with each row; returns the numbers of those with which it could be done."""
    done = []
    for row in rows:
        try:
            act(row)
        except CurationError:
            continue
        done.append(row.pk)
    return done


def _findings(owner: ChatUser, sent: QueryDict) -> QuerySet[Finding]:
    rows = Finding.objects.filter(owner=owner, pk__in=_numbers(sent, "finding"))
    return rows.select_related("topic", "follows", "edit").order_by("pk")


def _suggestions(owner: ChatUser, sent: QueryDict) -> QuerySet[Suggestion]:
    rows = Suggestion.objects.filter(owner=owner, pk__in=_numbers(sent, "suggestion"))
    return rows.select_related("owner", "held_by", "edit").order_by("pk")


def _numbers(sent: QueryDict, name: str) -> list[int]:
    return [int(text) for text in sent.getlist(name)[:MOST_FAILURES] if text.isdecimal() and len(text) < 19]


@open_to(Role.VIEWER)
def failures(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    context = {
        "owner": owner,
        "failures": failures_of(owner, MOST_FAILURES),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/inbox/failures.html", context)


@open_to(Role.VIEWER)
def contradictions(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """Facts that contradict one in the memory, side by side with it; the inbox decides which are true."""
    wanted = Q(noun=KnowledgeEdit.Noun.FACT, target__in=Fact.objects.current().filter(owner=owner).values("pk"))
    rows = extraction.waiting(owner, wanted).select_related("topic")
    shown = list(rows[:FEW])
    targets = Fact.objects.select_related("topic").in_bulk([row.target for row in shown if row.target])
    known = list(Finding.objects.filter(owner=owner, noun=KnowledgeEdit.Noun.FACT, state="confirmed", row__in=targets))
    said = extraction.messages_of([*shown, *known])
    sources = {row.row: said.get(row.pk, ()) for row in known}
    context = {
        "owner": owner,
        "pairs": [(row, targets[row.target or 0], said.get(row.pk, ()), sources.get(row.target, ())) for row in shown],
        "total": rows.count(),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/inbox/contradictions.html", context)
