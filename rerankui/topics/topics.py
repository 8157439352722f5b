"""The list of topics: by words, dates, size and state, by where they lie on the map, and by what became of them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from memoryapp.curation import CurationError
from memoryapp.curation import bulk as works
from memoryapp.curation.suggestions import proposals
from memoryapp.engine.memory import parse_topic_id
from memoryapp.insight.browsing.comparison import MOST_TOPICS
from memoryapp.insight.browsing.quality import topics_with_foreign_summary
from memoryapp.insight.browsing.topic_map import MapPoint, MapRegion, last_run, topic_map, topics_within
from memoryapp.insight.browsing.topic_map import topic_map as placed
from memoryapp.insight.browsing.topics import recalled_topics, topic_counts, topics_by_words
from memoryapp.memory import past, sessions
from memoryapp.memory.content import projects_of
from memoryapp.models import BulkTopic, BulkWork, ChatUser, EditedTopic, Fact, Message, Role, Topic, TopicEdit
from memoryapp.search.neighbours import Neighbour, neighbours
from rerankui.curation.change_form import NumbersField
from rerankui.frame.access import open_to, operator_of, topic_or_404
from rerankui.frame.filters import LONGEST_SEARCH, MeaningFilter, choice
from rerankui.frame.forms import BadProject, project_sent
from rerankui.frame.pages import PAGE_SIZE, Page, page_of, show
from rerankui.frame.toasts import next_address
from rerankui.lists.facets import LONGEST_VALUE, Facet, of_month, of_project, stale
from rerankui.lists.list_page import AskedList, ListPage

STATES = {
    "retired": {"is_live": False},
    "by_hand": {"is_live": True, "locked_by_hand": True},
    "consolidated": {"is_live": True, "is_consolidated": True},
}
AREA, REGION = "area", "region"
ELSEWHERE = "elsewhere"
# The corners of an area in thousandths of the map's unit, as "-120,35;200,35;40,310".
_AREA = re.compile(r"-?\d{1,5},-?\d{1,5}(?:;-?\d{1,5},-?\d{1,5}){2,40}")
COUNTED = ("candidate", "read", "chosen", "used")
_MAKERS = {
    "model": pgettext_lazy("maker", "chat model"),
    "segmenter": pgettext_lazy("maker", "segmenter"),
    "person": pgettext_lazy("maker", "person"),
}
_SCRIPTS = {
    "cyrillic": gettext_lazy("Cyrillic letters"),
    "latin": gettext_lazy("Latin letters"),
    "other": gettext_lazy("other letters"),
}
_RECALLED = {"yes": gettext_lazy("in recent runs"), "no": gettext_lazy("never in recent runs")}
_WITH_FACTS = {"yes": gettext_lazy("with facts"), "no": gettext_lazy("without facts")}
_WRITTEN = {"foreign": gettext_lazy("other than its messages’"), "same": gettext_lazy("as its messages’")}
_EQUAL = {"yes": gettext_lazy("the same as another’s"), "no": gettext_lazy("its own")}
_SIZES = {
    "4": gettext_lazy("over 25,000 characters"),
    "3": gettext_lazy("5,000–25,000 characters"),
    "2": gettext_lazy("1,000–5,000 characters"),
    "1": gettext_lazy("under 1,000 characters"),
}


class TopicFilter(MeaningFilter):
    """``topics`` are the numbers of those to list, of all of them when there are none."""

    placeholder = gettext_lazy("Search summaries, or Topic:42")
    SORTS = {
        "newest": ("-ended_at", "-id"),
        "oldest": ("ended_at", "id"),
        "longest": ("-size_chars", "-id"),
        "shortest": ("size_chars", "id"),
        "most": ("-message_count", "-id"),
        "fewest": ("message_count", "id"),
    }
    state = choice(
        gettext_lazy("State"),
        pgettext_lazy("topics", "live"),
        [
            ("retired", pgettext_lazy("topics", "retired")),
            ("by_hand", pgettext_lazy("topics", "edited by hand")),
            ("consolidated", pgettext_lazy("topics", "consolidated")),
        ],
    )
    # those picked elsewhere, on the map for one
    topics = NumbersField(required=False)


class TopicList(ListPage[Topic, TopicFilter]):
    title = gettext_lazy("Topics")
    name = near = "topics"
    form = TopicFilter
    columns = {
        "id": "pk",
        "summary": "summary",
        "messages": "message_count",
        "characters": "size_chars",
        "first_message": "started_at",
        "last_message": "ended_at",
        "edited_by_hand": "locked_by_hand",
        "live": "is_live",
    }
    has_past, today_only = True, frozenset(("live",))
    page, partial = "pages/topics/topics.html", "partials/topics/topics.html"

    def rows(self, asked: AskedList[TopicFilter]) -> QuerySet[Topic]:
        owner, moment, chosen = asked.owner, asked.moment, asked.filters.chosen
        conditions = STATES.get(chosen["state"], {"is_live": True})
        if moment is None:
            found = Topic.objects.of(owner).filter(**conditions)
        else:
            rows = past.retired_by(moment) if chosen["state"] == "retired" else past.topics_at(moment)
            found = rows.filter(owner=owner, **{name: value for name, value in conditions.items() if name != "is_live"})
        return found.filter(pk__in=chosen["topics"]) if chosen["topics"] else found

    def worded(self, asked: AskedList[TopicFilter], rows: QuerySet[Topic]) -> QuerySet[Topic]:
        words = asked.filters.chosen["q"]
        return topics_by_words(rows, words, parse_topic_id(words)) if words else rows

    def facets(self, asked: AskedList[TopicFilter]) -> tuple[Facet, ...]:
        """The facets of the topics of today; of an earlier moment those that do not depend on what came later. That of
        foreign summaries reads all passages, those of the map place all topics, so they are only there where the
        address chooses them, as the page of quality and the map do."""
        owner, query = asked.owner, asked.query
        facts = Fact.objects.filter(owner=owner, topic=OuterRef("pk"))
        lasting = (
            of_month("month", gettext_lazy("Month"), "ended_at"),
            Facet("maker", gettext_lazy("Made by"), _maker(), _MAKERS),
            Facet("script", gettext_lazy("Letters"), _script(), _SCRIPTS),
            Facet("size", gettext_lazy("Length"), _size(), _SIZES, in_order=True),
        )
        if asked.moment:
            return lasting
        return (
            *lasting,
            Facet("recalled", gettext_lazy("Recalled"), _yes_no(Q(pk__in=recalled_topics(owner.pk))), _RECALLED),
            Facet("facts", gettext_lazy("Facts"), _yes_no(Q(Exists(facts))), _WITH_FACTS),
            Facet("equal", gettext_lazy("Summary"), _yes_no(_equal(owner)), _EQUAL),
            stale(owner, "topic"),
            of_project(),
            *([_of_import(query.get("import", ""))] if query.get("import", "").isdecimal() else []),
            *([_of_language(owner)] if "written" in query else []),
            *([_of_area(owner, query.get(AREA, "")[:LONGEST_VALUE])] if AREA in query else []),
            *([_of_regions(owner)] if REGION in query else []),
        )

    def shown(self, asked: AskedList[TopicFilter], found: Any) -> Page[Topic]:
        page = super().shown(asked, found)
        if asked.moment:
            is_live = asked.filters.chosen["state"] != "retired"
            past.as_then(asked.owner.pk, page.rows, asked.moment, is_live=is_live)
        return page

    def more(self, asked: AskedList[TopicFilter], page: Page[Topic], found: Any) -> dict[str, Any]:
        return {
            "may_change": operator_of(asked.request).may(Role.CURATOR),
            "most_compared": MOST_TOPICS,
            "counts": topic_counts(asked.owner.pk, [topic.pk for topic in page], asked.moment),
            "is_begun": bool(page.rows) or Message.objects.of(asked.owner).present().exists(),
        }

    def file_of(
        self, asked: AskedList[TopicFilter], titles: Iterable[str], values: Iterable[Sequence[Any]]
    ) -> HttpResponse:
        """With what recent runs did with the topics."""
        rows = list(values)
        counts = topic_counts(asked.owner.pk, [row[0] for row in rows], asked.moment)
        whole = [(*row, *(getattr(counts[row[0]], name) for name in COUNTED)) for row in rows]
        return super().file_of(asked, [*titles, *COUNTED], whole)


TOPICS = TopicList()


def _maker() -> Case:
    archived = EditedTopic.objects.filter(
        topic=OuterRef("pk"), side=EditedTopic.Side.IN, edit__kind=TopicEdit.Kind.ARCHIVE
    )
    return Case(
        When(Exists(archived.filter(edit__call__outcome="", edit__call__isnull=False)), then=Value("model")),
        When(Exists(archived), then=Value("segmenter")),
        default=Value("person"),
    )


def _script() -> Case:
    return Case(
        When(summary__regex="[а-яёА-ЯЁ]", then=Value("cyrillic")),
        When(summary__regex="[a-zA-Z]", then=Value("latin")),
        default=Value("other"),
    )


def _size() -> Case:
    return Case(
        When(size_chars__gt=25_000, then=Value("4")),
        When(size_chars__gt=5_000, then=Value("3")),
        When(size_chars__gt=1_000, then=Value("2")),
        default=Value("1"),
    )


def _equal(owner: ChatUser) -> Q:
    """Whether another live topic has the same summary; one comparison for all of them."""
    summaries = Topic.objects.of(owner).live().exclude(summary="").order_by().values("summary")
    return Q(summary__in=summaries.annotate(n=Count("pk")).filter(n__gt=1).values("summary"))


def _of_language(owner: ChatUser) -> Facet:
    foreign = When(Q(pk__in=topics_with_foreign_summary(owner)), then=Value("foreign"))
    return Facet("written", gettext_lazy("Summary’s language"), Case(foreign, default=Value("same")), _WRITTEN)


def _of_import(number: str) -> Facet:
    brought = Exists(Message.objects.filter(topic=OuterRef("pk"), batch=int(number[:18])))
    return Facet("import", gettext_lazy("Import"), Case(When(brought, then=Value(number)), default=Value("other")))


def _yes_no(condition: Q) -> Case:
    return Case(When(condition, then=Value("yes")), default=Value("no"))


def _of_area(owner: ChatUser, drawn: str) -> Facet:
    """An area that cannot be read contains nothing."""
    inside = topics_within(owner, _corners(drawn)) if _AREA.fullmatch(drawn) else []
    by = Case(When(Q(pk__in=inside), then=Value(drawn)), default=Value(ELSEWHERE))
    return Facet(AREA, gettext_lazy("On the map"), by, _area_words)


def _corners(drawn: str) -> list[tuple[float, float]]:
    return [(int(x) / 1000, int(y) / 1000) for x, y in (corner.split(",") for corner in drawn.split(";"))]


def _area_words(value: str) -> str:
    return _("elsewhere on the map") if value == ELSEWHERE else _("in the area drawn")


def _of_regions(owner: ChatUser) -> Facet:
    found = topic_map(owner)
    members: list[list[int]] = [[] for _region in found.regions]
    for point in found.points if found.regions else ():
        members[point.region].append(point.topic.pk)
    cases = [When(Q(pk__in=numbers), then=Value(str(at))) for at, numbers in enumerate(members)]
    by = Case(*cases, default=Value(ELSEWHERE))
    return Facet(REGION, gettext_lazy("On the map"), by, lambda value: _region_words(found.regions, value))


def _region_words(regions: Sequence[MapRegion], value: str) -> str:
    known = value.isdecimal() and len(value) < 3 and int(value) < len(regions)
    return ", ".join(regions[int(value)].words) if known else _("elsewhere on the map")


# The map: topics as dots, near each other when they are about the same, to be picked with a brush.

# Of many topics shorter summaries are sent.
SUMMARY_CHARS, MANY, SHORT_CHARS = 140, 1_500, 60


@open_to(Role.VIEWER)
def drawn_topic_map(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    found, last = placed(owner), last_run(owner)
    chars = SUMMARY_CHARS if len(found.points) <= MANY else SHORT_CHARS
    # What was asked for, or the first choice.
    asked = request.GET.get("colour", "")
    known = ("region", "time", "size") if found.regions else ("time", "size")
    context: dict[str, Any] = {
        "owner": owner,
        "map": found,
        "dots": [_dot(point, chars) for point in found.points],
        "listed": found.points[:PAGE_SIZE],
        "unlisted": len(found.points[PAGE_SIZE:]),
        "percent": round(100 * found.shown),
        "regions": [_region(region) for region in found.regions],
        "last": last,
        "lit": dict.fromkeys(last.read, "read") | dict.fromkeys(last.chosen, "chosen") if last else {},
        "colour": asked if asked in known else known[0],
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/topics/topic_map.html", context)


def _region(region: MapRegion) -> dict[str, Any]:
    corners = [[round(x, 4), round(y, 4)] for x, y in region.corners]
    return {"name": ", ".join(region.words), "count": region.count, "corners": corners}


def _dot(point: MapPoint, chars: int) -> list[Any]:
    """Number, place, first and last second, messages, characters, summary, region: as short as many of them must be."""
    topic, x, y = point.topic, round(point.x, 4), round(point.y, 4)
    return [
        topic.pk,
        x,
        y,
        topic.began,
        topic.ended,
        topic.message_count,
        topic.size_chars,
        topic.summary[:chars],
        point.region,
    ]


# Choosing another topic: the live topics by meaning and by words, to move messages into or to merge with.
#
# Without words, the topics nearest to the present one; with words, first those whose summary contains them, then
# those similar in meaning.

MOST = 12
DEEDS = ("move", "merge")
LONGEST_LIST = 200_000


@open_to(Role.CURATOR)
def topic_pick(request: HttpRequest, pk: int) -> HttpResponse:
    """Each topic found is a button that leads to the preview of the change."""
    topic = topic_or_404(request, pk)
    words = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    deed = request.GET.get("op", "")
    chosen = ",".join(request.GET.getlist("messages"))[:LONGEST_LIST]
    context: dict[str, Any] = {
        "owner": topic.owner,
        "topic": topic,
        "words": words,
        "deed": deed if deed in DEEDS else "move",
        "chosen": chosen,
        "following": bool(request.GET.get("following")),
        "back": next_address(request),
        "found": matches(topic, words) if words else neighbours(topic, MOST),
    }
    return show(request, "pages/topics/topic_pick.html", "partials/topics/picked.html", context)


def matches(topic: Topic, words: str) -> list[Neighbour]:
    """Topics by words, then by meaning, each once and never the topic itself; similarity 0 where only words match."""
    live = Topic.objects.of(topic.owner_id).live().exclude(pk=topic.pk)
    by_words = topics_by_words(live, words, parse_topic_id(words)).order_by("-ended_at", "-id")[: MOST // 2]
    by_meaning = {near.topic.pk: near for near in _alike(topic, words)}
    first = [by_meaning.pop(row.pk, Neighbour(row, 0.0)) for row in by_words]
    return [*first, *by_meaning.values()][:MOST]


def _alike(topic: Topic, words: str) -> list[Neighbour]:
    near = proposals.topics_alike(topic.owner, words, MOST + 1)
    return [each for each in near if each.topic.pk != topic.pk]


# Work on many topics: what it would take, how far it is, and the buttons that stop it and take it back.


MOST_FAULTS = 50


@open_to(Role.CURATOR, post=Role.CURATOR)
def bulk(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The works of this memory; with chosen topics, what each kind of work on them would take. Posted, one begins."""
    if request.method == "POST":
        return _begin(request, owner)
    chosen, is_all = _chosen(request, owner, request.GET)
    page = page_of(request, BulkWork.objects.filter(owner=owner), ("-id", "-id"))
    forecasts = works.forecast(owner, chosen) if is_all or chosen else []
    context: dict[str, Any] = {
        "owner": owner,
        "page": page,
        "chosen": chosen,
        "is_all": is_all,
        "count": forecasts[0].topics if forecasts else 0,
        "forecasts": forecasts,
        "projects": projects_of(owner),
    }
    return show(request, "pages/bulk/bulk.html", "partials/bulk/bulk.html", context)


