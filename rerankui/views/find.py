"""The palette: pages, actions and rows of the memory by a few letters; exact names come first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from memoryapp.engine.memory import parse_topic_id
from memoryapp.insight.browsing.topics import topics_by_words
from memoryapp.insight.misses import misses
from memoryapp.memory import past
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Person, Role, Run, Topic
from rerankui.frame.access import open_to, operator_of, visible_owners
from rerankui.frame.filters import LONGEST_SEARCH
from rerankui.frame.frame import THEMES, PageFrame, Section
from rerankui.frame.navigation import ELSEWHERE, OVERVIEW, SECTIONS, TABS, Destination
from rerankui.frame.pages import is_partial, show
from rerankui.lists import saved
from rerankui.web.moment import moment_of

# What the palette offers beside rows of the memory: every page by its names, and actions.
#
# An action is a link or a form that is sent at once; only those are offered that the operator may carry out.

ASK_WORDS = ("ask ", "спроси ", "спросить ")
_LANGUAGE_ICON = "messages"


@dataclass(frozen=True, slots=True)
class Action:
    """``values`` are sent by a form; without them the action is a link."""

    label: str
    icon: str
    address: str
    values: Mapping[str, str] = field(default_factory=dict)
    also: str = ""
    is_download: bool = False


def pages(frame: PageFrame, words: str) -> list[Section]:
    """The pages whose names contain the words, exact names first; without words, the sections."""
    if not words:
        return frame.sections
    found = [(_page_nearness(words, str(place.label), str(place.also)), place) for place in _places()]
    near = sorted(((nearness, place) for nearness, place in found if nearness is not None), key=lambda pair: pair[0])
    shown = [section for _nearness, place in near if (section := frame.shown(place))]
    # A tab may have the address of its section.
    nearest: dict[str, Section] = {}
    for section in shown:
        nearest.setdefault(section.href, section)
    return [*nearest.values(), *_filter_lab(frame, words)]


def _places() -> list[Destination]:
    return [OVERVIEW, *SECTIONS.values(), *(tab for tabs in TABS.values() for tab in tabs), *ELSEWHERE]


def _page_nearness(words: str, label: str, also: str) -> int | None:
    """0 for the name itself, 1 for its beginning, 2 for a part of it, 3 for another word for it; else None."""
    sought, name = words.casefold(), label.casefold()
    if sought == name:
        return 0
    if name.startswith(sought):
        return 1
    if sought in name:
        return 2
    return 3 if len(sought) > 1 and sought in also.casefold() else None


def _filter_lab(frame: PageFrame, words: str) -> Iterator[Section]:
    """The filter lab belongs to a run: that of the latest run of this memory which has one."""
    label = _("Filter lab of the latest run")
    if frame.owner is None or _page_nearness(words, label, "") is None:
        return
    run = Run.objects.of(frame.owner).by_hand().filter(state=Run.State.FINISHED).order_by("-created_at").first()
    if run:
        yield Section("filter_lab", label, "adjustments", reverse("filter_lab", args=[run.pk]), is_current=False)


def actions(request: HttpRequest, frame: PageFrame, words: str) -> Sequence[Action]:
    possible = [*_of_memory(frame), *_of_look(request, frame)]
    return [action for action in possible if not words or _page_nearness(words, action.label, action.also) is not None]


def _of_memory(frame: PageFrame) -> Iterator[Action]:
    operator, owner = frame.operator, frame.owner
    if operator is None:
        return
    if operator.may(Role.CURATOR):
        yield Action(_("New memory…"), "plus", reverse("memory_make"), also=_("chat user, import, create"))
    if owner is None:
        return
    if operator.may(Role.CURATOR):
        label = _("Archive the messages of %(owner)s now") % {"owner": owner}
        address = reverse("memory_work", args=[owner.pk])
        yield Action(label, "stack-2", address, {"archive": "now"}, also=_("make topics, archive now"))
    if operator.may(Role.ADMIN):
        label = _("Export the memory of %(owner)s") % {"owner": owner}
        yield Action(label, "file-text", reverse("export", args=[owner.pk]), also=_("download"), is_download=True)


def _of_look(request: HttpRequest, frame: PageFrame) -> Iterator[Action]:
    htmx = getattr(request, "htmx", None)
    back = (htmx.current_url_abs_path if htmx and is_partial(request) else request.get_full_path()) or "/"
    for key, theme in THEMES.items():
        if key != frame.theme:
            label = _("Theme: %(name)s") % {"name": theme}
            yield Action(label, "adjustments", reverse("theme"), {"theme": key, "next": back}, _("appearance, colours"))
    for code, language in settings.LANGUAGES:
        if code != getattr(request, "LANGUAGE_CODE", ""):
            label = pgettext("action", "Language: %(name)s") % {"name": language}
            values = {"language": code, "next": back}
            yield Action(label, _LANGUAGE_ICON, reverse("language"), values, "English Russian русский английский")


def question(frame: PageFrame, words: str) -> Action | None:
    """Asks the memory what was typed, at once."""
    asked = next((words[len(word) :] for word in ASK_WORDS if words.casefold().startswith(word)), words).strip()
    asked = asked.strip('“”"«»')
    may_ask = frame.operator is not None and frame.operator.may(Role.DEBUGGER)
    if frame.owner is None or not may_ask or len(asked) < 2:
        return None
    label = _("Ask the memory of %(owner)s: “%(question)s”") % {"owner": frame.owner, "question": asked}
    values = {"query": asked, "strategy": "flash"}
    return Action(label, "message-question", reverse("recall", args=[frame.owner.pk]), values)


def forgotten(frame: PageFrame, words: str) -> Action | None:
    """Why an assistant did not know what was typed; its report asks for the question."""
    may_report = frame.operator is not None and frame.operator.may(Role.DEBUGGER)
    if frame.owner is None or not may_report or len(words) < 2:
        return None
    what = misses.forgotten(words) or words
    address = f"{reverse('miss_report', args=[frame.owner.pk])}?{urlencode({'expected': what})}"
    return Action(_("Why was “%(what)s” forgotten?") % {"what": what}, "alert-triangle", address)


def asks(words: str) -> bool:
    """Whether what was typed begins like a request to ask, so that the question comes first."""
    return words.casefold().startswith(ASK_WORDS) or words.endswith("?")


FEW = 8
# Queries have no index of words; older runs are found in their list.
RUNS_LOOKED_AT = 2_000


@open_to(Role.VIEWER)
def find(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    frame, seen = PageFrame(request), visible_owners(request)
    context: dict[str, Any] = {"sections": pages(frame, words), "actions": actions(request, frame, words)}
    if words:
        moment = moment_of(request)
        context |= _results_then(frame, words, moment) if moment else _results(seen, words)
        context["views"] = saved.called(operator_of(request), words)[:FEW]
    context["is_empty"] = not any(context.values())
    context |= {"words": words, "question": question(frame, words), "asks": asks(words)}
    context |= {"forgotten": forgotten(frame, words), "complains": bool(misses.forgotten(words))}
    context["has_topics_here"] = any(topic.owner == frame.owner for topic in context.get("topics", ()))
    context["has_exact_name"] = any(_is_called(person, words) for person in context.get("people", ()))
    return show(request, "pages/find.html", "partials/find/found.html", context)


def _is_called(person: Person, words: str) -> bool:
    """Whether the person, or one word of the name, is called exactly so."""
    names = [person.display_name, person.username, *person.aliases]
    parts = {part.casefold() for name in names for part in (name, *name.split())}
    return words.casefold().lstrip("@") in parts


def _results(seen: QuerySet[ChatUser], words: str) -> dict[str, Any]:
    """What is called so in any memory that may be seen, a few of each; a query for each noun."""
    topics = topics_by_words(Topic.objects.live().filter(owner__in=seen), words, parse_topic_id(words))
    called = Q(display_name__icontains=words) | Q(username__icontains=words) | Q(aliases__icontains=words)
    people = Person.objects.filter(called, owner__in=seen).order_by(_nearness(words), "-mention_count", "pk")
    artifacts = Artifact.objects.filter(name__icontains=words, owner__in=seen).order_by("-created_at", "-pk")
    latest = Run.objects.by_hand().filter(owner__in=seen).order_by("-created_at", "-id")
    runs = Run.objects.filter(pk__in=latest.values("pk")[:RUNS_LOOKED_AT]).filter(_run_condition(words))
    return {
        "owners": seen.filter(Q(name__icontains=words) | Q(display_name__icontains=words))[:FEW],
        "topics": topics.select_related("owner").order_by("-ended_at", "-id")[:FEW],
        "people": people.select_related("owner")[:FEW],
        "artifacts": artifacts.select_related("owner")[:FEW],
        "runs": runs.order_by("-created_at", "-id")[:FEW],
    }


def _results_then(frame: PageFrame, words: str, moment: datetime) -> dict[str, Any]:
    """What was called so at the moment in the memory that is looked at."""
    owner = frame.owner
    if owner is None:
        return {}
    topics = topics_by_words(past.topics_at(moment).filter(owner=owner), words, parse_topic_id(words))
    runs = Run.objects.of(owner).by_hand().filter(_run_condition(words), created_at__lte=moment)
    people = past.known_at(owner.pk, KnowledgeEdit.Noun.PERSON, moment)
    artifacts = past.known_at(owner.pk, KnowledgeEdit.Noun.ARTIFACT, moment)
    found: dict[str, Any] = {
        "topics": topics.select_related("owner").order_by("-ended_at", "-id")[:FEW],
        "runs": runs.select_related("owner").order_by("-created_at", "-id")[:FEW],
        "people": [row for row in people if _contains(words, row.display_name, row.username, *row.aliases)][:FEW],
        "artifacts": [row for row in artifacts if _contains(words, row.name)][:FEW],
    }
    for row in (*found["people"], *found["artifacts"]):
        row.owner = owner
    return found


def _contains(words: str, *names: str) -> bool:
    return any(words.casefold() in name.casefold() for name in names)


def _nearness(words: str) -> Case:
    """Sorts people who are called exactly so before those whose names only contain the words."""
    whole = Q(display_name__iexact=words) | Q(username__iexact=words) | Q(aliases__icontains=f'"{words}"')
    part = Q(display_name__istartswith=f"{words} ") | Q(display_name__iendswith=f" {words}")
    return Case(When(whole, then=Value(0)), When(part, then=Value(1)), default=Value(2), output_field=IntegerField())


def _run_condition(words: str) -> Q:
    """A run by the words of its query, or by the beginning of its id."""
    return Q(query__icontains=words) | Q(id__istartswith=words)
