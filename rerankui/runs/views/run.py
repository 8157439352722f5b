"""One run, live or in replay: its page, the frames for a viewer without a socket, its JSON, and the button that stops
it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from csp.decorators import csp_exempt
from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template import TemplateSyntaxError
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from memoryapp.curation import former
from memoryapp.doors.api.access import handed_over, values_of
from memoryapp.doors.api.shapes.runs import RecallAnswer
from memoryapp.engine.chat.media import MediaError
from memoryapp.engine.events import MediaItem
from memoryapp.engine.memory import document_id, parse_item_id
from memoryapp.engine.outline import Outline
from memoryapp.insight import capsules, delivery
from memoryapp.insight.browsing.topics import topic_runs
from memoryapp.insight.capsules import CapsuleError
from memoryapp.insight.evaluation import judgements
from memoryapp.insight.evaluation.judgements import GoldenError, GradeError, Opinion
from memoryapp.insight.explain import WhyNotError, why_not
from memoryapp.insight.explain.wanted import LONGEST
from memoryapp.memory import content
from memoryapp.models import Message, PassageMessage, Person, Role, Run, Topic
from memoryapp.models.audit import Deed
from memoryapp.runs import endings, followers, recall_document
from memoryapp.runs.recall_document import EndedRun
from rerankui.frame.access import Request, open_to, operator_of, own_run_or_404, run_or_404, visible_owners
from rerankui.frame.pages import is_partial, show
from rerankui.runs import fragments
from rerankui.runs.capsule import page
from rerankui.runs.page.result import delivered_view, is_by_summary, name_of, segments
from rerankui.runs.page.waterfall import AnyCandidate
from rerankui.runs.page.why_not import WhyNotView, view_of
from rerankui.text import talk as pictures


@open_to(Role.VIEWER)
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    found = run_or_404(request, pk)
    page = fragments.run_page(
        found,
        followers.stored(pk),
        step=fragments.step_of(request.GET.get("step", "")),
        progress=None if found.is_finished else fragments.progress_of(pk),
    )
    context = page.names(
        section=fragments.run_section(page),
        memory=found.owner,
        language=get_language(),
        may_stop=page.is_live and operator_of(request).may(Role.DEBUGGER),
        may_ask=not found.is_foreign and operator_of(request).may(Role.DEBUGGER),
    )
    return render(request, "pages/runs/run.html", context)


@open_to(Role.VIEWER)
def run_frame(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What is new to a viewer who has the events up to ``last``; for a page whose socket is blocked."""
    found = run_or_404(request, pk)
    last = request.GET.get("last", "")
    seen = fragments.Seen(int(last) if last.isdecimal() and len(last) < 9 else -1)
    frame = fragments.frame(found.pk, seen=seen, language=get_language() or settings.LANGUAGE_CODE)
    return HttpResponse(frame.html, status=200 if frame.html else 204)


@open_to(Role.VIEWER, deed=Deed.EXPORT)
def run_json(request: HttpRequest, pk: UUID) -> JsonResponse:
    """The run as programs get it, with its query and parameters."""
    found = run_or_404(request, pk)
    try:
        document = values_of(handed_over(RecallAnswer, EndedRun(found), found))
    except LookupError as error:
        raise Http404(str(error)) from error
    asked = {"user": found.owner.name, "query": found.query, "strategy": found.strategy, "parameters": found.parameters}
    return JsonResponse({**asked, **document}, json_dumps_params={"ensure_ascii": False, "indent": 2})


