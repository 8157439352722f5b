"""Sets of golden questions, made and edited in the browser: questions with the messages that answer them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from memoryapp.insight.evaluation import judgements
from memoryapp.insight.evaluation.judgements import GoldenError
from memoryapp.insight.evaluation.passes import labelled
from memoryapp.models import GoldenQuestion, Message, Role
from memoryapp.platform.audit import entries
from rerankui.frame.access import open_to, operator_of, visible_owners
from rerankui.frame.pages import page_of

PAGE_SIZE = 50
MOST_OWNERS = 200
# A snippet of each message of the evidence is shown.
MOST_SHOWN = 30


@open_to(Role.VIEWER, post=Role.VIEWER, whole=True)
def golden_sets(request: HttpRequest) -> HttpResponse:
    """All sets, and the form for a new question."""
    return _listed(request, "")


@open_to(Role.VIEWER, post=Role.VIEWER, whole=True)
def golden_set(request: HttpRequest, collection: str) -> HttpResponse:
    """The questions of one set; as JSON Lines for the command ``evaluate`` if the address asks for it."""
    rows = _visible(request).filter(collection=collection)
    if request.method != "POST" and not rows.exists():
        raise Http404
    if request.GET.get("format") == "jsonl":
        answer = HttpResponse(_lines(rows), content_type="application/x-ndjson; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="golden.jsonl"'
        return answer
    return _listed(request, collection)


def _listed(request: HttpRequest, name: str) -> HttpResponse:
    may_change = operator_of(request).may(Role.DEBUGGER)
    error = ""
    if request.method == "POST":
        try:
            made = _added(request) if may_change else None
        except GoldenError as refused:
            error = str(refused)
        else:
            return redirect("golden_set", made.collection) if made else HttpResponse(status=403)
    rows = _visible(request).filter(collection=name) if name else GoldenQuestion.objects.none()
    page = page_of(request, rows.select_related("owner"), ("id", "id"), PAGE_SIZE)
    context: dict[str, Any] = {
        "name": name,
        "sets": judgements.collections(visible_owners(request)),
        "page": page,
        "listed": _with_snippets(page.rows),
        "owners": list(visible_owners(request).order_by("name")[:MOST_OWNERS]),
        "may_change": may_change,
        "error": error,
        "typed": request.POST,
    }
    return render(request, "pages/evaluations/golden_set.html", context, status=422 if error else 200)


def _added(request: HttpRequest) -> GoldenQuestion:
    """The question that was typed. Raises GoldenError."""
    sent = request.POST
    owner = get_object_or_404(visible_owners(request), pk=_number(sent.get("owner", "")))
    evidence = judgements.messages_named(owner, sent.get("evidence", ""))
    by = operator_of(request).user.get_username()
    return judgements.save(
        owner, sent.get("collection", ""), sent.get("question", ""), evidence, by, sent.get("category", "")
    )


def _number(given: str) -> int:
    return int(given) if given.isdecimal() and len(given) < 10 else 0


@open_to(Role.DEBUGGER, post=Role.DEBUGGER, whole=True)
def golden_question(request: HttpRequest, pk: int) -> HttpResponse:
    """One question, to be reworded, to lose or get evidence, or to be deleted."""
    row = get_object_or_404(_visible(request).select_related("owner"), pk=pk)
    entries.saw(row.owner_id)
    error = ""
    if request.method == "POST":
        if request.POST.get("delete"):
            row.delete()
            return redirect("golden_sets")
        try:
            _reworded(request, row)
        except GoldenError as refused:
            error = str(refused)
        else:
            return redirect("golden_set", row.collection)
    context = {
        "row": row,
        "memory": row.owner,
        "evidence": list(Message.objects.of(row.owner_id).filter(pk__in=row.evidence).in_order()),
        "error": error,
        "typed": request.POST,
    }
    return render(request, "pages/evaluations/golden_question.html", context, status=422 if error else 200)


def _reworded(request: HttpRequest, row: GoldenQuestion) -> None:
    kept = [number for number in row.evidence if str(number) in request.POST.getlist("keep")]
    more = judgements.messages_named(row.owner, request.POST.get("evidence", ""))
    by = operator_of(request).user.get_username()
    question, category = request.POST.get("question", ""), request.POST.get("category", "")
    judgements.change(row, question, [*kept, *more], by, category)


def _visible(request: HttpRequest) -> Any:
    return GoldenQuestion.objects.filter(owner__in=visible_owners(request))


def _with_snippets(rows: Sequence[GoldenQuestion]) -> list[tuple[GoldenQuestion, list[Message]]]:
    """Each question with the first messages of its evidence, in one statement."""
    wanted = {number for row in rows for number in row.evidence[:MOST_SHOWN]}
    found = Message.objects.filter(pk__in=wanted, owner__in={row.owner_id for row in rows}).in_bulk()
    return [(row, [found[number] for number in row.evidence[:MOST_SHOWN] if number in found]) for row in rows]


def _lines(rows: Any) -> Iterator[str]:
    numbers = list(rows.order_by("pk").values_list("pk", flat=True))
    for each in labelled(numbers):
        answer = {"evidence": list(each.evidence)} if each.evidence else {"unanswerable": True}
        fields = {"user": each.user, "qid": each.qid, "question": each.question}
        category = {"category": each.category} if each.category else {}
        yield json.dumps({**fields, **category, **answer}, ensure_ascii=False) + "\n"
