"""The palette: pages, actions and rows of the memory by a few letters; exact names come first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp import past
from memoryapp.browsing.summary_search import topics_by_words
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Person, Run, Topic
from rerankui import palette
from rerankui.access import operator_of, visible_owners
from rerankui.filters import LONGEST_SEARCH
from rerankui.frame import PageFrame
from rerankui.lists import saved
from rerankui.pages import show
from rerankui.web.moment import moment_of

FEW = 8
# Queries have no index of words; older runs are found in their list.
RUNS_LOOKED_AT = 2_000


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    frame, seen = PageFrame(request), visible_owners(request)
    context: dict[str, Any] = {
        "sections": palette.pages(frame, words),
        "actions": palette.actions(request, frame, words),
    }
    if words:
        moment = moment_of(request)
        context |= _results_then(frame, words, moment) if moment else _results(seen, words)
        context["views"] = saved.called(operator_of(request), words)[:FEW]
    context["is_empty"] = not any(context.values())
    context |= {"words": words, "question": palette.question(frame, words), "asks": palette.asks(words)}
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
    latest = Run.objects.filter(owner__in=seen, evaluation__isnull=True).order_by("-created_at", "-id")
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