def _chosen(request: HttpRequest, owner: ChatUser, sent: QueryDict) -> tuple[works.Numbers, bool]:
    """The numbers of the picked topics; with ``all``, those that the list with the filters of the address shows."""
    if request.GET.get("all"):
        return TOPICS.matching(owner, request.GET).values_list("pk", flat=True), True
    return TopicFilter(sent).chosen["topics"] or [], False


def _begin(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    topics, is_all = _chosen(request, owner, request.POST)
    kind, seen = request.POST.get("kind", ""), request.POST.get("seen", "")
    # What the forecast was shown for is what is paid for.
    expected = int(seen) if is_all and seen.isdecimal() and len(seen) < 10 else 0 if is_all else None
    try:
        if kind not in BulkWork.Kind.values:
            raise CurationError(_("Say what is to be done with the topics."))
        project, by = project_sent(request.POST.get("project", "")), request.user.get_username()
        made = works.ask(owner, topics, BulkWork.Kind(kind), by, expected=expected, project=project)
        if kind == BulkWork.Kind.LABEL and (number := request.GET.get("import", "")).isdecimal():
            sessions.label(owner, Message.objects.filter(owner=owner, batch=int(number[:18])), project)
    except (CurationError, BadProject) as error:
        messages.error(request, str(error))
        again = request.GET.urlencode() if is_all else urlencode({"topics": ",".join(map(str, topics))})
        return redirect(f"{reverse('bulk', args=[owner.pk])}?{again}")
    return redirect("bulk_work", owner.pk, made.pk)


@open_to(Role.VIEWER, post=Role.CURATOR)
def bulk_work(request: HttpRequest, owner: ChatUser, bulkwork: int) -> HttpResponse:
    """How far it is; posted, it is stopped, goes on or is taken back."""
    work = get_object_or_404(BulkWork.objects.select_related("owner"), owner=owner, pk=bulkwork)
    return _change(request, work) if request.method == "POST" else _page(request, work)


def _page(request: HttpRequest, work: BulkWork) -> HttpResponse:
    faults = work.rows.exclude(fault="").select_related("topic").order_by("pk")
    context = {
        "owner": work.owner,
        "work": work,
        "progress": works.progress(work),
        "faults": faults[:MOST_FAULTS],
        "is_going_on": work.state == BulkWork.State.GOING_ON,
        "waits": BulkTopic.State.WAITING,
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return show(request, "pages/bulk/bulk_work.html", "partials/bulk/bulk_work.html", context)


def _change(request: HttpRequest, work: BulkWork) -> HttpResponse:
    if "undo" in request.POST:
        undone, left = works.undo(work, actor=request.user.get_username())
        sentence = ngettext("%(n)d change was undone.", "%(n)d changes were undone.", undone) % {"n": undone}
        if left:
            sentence += " " + ngettext(
                "%(n)d stays, because it was undone already or a later change depends on it.",
                "%(n)d stay, because they were undone already or later changes depend on them.",
                left,
            ) % {"n": left}
        messages.success(request, sentence)
    elif "go_on" in request.POST:
        works.go_on(work)
    elif works.stop(work):
        messages.success(request, _("Stopped: what is done stays, and nothing more is begun."))
    return redirect("bulk_work", work.owner_id, work.pk)
