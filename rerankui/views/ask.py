"""Ask: one question, answered by one strategy or by several side by side, with the messages behind each answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext

from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.sight import OutOfSight, as_project, looking, sight
from memoryapp.engine.strategies import ANSWERING, DEFAULT, PLAIN, PLANNING, REACT
from memoryapp.insight.evaluation import judgements
from memoryapp.memory import past
from memoryapp.memory.content import projects_of
from memoryapp.memory.sessions import session_with
from memoryapp.models import ChatUser, Message, Role, Run, Topic
from memoryapp.models.audit import Deed
from memoryapp.platform.caps import CapReached
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.recall_document import answer_of
from memoryapp.runs.runner import runner
from rerankui.frame.access import Request, open_to, operator_of, run_or_404
from rerankui.frame.forms import AskForm, RecallForm
from rerankui.frame.pages import PageContext, show
from rerankui.runs import fragments
from rerankui.runs.page.answer_view import DOES, CitedSource, answer_context, has_writer, sources
from rerankui.runs.page.result import segments
from rerankui.web.moment import moment_of

# The question box: one question, and two buttons that ask for an answer or for the memories.


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    name: str
    does: Any
    is_chosen: bool
    is_off: bool


@dataclass(frozen=True, slots=True)
class QuestionBox(PageContext):
    """Both forms, of which one may be the one that was sent, and what the reader may do with them. ``topics`` counts
    those of the moment; ``may_write`` tells that answers come in a model's own words."""

    memory: ChatUser
    question: str
    form: AskForm
    recall_form: RecallForm
    query_errors: Sequence[str]
    other_errors: Sequence[str]
    choices: Sequence[StrategyChoice]
    choosing: Sequence[StrategyChoice]
    may_ask: bool
    not_allowed: str | Promise
    agent_is_off: bool
    may_write: bool
    topics: int
    is_past: bool
    is_begun: bool
    may_archive: bool
    projects: Sequence[str]
    project: str
    sees_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPage(PageContext):
    """The context of a page with the question box, whose names it has beside its own. ``answers`` are those to one
    question, as HTML; ``memories_first`` puts the button for memories first."""

    box: QuestionBox
    answers: Sequence[tuple[Run, str]] = ()
    memories_first: bool = False

    def names(self, **more: Any) -> dict[str, Any]:
        return {**self.box.names(), **PageContext.names(self, **more)}


def usual_strategy() -> str:
    return REACT.name if settings.ENABLE_AGENT else PLAIN.name


def question_box(
    request: HttpRequest, memory: ChatUser, *, ask: AskForm | None = None, recall: RecallForm | None = None
) -> QuestionBox:
    query, moment = (ask or recall or AskForm())["query"].value() or "", moment_of(request)
    ask_form = ask or AskForm(initial={"query": query, "strategies": [usual_strategy()]})
    recall_form = recall or RecallForm(initial={"query": query})
    return QuestionBox(
        memory=memory,
        question=query,
        form=ask_form,
        recall_form=recall_form,
        query_errors=[*ask_form["query"].errors, *recall_form["query"].errors],
        other_errors=[
            *ask_form.non_field_errors(),
            *ask_form["strategies"].errors,
            *recall_form.non_field_errors(),
            *recall_form["strategy"].errors,
        ],
        choices=_answering(ask_form),
        choosing=_choosing(recall_form),
        may_ask=operator_of(request).may(Role.DEBUGGER),
        not_allowed=RecallForm.NOT_ALLOWED,
        agent_is_off=not settings.ENABLE_AGENT,
        may_write=has_writer(),
        topics=(past.topics_at(moment) if moment else Topic.objects.live()).filter(owner=memory).count(),
        is_past=moment is not None,
        is_begun=Message.objects.of(memory).active().exists(),
        may_archive=operator_of(request).may(Role.CURATOR),
        projects=(projects := projects_of(memory)),
        sees_all=sight().projects is None,
        project=request.POST.get("project") or request.GET.get("project") or sight().into or _first_own(projects),
    )


def _first_own(projects: Sequence[str]) -> str:
    """Who sees only some projects asks in one of them."""
    return projects[0] if sight().projects is not None and projects else ""


def _asking(request: HttpRequest) -> AbstractContextManager[None]:
    """The sight of the project in which the form asks. Raises ParameterError."""
    try:
        return looking(sight().within(as_project(request.POST.get("project", ""))))
    except (OutOfSight, ValueError):
        raise ParameterError(gettext("You see only some projects of this memory: choose one of them.")) from None


def _answering(form: AskForm) -> list[StrategyChoice]:
    chosen = form["strategies"].value() or []
    return [
        StrategyChoice(name, DOES.get(name, ""), name in chosen, name in PLANNING and not form.has_react)
        for name in form.STRATEGIES
    ]


