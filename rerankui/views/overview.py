"""The start pages: every chat user at a glance, and one memory at a glance."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.engine.cells import within
from memoryapp.erasure.expiry import recent_batches
from memoryapp.insight.browsing.profiles import MOST_PASSAGES, passages_without_vector
from memoryapp.insight.browsing.quality import Holdings, holdings, messages_by_month
from memoryapp.insight.browsing.usage import usage, worst_runs
from memoryapp.memory.content import projects_of
from memoryapp.models import Artifact, ChatUser, Fact, Person, Role, Run, Topic
from memoryapp.platform import caps, cells, heartbeats
from memoryapp.platform.llm import clients
from memoryapp.search.profiles import awaiting_consent, serving_profile, undecided
from memoryapp.upkeep.demo import recorded
from rerankui.frame.access import Request, open_to, operator_of, visible_owners
from rerankui.frame.filters import OwnerFilter
from rerankui.frame.frame import PageFrame
from rerankui.frame.pages import page_of, show
from rerankui.past.pages import memory_then
from rerankui.pipeline.alarms import open_for
from rerankui.pipeline.pipeline import panel_for, panel_of, sessions_of
from rerankui.runs.page.waterfall import played_run
from rerankui.text.words import undecided_words
from rerankui.views.ask import usual_strategy
from rerankui.web.moment import moment_of

RECENT = 8
FEW = 6


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do next, and whose memory to archive or to ask; or that it is done on the page of embedding."""

    sentence: str
    owner: ChatUser | None = None
    to_archive: ChatUser | None = None
    is_embedding: bool = False


@open_to(Role.VIEWER)
def overview(request: Request) -> HttpResponse:
    seen = visible_owners(request)
    filters = OwnerFilter(request.GET)
    found = _named(seen, filters.chosen["q"])
    page = page_of(request, found, filters.order)
    counts = cells.by_owner(partial(holdings, by_month=True), page.rows)
    rows = [(owner, counts[owner.pk]) for owner in page if owner.pk in counts]
    context: dict[str, Any] = {"page": page, "filters": filters, "rows": rows}
    if not request.htmx:
        # The page says that nothing is left to do only where it lists the steps of all memories.
        sees_all = not (filters.is_narrowed or page.before or page.after)
        context |= {"runs": _recent_runs(seen), "steps": _steps(request, seen, context["rows"])}
        context["lists_all_steps"] = sees_all and operator_of(request).may(Role.CURATOR)
        # The last days of these memories on the reader's calendar.
        now, zone = timezone.now(), timezone.get_current_timezone()
        context |= {"usage": usage(seen, now=now, zone=zone), "worst": worst_runs(seen, FEW, now=now, zone=zone)}
        context |= {**next(iter(cells.tried(partial(_beginning, request))), {}), "expiring": recent_batches(seen)}
        context |= {"limitations": clients.limitations() if operator_of(request).may(Role.DEBUGGER) else []}
        context |= {"alarms": open_for(request)}
        if operator_of(request).sees_everyone and settings.DAILY_CAP_USD is not None:
            context |= {"spent": caps.today().get("all", 0.0), "cap": settings.DAILY_CAP_USD}
        context |= panel_of(seen, reverse("work"))
    return show(request, "pages/overview/overview.html", "partials/overview/owners.html", context)


def _beginning(request: HttpRequest) -> dict[str, Any]:
    """The question box of the memory that the frame shows, with examples, and a run of it that plays."""
    operator, owner = operator_of(request), PageFrame(request).owner
    may_make = operator.may(Role.CURATOR)
    if owner is None:
        return {"may_make": may_make}
    with within(owner.cell):
        asked = {
            "owner": owner,
            "may_ask": operator.may(Role.DEBUGGER),
            "strategy": usual_strategy(),
            "examples": recorded.examples(owner.name) or _examples(owner),
        }
        return {"may_make": may_make, "asked": asked, "played": played_run(owner)}


def _examples(owner: ChatUser) -> list[str]:
    people = Person.objects.filter(owner=owner).order_by("-mention_count", "-id")[:2]
    about = [_("What do I know about %(name)s?") % {"name": person.display_name} for person in people]
    if not Topic.objects.of(owner).live().exists():
        return []
    return [*about, _("What did we talk about last?"), _("What did I decide to do?")][:3]