@open_to(Role.DEBUGGER, post=Role.DEBUGGER)
def run_stop(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Stops a run; a person who opens the address is asked for confirmation first."""
    found = run_or_404(request, pk)
    if request.method != "POST":
        return render(request, "pages/runs/run_stop.html", {"run": found})
    endings.stop(found.pk, operator_of(request).user.get_username())
    return HttpResponse(status=204) if cast(Request, request).htmx else redirect("run", pk=found.pk)


# Parts of a run, opened from its page: a candidate, candidates that were not shown, a part of the context, an
# attachment.


@dataclass(frozen=True, slots=True)
class _Seen:
    """The ``run`` as a whole, and what a reader has seen of it ``until`` the step of the address: the state of each
    candidate, and the outline. ``at`` ends the addresses of its parts."""

    run: Outline
    until: Outline
    states: Mapping[str, str]
    at: str


def _seen(request: HttpRequest, pk: UUID) -> _Seen:
    stored = followers.stored(pk)
    step = fragments.step_of(request.GET.get("step", ""))
    until = [item for item in stored if step is None or item.seq <= step]
    return _Seen(
        Outline.of([view.event for view in fragments.event_views(stored)]),
        Outline.of([item.event for item in until]),
        fragments.states(fragments.event_views(until)),
        "" if step is None else f"?step={step}",
    )


@open_to(Role.VIEWER)
def run_below(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Candidates of one kind that were ranked but not shown to the model; of topics, if no kind is given."""
    found = run_or_404(request, pk)
    seen = _seen(request, pk)
    search = seen.run.found
    if search is None:
        raise Http404
    kinds: dict[str, Sequence[AnyCandidate]] = {"people": search.people, "artifacts": search.artifacts}
    ranked = kinds.get(request.GET.get("kind", ""), search.candidates)
    below = [candidate for candidate in ranked if not candidate.shown]
    context = {"run": found, "below": below, "states": seen.states, "at": seen.at}
    context["by_similarity"] = fragments.by_similarity(found)
    return show(request, "pages/runs/run_below.html", "partials/runs/run_below.html", context)


@open_to(Role.VIEWER)
def run_topic(request: HttpRequest, pk: UUID, topic: int) -> HttpResponse:
    """A candidate of this run with its messages, the excerpt highlighted where it was found."""
    run = run_or_404(request, pk)
    shown = Topic.objects.of(run.owner_id).filter(pk=topic).first()
    if shown is None:
        raise Http404
    messages = Message.objects.of(run.owner_id).filter(topicmessage__topic=shown)
    row = shown if shown.is_live else None
    return _found_talk(request, run, f"Topic:{topic}", messages, row=row, seen_in=topic_runs(shown, former(shown)))


@open_to(Role.VIEWER)
def run_session(request: HttpRequest, pk: UUID, session: int) -> HttpResponse:
    """An active session as this run found it; if it was archived since, with the topics that it is in."""
    run = run_or_404(request, pk)
    name = f"Session:{session}"
    search = Outline.of([item.event for item in followers.stored(pk)]).found
    messages = Message.objects.of(run.owner_id).filter(pk__in=list(search.sessions.get(name, ())) if search else [])
    topics = messages.filter(topic__isnull=False).order_by("topic").values_list("topic", flat=True).distinct()
    return _found_talk(request, run, name, messages, archived_as=list(topics))


def _found_talk(
    request: HttpRequest,
    found: Run,
    name: str,
    talk: QuerySet[Message],
    *,
    archived_as: Sequence[int] = (),
    row: Topic | None = None,
    seen_in: Any = None,
) -> HttpResponse:
    seen = _seen(request, found.pk)
    candidate = seen.run.topic(name)
    if candidate is None:
        raise Http404
    selected = seen.until.selected(name)
    messages = list(talk.order_by("sent_at", "pk"))
    pieces = selected.excerpt if selected else ()
    passage = PassageMessage.objects.filter(owner=found.owner_id, passage=candidate.passage_id)
    found_by = set(passage.values_list("message", flat=True))
    context = {
        **_actions(request, found, row),
        "archived_as": archived_as,
        "candidate": candidate,
        "selected": selected,
        "state": seen.states.get(name, ""),
        "found_by": [message.pk for message in messages if message.pk in found_by],
        "seen": seen_in,
        "by_summary": is_by_summary(candidate.parts),
        "marked_messages": [
            (message, segments(message.text, [piece for piece in pieces if piece.message == message.pk]))
            for message in messages
        ],
    }
    return show(request, "pages/runs/run_piece.html", "partials/runs/run_topic.html", context)


def _actions(request: HttpRequest, run: Run, row: Topic | Person | None) -> dict[str, Any]:
    """What a candidate's buttons need: the row that can be changed, None where it is gone."""
    by, is_own = operator_of(request), not run.is_foreign
    return {
        "run": run,
        "row": row,
        "may_curate": is_own and by.may(Role.CURATOR),
        "may_fork": is_own and run.is_finished,
    }


@open_to(Role.VIEWER)
def run_document(request: HttpRequest, pk: UUID, document: str) -> HttpResponse:
    """A document of another program's memory, with its text as far as the program sent it."""
    run = run_or_404(request, pk)
    seen, name = _seen(request, pk), document_id(document)
    candidate = seen.run.topic(name)
    if candidate is None:
        raise Http404
    context = {"run": run, "candidate": candidate, "selected": seen.until.selected(name)}
    context["state"] = seen.states.get(name, "")
    return show(request, "pages/runs/run_piece.html", "partials/runs/foreign/document.html", context)


@open_to(Role.VIEWER)
def run_item(request: HttpRequest, pk: UUID, item: str) -> HttpResponse:
    run = run_or_404(request, pk)
    seen = _seen(request, pk)
    shown = seen.run.item(item)
    if shown is None:
        raise Http404
    kind, _colon, number = shown.id.lower().partition(":")
    names = {"person": "people", "artifact": "artifacts"}
    parsed = parse_item_id(item)
    is_person = parsed is not None and parsed[0] == "Person"
    row = Person.objects.filter(owner=run.owner_id, pk=parsed[1]).first() if parsed and is_person else None
    context = {
        **_actions(request, run, row),
        "item": shown,
        "selected": seen.until.selected(item),
        "state": seen.states.get(item, ""),
        "found_at": f"{reverse(names[kind], args=[run.owner_id])}?{urlencode({'q': shown.name})}#{kind}-{number}",
    }
    return show(request, "pages/runs/run_piece.html", "partials/runs/run_item.html", context)


@open_to(Role.VIEWER)
def run_media(request: HttpRequest, pk: UUID, sha256: str) -> HttpResponse:
    """What came with the query of this run, as bytes."""
    run = run_or_404(request, pk)
    item = next((MediaItem(**item) for item in run.media if item["sha256"] == sha256), None)
    if item is None:
        raise Http404
    try:
        return pictures.answer(content.read(run.owner_id, item))
    except MediaError as error:
        raise Http404(str(error)) from error


@open_to(Role.VIEWER)
def run_part(request: HttpRequest, pk: UUID, part: str) -> HttpResponse:
    run = run_or_404(request, pk)
    try:
        text = recall_document.part_text(run, part)
    except LookupError as error:
        raise Http404(str(error)) from error
    context = {"run": run, "name": name_of(part, recall_document.handed_over(run)), "text": text}
    return show(request, "pages/runs/run_part.html", "partials/runs/run_part.html", context)


# A run as a file: downloaded, and a file of another installation opened.

# What the partials raise for events that no run has: their values were read, but do not fit together.
UNSHOWABLE = (ArithmeticError, AttributeError, LookupError, NoReverseMatch, TemplateSyntaxError, TypeError, ValueError)


@open_to(Role.VIEWER, deed=Deed.EXPORT)
def run_capsule(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The run as one HTML file, or as JSON; with ``mask`` without personal data."""
    run = run_or_404(request, pk)
    try:
        capsule = capsules.capsule_of(run)
    except CapsuleError as error:
        raise Http404(str(error)) from error
    if request.GET.get("mask"):
        capsule = capsules.masked(capsule, run.owner)
    if request.GET.get("format") == "json":
        response: HttpResponse = JsonResponse(capsules.document(capsule), json_dumps_params={"ensure_ascii": False})
        name = f"run-{run.short_id}.json"
    else:
        response, name = HttpResponse(page(capsule)), f"run-{run.short_id}.html"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@open_to(Role.VIEWER, post=Role.VIEWER)
def run_open(request: HttpRequest) -> HttpResponseBase:
    """Shows the run of a JSON file; nothing of it is stored."""
    if request.method != "POST":
        return _asked(request)
    sent = request.FILES.get("file")
    if sent is None:
        return _asked(request, _("Choose the file of a run."))
    if (sent.size or 0) > capsules.LARGEST_CAPSULE_BYTES:
        return _asked(request, _("This file is larger than 20 MB, which no run is."))
    try:
        response = HttpResponse(page(capsules.opened(sent.read()), is_foreign=True))
        # The page has a policy of its own, which is stricter than that of the others and forbids theirs.
        return csp_exempt()(lambda _request: response)(HttpRequest())
    except CapsuleError as error:
        return _asked(request, str(error))
    except UNSHOWABLE:
        return _asked(request, _("The events of this file do not fit together, so that they cannot be shown."))


def _asked(request: HttpRequest, sentence: str = "") -> HttpResponse:
    return render(request, "pages/runs/run_open.html", {"sentence": sentence}, status=422 if sentence else 200)


# What the assistant said with the context of a run, pasted by a person: which of the chosen memories it used.


@open_to(Role.DEBUGGER, post=Role.DEBUGGER)
def run_delivered(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Compares the answer; for htmx only that part of the run's page, which is all that changes."""
    run = run_or_404(request, pk)
    error = ""
    if request.method == "POST":
        try:
            delivery.deliver(run, request.POST.get("text", ""))
        except delivery.DeliveryError as refused:
            error = str(refused)
    if not cast(Request, request).htmx:
        return redirect("run", pk=run.pk)
    finished = Outline.of([item.event for item in followers.stored(run.pk)]).finished
    context = {"run": run, "delivered": delivered_view(run, finished, error)}
    return render(request, "partials/runs/delivered/uses.html", context, status=422 if error else 200)


# Why a run did not choose something: the answer to what was typed or clicked, on its page or as one of its own.

_NAMES = ("topic", "message", "text")


@open_to(Role.VIEWER)
def run_why_not(request: HttpRequest, pk: UUID) -> HttpResponse:
    run = run_or_404(request, pk)
    given = {name: request.GET.get(name, "").replace("\0", "").strip()[: LONGEST + 1] for name in _NAMES}
    view = _view(run, {name: value for name, value in given.items() if value})
    context = {"run": run, "why": view}
    return show(request, "pages/runs/run_why_not.html", "partials/runs/why_not/answer.html", context)


def _view(run: Run, given: dict[str, str]) -> WhyNotView:
    asked = next(iter(given.values()), "")
    if not given:
        return WhyNotView()
    try:
        return view_of(run, asked, why_not(run, **given))
    except WhyNotError as error:
        return WhyNotView(asked, str(error))


# Grades of the candidates of a run: the strip at the foot of its page, and a page to judge on, blind if wished.


VALUES = {"0": 0, "1": 1, "2": 2, "": None}
DEFAULT_SET = "judged"


@open_to(Role.VIEWER, post=Role.VIEWER)
def run_grades(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The candidates to judge; for htmx the strip. A grade is sent here as well, for a candidate or a message."""
    run = _finished(request, pk)
    error = ""
    if request.method == "POST":
        try:
            _grade(request, run)
        except GradeError as refused:
            error = str(refused)
        if not is_partial(request) and not error:
            blind = "?blind=1" if request.POST.get("blind") else ""
            return redirect(f"{reverse('run_grades', args=[pk])}{blind}#{request.POST.get('topic', '')}")
    message = request.POST.get("message", "")
    if message and is_partial(request) and not error:
        opinion = judgements.own_grade(run, operator_of(request).user, int(message))
        return render(
            request, "partials/runs/grades/source.html", {"run": run, "message": int(message), "opinion": opinion}
        )
    return _shown(request, run, error)


@open_to(Role.DEBUGGER, post=Role.DEBUGGER)
def run_golden(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Saves the query with its relevant messages as a golden question; who opens the address judges first."""
    run = _finished(request, pk)
    if request.method != "POST":
        return redirect("run_grades", pk)
    name = request.POST.get("collection", "").strip() or DEFAULT_SET
    try:
        made = judgements.from_grades(run, name, operator_of(request).user.get_username())
    except GoldenError as refused:
        return _shown(request, run, str(refused))
    if not is_partial(request):
        return redirect("golden_set", made.collection)
    return _shown(request, run, saved=made.collection)


def _finished(request: HttpRequest, pk: UUID) -> Run:
    run = own_run_or_404(request, pk)
    if not run.is_finished:
        raise Http404
    return run


def _grade(request: HttpRequest, run: Run) -> None:
    value, topic, message = (request.POST.get(name, "").strip() for name in ("grade", "topic", "message"))
    if value not in VALUES:
        raise Http404
    user = operator_of(request).user
    if message.isdecimal() and len(message) < 19:
        judgements.grade_message(run, user, VALUES[value], message=int(message))
    else:
        judgements.grade(run, user, VALUES[value], topic=topic)


def _shown(request: HttpRequest, run: Run, error: str = "", saved: str = "") -> HttpResponse:
    known = judgements.grades_of(run, operator_of(request).user)
    is_blind = request.GET.get("blind") == "1" or request.POST.get("blind") == "1"
    context: dict[str, Any] = {
        "run": run,
        "memory": run.owner,
        "grades": known,
        "marks": {id: _mark(opinion, is_blind=is_blind) for id, opinion in known.opinions.items()},
        "error": error,
        "saved": saved,
        "is_blind": is_blind,
        "may_save": operator_of(request).may(Role.DEBUGGER),
        "collections": [each["collection"] for each in judgements.collections(visible_owners(request))],
        "default_set": DEFAULT_SET,
    }
    if not is_partial(request):
        # Blind in an order that says nothing, the same at each visit.
        found = Outline.of([item.event for item in followers.stored(run.pk)]).found
        shown = list(found.shown) if found else []
        if is_blind:
            shown.sort(key=lambda each: hashlib.sha256(f"{run.pk} {each.id}".encode()).digest())
        context["listed"] = [{"candidate": each, "opinion": known.opinions.get(each.id, Opinion())} for each in shown]
    status = 422 if error else 200
    return show(request, "pages/runs/run_grades.html", "partials/runs/grades/strip.html", context, status=status)


def _mark(opinion: Opinion, *, is_blind: bool) -> dict[str, Any]:
    """What the script shows beside a candidate; blind, nothing of what others think."""
    others = {} if is_blind else dict(opinion.by_name)
    return {"own": opinion.own, "names": others, "disputed": opinion.is_disputed and not is_blind}