def _choosing(form: RecallForm) -> list[StrategyChoice]:
    """Those that choose memories first, the others, which also answer, last."""
    chosen = form["strategy"].value() or DEFAULT.name
    names = sorted(form.strategies, key=lambda name: name in ANSWERING)
    return [StrategyChoice(name, DOES.get(name, ""), name == chosen, is_off=False) for name in names]


# How many earlier questions are listed, and among how many runs they are looked for.
RECENT, LOOKED_AT = 6, 60
# Runs of one question by one person within this time belong side by side.
SIDE_BY_SIDE = timedelta(seconds=5)
# Messages before and after a cited one.
AROUND = 2
VERDICTS = {"good": True, "bad": False, "none": None}


@dataclass(slots=True)
class _QuestionRuns:
    """A question that was asked, with its runs side by side."""

    first: Run
    runs: list[Run] = field(default_factory=list)

    @property
    def address(self) -> str:
        ids = [("run", str(run.pk)) for run in reversed(self.runs)]
        ids += [("project", self.first.project)] if self.first.project else []
        return f"{reverse('ask', args=[self.first.owner_id])}?{urlencode(ids)}"

    def includes(self, run: Run) -> bool:
        """Whether an earlier run was asked with these: the same question by the same person, of another strategy."""
        is_same = run.query == self.first.query and run.operator_id == self.first.operator_id
        is_soon = self.first.created_at - run.created_at < SIDE_BY_SIDE
        return is_same and is_soon and run.strategy not in {other.strategy for other in self.runs}

    @classmethod
    def beside(cls, run: Run) -> _QuestionRuns:
        """A run with those that were asked side by side with it."""
        near = (run.created_at - SIDE_BY_SIDE, run.created_at + SIDE_BY_SIDE)
        rows = Run.objects.of(run.owner).by_hand().filter(query=run.query, created_at__range=near)
        by_strategy = {run.strategy: run}
        for each in rows.filter(operator=run.operator_id, token__isnull=True):
            by_strategy.setdefault(each.strategy, each)
        runs = sorted(by_strategy.values(), key=lambda each: each.created_at, reverse=True)
        return cls(runs[0], runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPage(BoxPage):
    """The box, and either the answers to one question or the last questions."""

    query: str
    is_live: bool
    recent: Sequence[_QuestionRuns]


@open_to(Role.VIEWER, post=Role.VIEWER, deed=Deed.ASK)
def ask(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    may_ask = operator_of(request).may(Role.DEBUGGER)
    runs = _runs(owner, request.GET.getlist("run"))
    form = AskForm(request.POST if request.method == "POST" else None, initial=_initial(runs, request.GET.get("q", "")))
    if request.method == "POST" and not may_ask:
        form.add_error(None, AskForm.NOT_ALLOWED)
    if request.method == "POST" and form.is_valid():
        try:
            return redirect(_start_runs(request, owner, form.cleaned_data["query"], form.cleaned_data["strategies"]))
        except (ParameterError, CapReached) as refused:
            form.add_error(None, str(refused))
    page = AskPage(
        box=question_box(request, owner, ask=form),
        query=runs[0].query if runs else "",
        answers=[(run, _answer_html(request, run)) for run in runs],
        is_live=any(not run.is_finished for run in runs),
        recent=[] if runs else _recent(owner),
    )
    status = 403 if form.is_bound and not may_ask else 422 if form.is_bound and form.errors else 200
    return render(request, "pages/ask/ask.html", page.names(), status=status)


def _initial(runs: Sequence[Run], query: str) -> dict[str, Any]:
    strategies = [run.strategy for run in runs] or [usual_strategy()]
    return {"query": runs[0].query if runs else query, "strategies": strategies}


def _start_runs(request: HttpRequest, memory: ChatUser, query: str, strategies: Iterable[str]) -> str:
    """Starts the runs of a question; returns the address of the page that shows them side by side. Raises
    ParameterError before any is started."""
    operator, moment = operator_of(request).user, moment_of(request)
    with _asking(request), transaction.atomic():
        runs = [lifecycle.start(memory, query, strategy=each, operator=operator, as_of=moment) for each in strategies]
    for run in runs:
        runner.launch(run.pk)
    return _QuestionRuns(runs[0], runs[::-1]).address


def _runs(memory: ChatUser, names: Sequence[str]) -> list[Run]:
    """The named runs of this memory, in the order of the address; those of another question are left out."""
    ids = [_uuid(name) for name in names[: len(AskForm.STRATEGIES)]]
    found = Run.objects.of(memory).select_related("owner").in_bulk([id for id in ids if id])
    runs = [found[id] for id in dict.fromkeys(ids) if id in found]
    return [run for run in runs if run.query == runs[0].query]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _recent(memory: ChatUser) -> list[_QuestionRuns]:
    """The last questions that were answered in words, newest first."""
    asked: list[_QuestionRuns] = []
    rows = Run.objects.of(memory).by_hand().select_related("operator")
    for run in rows.filter(token__isnull=True)[:LOOKED_AT]:
        if asked and asked[-1].includes(run):
            asked[-1].runs.append(run)
        else:
            asked.append(_QuestionRuns(run, [run]))
    return [each for each in asked if any(run.strategy in ANSWERING for run in each.runs)][:RECENT]


def _answer_html(request: HttpRequest, run: Run) -> str:
    progress = None if run.is_finished else fragments.progress_of(run.pk)
    context = answer_context(run, followers.stored(run.pk), request.user, progress=progress)
    return render_to_string("partials/ask/answer.html", context, request)


@open_to(Role.VIEWER)
def answer(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One answer as it is now; for a page whose socket is blocked."""
    return HttpResponse(_answer_html(request, run_or_404(request, pk)))


@open_to(Role.VIEWER)
def source(request: HttpRequest, pk: UUID, n: int) -> HttpResponse:
    """A preview of the message behind ``[n]`` of an answer, with its neighbours, the cited words marked."""
    run = run_or_404(request, pk)
    found = next((each for each in sources(run, _answer_of_run(run)) if each.citation.n == n), None)
    if found is None or found.message is None:
        raise Http404
    around = _around(found.message)
    context = {
        "run": run,
        "source": found,
        "topic": parse_topic_id(found.citation.topic),
        "message": found.message.pk,
        "opinion": judgements.own_grade(run, operator_of(request).user, found.message.pk),
        "marked_messages": [(message, _segments(message, found)) for message in around],
    }
    return show(request, "pages/ask/source.html", "partials/ask/source.html", context)


def _answer_of_run(run: Run) -> Any:
    return answer_of([item.event for item in followers.stored(run.pk)])


def _around(message: Message) -> list[Message]:
    """The message with those beside it in its topic or active session, oldest first."""
    if message.topic_id is None:
        talk = session_with(message) or [message]
    else:
        of_topic = Message.objects.of(message.owner_id).filter(topic=message.topic_id)
        numbers = list(of_topic.in_order().values_list("pk", flat=True))
        place = numbers.index(message.pk)
        talk = list(Message.objects.filter(pk__in=numbers[max(place - AROUND, 0) : place + AROUND + 1]).in_order())
    place = next(at for at, each in enumerate(talk) if each.pk == message.pk)
    return talk[max(place - AROUND, 0) : place + AROUND + 1]


def _segments(message: Message, found: CitedSource) -> Any:
    """Returns the message's text with the cited words marked, if it is the cited one and contains them literally."""
    quote = found.citation.quote
    start = message.text.find(quote) if found.message and message.pk == found.message.pk else -1
    pieces = [Piece(quote, "exact", message.pk, start, start + len(quote))] if quote and start >= 0 else []
    return segments(message.text, pieces)


@open_to(Role.VIEWER, post=Role.VIEWER)
def judge(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Stores the operator's judgement of an answer, or deletes it; operators who may only look are shown it."""
    run = run_or_404(request, pk)
    if request.method != "POST":
        return redirect(_QuestionRuns.beside(run).address)
    verdict = request.POST.get("verdict", "")
    if verdict not in VERDICTS or _answer_of_run(run) is None:
        raise Http404
    judgements.judge(run, operator_of(request).user, VERDICTS[verdict])
    if cast(Request, request).htmx:
        return render(request, "partials/ask/verdict.html", {"run": run, "verdict": VERDICTS[verdict]})
    return redirect(_QuestionRuns.beside(run).address)


# The question box when it asks for memories: a post starts a run, which one watches as it selects topics.

RECENT_RUNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPage(BoxPage):
    recent: QuerySet[Run]


@open_to(Role.VIEWER, post=Role.VIEWER, deed=Deed.ASK)
def recall(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    may_ask = operator_of(request).may(Role.DEBUGGER)
    # The filter lab leads here with its cuts.
    linked = {**request.GET.dict(), "query": request.GET.get("q", "")}
    form = RecallForm(request.POST if request.method == "POST" else None, initial=linked)
    if request.method == "POST" and not may_ask:
        form.add_error(None, RecallForm.NOT_ALLOWED)
    if request.method == "POST" and form.is_valid():
        try:
            with _asking(request):
                run = lifecycle.start(
                    owner,
                    form.cleaned_data["query"],
                    strategy=form.cleaned_data["strategy"],
                    parameters=form.parameters(),
                    operator=operator_of(request).user,
                    as_of=moment_of(request),
                )
        except (ParameterError, CapReached) as refused:
            form.add_error(None, str(refused))
        else:
            runner.launch(run.pk)
            return redirect("run", pk=run.pk)
    page = RecallPage(
        box=question_box(request, owner, recall=form),
        memories_first=True,
        recent=Run.objects.of(owner).by_hand().with_answers().select_related("owner", "operator")[:RECENT_RUNS],
    )
    status = 422 if form.is_bound and form.errors else 200
    if form.is_bound and not may_ask:
        status = 403
    return render(request, "pages/ask/recall.html", page.names(), status=status)