def _named(owners: QuerySet[ChatUser], words: str | None) -> QuerySet[ChatUser]:
    return owners.filter(Q(name__icontains=words) | Q(display_name__icontains=words)) if words else owners


@cells.everywhere(order=lambda run: (run.created_at, run.pk), most=RECENT)
def _recent_runs(owners: QuerySet[ChatUser]) -> list[Run]:
    runs = Run.objects.by_hand().filter(owner__in=owners)
    return list(runs.with_answers().select_related("owner", "operator").order_by("-created_at", "-id")[:RECENT])


def _steps(request: HttpRequest, seen: QuerySet[ChatUser], rows: list[tuple[ChatUser, Holdings]]) -> list[NextStep]:
    """What an operator could do next and may do."""
    steps = _embedding() if operator_of(request).may(Role.ADMIN) else []
    if operator_of(request).may(Role.CURATOR):
        late = [process for process, state in heartbeats.states().items() if state not in ("ok", heartbeats.NEVER)]
        sentence = _("No sign of life from %(names)s: topics, vectors and suggestions wait.")
        steps += [NextStep(sentence % {"names": ", ".join(late)})] if late else []
        steps += _waiting(seen, rows)
    if operator_of(request).may(Role.DEBUGGER):
        idle = next((owner for owner, counts in rows if counts.topics and not counts.runs), None)
        if idle:
            steps.append(NextStep(_("Ask the memory of %(name)s a question.") % {"name": idle}, owner=idle))
    return steps


def _embedding() -> list[NextStep]:
    """An embedding model that waits for an admin: to agree to what it costs, or to decide on its thresholds."""
    steps = []
    if profile := awaiting_consent():
        form = _("The settings name the embedding model %(name)s, and another one serves until you agree to its cost.")
        steps.append(NextStep(form % {"name": profile.model}, is_embedding=True))
    if row := undecided():
        steps.append(NextStep(undecided_words(row), is_embedding=True))
    return steps


def _waiting(seen: QuerySet[ChatUser], rows: list[tuple[ChatUser, Holdings]]) -> list[NextStep]:
    steps = [
        NextStep(
            ngettext(
                "%(n)s message of %(name)s is in no topic yet.",
                "%(n)s messages of %(name)s are in no topic yet.",
                counts.waiting,
            )
            % {"n": counts.waiting, "name": owner},
            to_archive=owner,
        )
        for owner, counts in rows
        if counts.waiting
    ][:3]
    missing = passages_without_vector(seen, serving_profile())
    if missing:
        sentence = ngettext(
            "%(n)s passage is found by its words only until the worker has embedded it.",
            "%(n)s passages are found by their words only until the worker has embedded them.",
            missing,
        )
        steps.append(NextStep(sentence % {"n": f"{missing}+" if missing >= MOST_PASSAGES else missing}))
    return steps


@open_to(Role.VIEWER)
def memory(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    shown = memory_then(owner, moment) if (moment := moment_of(request)) else _memory_now(request, owner)
    context = {
        "owner": owner,
        "may_ask": operator_of(request).may(Role.DEBUGGER),
        "may_erase": operator_of(request).may(Role.ADMIN),
        "may_curate": operator_of(request).may(Role.CURATOR),
        "projects": projects_of(owner) if operator_of(request).may(Role.ADMIN) else (),
        **shown,
    }
    return render(request, "pages/overview/memory.html", context)


def _memory_now(request: HttpRequest, owner: ChatUser) -> dict[str, Any]:
    runs = Run.objects.of(owner).by_hand().with_answers().select_related("owner", "operator")
    return {
        "counts": holdings([owner])[owner.pk],
        "months": messages_by_month(owner),
        "topics": Topic.objects.of(owner).live().order_by("-ended_at", "-id")[:RECENT],
        "runs": runs.order_by("-created_at", "-id")[:FEW],
        "people": Person.objects.filter(owner=owner).order_by("-mention_count", "-id")[:FEW],
        "artifacts": Artifact.objects.filter(owner=owner).order_by("-created_at", "-id")[:FEW],
        "facts": Fact.objects.current().filter(owner=owner).order_by("-importance", "-id")[:FEW],
        **panel_for(owner),
        **sessions_of(request, owner),
    }
