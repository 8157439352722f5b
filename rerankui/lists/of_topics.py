"""The facets of the list of topics, and its columns as a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Case, Count, Exists, Func, OuterRef, Q, QuerySet, TextField, Value, When
from django.db.models.functions import TruncMonth
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from memoryapp.browsing.foreign import topics_with_foreign_summary
from memoryapp.browsing.topic_counts import recalled_topics, topic_counts
from memoryapp.models import ChatUser, EditedTopic, Fact, Topic, TopicEdit
from rerankui.lists import on_map
from rerankui.lists.downloads import MOST_ROWS, file_of, is_asked
from rerankui.lists.facets import Facet

COLUMNS = {
    "id": "pk",
    "summary": "summary",
    "messages": "message_count",
    "characters": "size_chars",
    "first_message": "started_at",
    "last_message": "ended_at",
    "edited_by_hand": "locked_by_hand",
    "live": "is_live",
}
COUNTED = ("candidate", "read", "chosen", "used")
# The column says whether a topic is live today.
COLUMNS_THEN = {title: column for title, column in COLUMNS.items() if title != "live"}
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
_SIZES = {
    "4": gettext_lazy("over 25,000 characters"),
    "3": gettext_lazy("5,000–25,000 characters"),
    "2": gettext_lazy("1,000–5,000 characters"),
    "1": gettext_lazy("under 1,000 characters"),
}


def facets_of(owner: ChatUser, query: QueryDict, *, is_past: bool = False) -> tuple[Facet, ...]:
    """The facets of the topics of today; of an earlier moment those that do not depend on what came later.

    That of foreign summaries reads all passages, those of the map place all topics, so they are only there where the
    address chooses them, as the page of quality and the map do.
    """
    facts = Fact.objects.filter(owner=owner, topic=OuterRef("pk"))
    lasting = (
        Facet("month", gettext_lazy("Month"), _month(), month_words, in_order=True),
        Facet("maker", gettext_lazy("Made by"), _maker(), lambda value: _MAKERS.get(value, value)),
        Facet("script", gettext_lazy("Letters"), _script(), lambda value: _SCRIPTS.get(value, value)),
        Facet("size", gettext_lazy("Length"), _size(), lambda value: _SIZES.get(value, value), in_order=True),
    )
    if is_past:
        return lasting
    return (
        *lasting,
        Facet("recalled", gettext_lazy("Recalled"), _yes_no(Q(pk__in=recalled_topics(owner.pk))), _recalled_words),
        Facet("facts", gettext_lazy("Facts"), _yes_no(Q(Exists(facts))), _facts_words),
        Facet("equal", gettext_lazy("Summary"), _yes_no(_equal(owner)), _equal_words),
        *_of_language(owner, query),
        *on_map.facets(owner, query),
    )


def file_of_topics(
    request: HttpRequest, owner: ChatUser, rows: QuerySet[Topic], moment: datetime | None
) -> HttpResponse | None:
    """The topics, in their order, as the file that the address asks for, or None; with what recent runs did with
    them."""
    if not is_asked(request):
        return None
    columns = COLUMNS_THEN if moment else COLUMNS
    values = list(rows.values_list(*columns.values())[:MOST_ROWS])
    counts = topic_counts(owner.pk, [row[0] for row in values], moment)
    whole = [(*row, *(getattr(counts[row[0]], name) for name in COUNTED)) for row in values]
    return file_of(request, [*columns, *COUNTED], whole, f"topics-{owner.pk}")


def month_words(value: str) -> str:
    """``2026-05`` as a month in the reader's language."""
    day = parse_date(f"{value}-01")
    return date_format(day, "F Y") if day else value


def _month() -> Func:
    """The month of the last message on the reader's calendar, as ``2026-05``."""
    month = TruncMonth("ended_at", tzinfo=timezone.get_current_timezone())
    return Func(month, Value("YYYY-MM"), function="to_char", output_field=TextField())


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


def _of_language(owner: ChatUser, query: QueryDict) -> Iterator[Facet]:
    if "written" in query:
        yield Facet("written", gettext_lazy("Summary’s language"), _written(owner), _written_words)


def _written(owner: ChatUser) -> Case:
    return Case(When(Q(pk__in=topics_with_foreign_summary(owner)), then=Value("foreign")), default=Value("same"))


def _yes_no(condition: Q) -> Case:
    return Case(When(condition, then=Value("yes")), default=Value("no"))


def _recalled_words(value: str) -> str:
    return _("in recent runs") if value == "yes" else _("never in recent runs")


def _facts_words(value: str) -> str:
    return _("with facts") if value == "yes" else _("without facts")


def _written_words(value: str) -> str:
    return _("other than its messages’") if value == "foreign" else _("as its messages’")


def _equal_words(value: str) -> str:
    return _("the same as another’s") if value == "yes" else _("its own")
