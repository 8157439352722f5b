"""How values are formatted, everywhere alike: ids as chips, times relative with the absolute time in the title, sizes
in thousands, money with four digits. Stored text is always escaped."""

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from django import template
from django.apps import apps
from django.conf import settings
from django.template import Context
from django.template.defaultfilters import floatformat
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, ngettext_lazy, pgettext

from memoryapp.engine.memory import is_session, parse_document_id, parse_topic_id
from memoryapp.insight.browsing.profiles import FIRST, LAST, WIDTH, Distribution, SimilarityShare
from memoryapp.insight.browsing.usage import Day
from memoryapp.models import ChatUser, Message
from memoryapp.platform import work
from memoryapp.platform.embedded import paths
from rerankui.account.account import device_name
from rerankui.frame.filters import Filter
from rerankui.frame.rows import page_address
from rerankui.text import words as counts
from rerankui.text.markdown import headline as headline_of
from rerankui.text.markdown import line, to_html, to_inline_html, to_text
from rerankui.text.words import absolute, file_type

register = template.Library()
register.filter("work_line", work.line)
register.filter("bare", line)
register.filter("headline", headline_of)
register.filter("prose_line", to_inline_html)
register.filter("prose", to_html)
register.filter("device", device_name)

OPENING_CHARS = 1_400
SNIPPET_CHARS = 320
_MONTHS_ACROSS = 12
# Dollars.
_LEAST_SHOWN = Decimal("0.0001")


# numbers


register.filter(counts.grouped)
register.filter(counts.messages)
register.filter(counts.characters)


@register.filter
def thousands(number: int) -> str:
    """A size to compare at a glance: ``840``, ``16.2K``, ``3.1M``."""
    for unit, form in ((1_000_000, _("%(n)sM")), (1_000, _("%(n)sK"))):
        if number >= unit:
            return form % {"n": number_format(number / unit, decimal_pos=1 if number < 100 * unit else 0)}
    return str(number)


@register.filter
def money(dollars: float | Decimal) -> str:
    """Four digits, or that it is less than they can say."""
    if 0 < dollars < _LEAST_SHOWN / 2:
        return f"<\u202f${floatformat(_LEAST_SHOWN, 4)}"
    return f"${floatformat(dollars, 4)}"


@register.simple_tag
def bar(share: float, kind: str = "") -> SafeString:
    """A bar of ``share`` in [0, 1]; an SVG, for inline styles are refused."""
    width = round(100 * min(1.0, max(0.0, share)), 1)
    return format_html(
        '<svg class="bar {}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{}" height="6"/></svg>',
        f"bar-{kind}" if kind else "",
        width,
    )


@register.simple_tag
def share_bar(value: int, most: int, kind: str = "") -> SafeString:
    return bar(value / most if most else 0, kind)


@register.simple_tag
def sparkline(counts: Sequence[int]) -> SafeString:
    """A bar for each count; decoration beside the number it belongs to."""
    most = max(counts, default=0) or 1
    heights = [round(18 * count / most, 1) for count in counts]
    bars = format_html_join("", '<rect x="{}" y="{}" width="4" height="{}"/>', _bars(heights))
    return format_html(
        '<svg class="spark" viewBox="0 0 {} 18" preserveAspectRatio="none" aria-hidden="true">{}</svg>',
        max(len(counts), 1) * 5,
        bars,
    )


def _bars(heights: Sequence[float]) -> Iterator[tuple[int, float, float]]:
    return ((place * 5, 18 - max(height, 0.8), max(height, 0.8)) for place, height in enumerate(heights))


@register.simple_tag
def months_chart(months: Sequence[tuple[date, int]], owner_id: int) -> SafeString:
    """A bar for each month's messages, leading to the month in the talk; the numbers are in the titles. A young
    memory's bars are as narrow as those of a year, with its months named together at their left end."""
    most = max(count for _month, count in months)
    bars = format_html_join("", _MONTH, (_month_bar(at, *month, most, owner_id) for at, month in enumerate(months)))
    ends = list(dict.fromkeys(date_format(months[place][0], pgettext("axis", "F Y")) for place in (0, -1)))
    named = ends if len(months) >= _MONTHS_ACROSS else [" – ".join(ends)]
    return format_html(
        '<svg class="months" viewBox="0 0 {} 56" preserveAspectRatio="none" role="group" aria-label="{}">{}</svg>'
        '<p class="months-ends">{}</p>',
        max(len(months), _MONTHS_ACROSS) * 10,
        _("Messages by month"),
        bars,
        format_html_join("", "<span>{}</span>", ((end,) for end in named)),
    )


@register.simple_tag
def days_chart(days: Sequence[Day]) -> SafeString:
    """A bar for each day's recalls, those that fell back on top; the numbers are in the titles."""
    most = max((day.recalls for day in days), default=0) or 1
    bars = format_html_join("", _DAY, (_day_bar(place, day, most) for place, day in enumerate(days)))
    ends = (date_format(days[place].day, _("j M")) for place in (0, -1))
    return format_html(
        '<svg class="days" viewBox="0 0 {} 64" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
        '<p class="months-ends"><span>{}</span><span>{}</span></p>',
        len(days) * 10,
        _("Recalls by day"),
        bars,
        *ends,
    )


_DAY = (
    '<g><title>{}</title><rect class="days-room" x="{}" width="10" height="64"/>'
    '<rect x="{}" y="{}" width="8" height="{}"/>'
    '<rect class="days-fallbacks" x="{}" y="{}" width="8" height="{}"/></g>'
)


def _day_bar(place: int, day: Day, most: int) -> tuple[object, ...]:
    recalls = ngettext("%(n)s recall", "%(n)s recalls", day.recalls) % {"n": counts.grouped(day.recalls)}
    fell_back = ngettext("%(n)s fell back", "%(n)s fell back", day.fallbacks) % {"n": counts.grouped(day.fallbacks)}
    height, top = (round(62 * count / most, 1) for count in (day.recalls, day.fallbacks))
    height = max(height, 0.5)
    left = place * 10 + 1
    title = f"{date_format(day.day, _('j F'))}: {recalls}, {fell_back}"
    return title, place * 10, left, 64 - height, height, left, 64 - height, top


_MONTH = (
    '<a href="{}" aria-label="{}"><title>{}</title><rect x="{}" width="10" height="56"/>'
    '<rect x="{}" y="{}" width="8" height="{}"/></a>'
)


def _month_bar(place: int, month: date, count: int, most: int, owner_id: int) -> tuple[object, ...]:
    counted = counts.messages(count)
    title = f"{date_format(month, 'F Y')}: {counted}"
    height = max(1.5 if count else 0.5, round(54 * count / most, 1))
    href = f"{reverse('messages', args=[owner_id])}?on={month.isoformat()}"
    return href, title, title, place * 10, place * 10 + 1, 56 - height, height


# words for what is stored as a code

register.filter(file_type)


# times


register.filter(absolute)


@register.filter
def moment(text: str) -> str:
    """A moment in ISO 8601, in the reader's format and time zone."""
    return absolute(datetime.fromisoformat(text))


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """``3 weeks ago``, with the moment itself in the title."""
    if moment is None:
        return ""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', moment.isoformat(), absolute(moment), _elapsed(moment)
    )


def _elapsed(moment: datetime) -> str:
    seconds = (timezone.now() - moment).total_seconds()
    if seconds < -60:
        return date_format(timezone.localtime(moment), _("j M Y"))
    for unit_seconds, words in _AGO:
        if seconds >= unit_seconds:
            return words % {"n": int(seconds // unit_seconds)}
    return _("just now")


# whole sentences, for "one minute ago" has a case of its own in some languages
_AGO = (
    (31_557_600, ngettext_lazy("%(n)d year ago", "%(n)d years ago", "n")),
    (2_629_800, ngettext_lazy("%(n)d month ago", "%(n)d months ago", "n")),
    (604_800, ngettext_lazy("%(n)d week ago", "%(n)d weeks ago", "n")),
    (86_400, ngettext_lazy("%(n)d day ago", "%(n)d days ago", "n")),
    (3_600, ngettext_lazy("%(n)d hour ago", "%(n)d hours ago", "n")),
    (60, ngettext_lazy("%(n)d minute ago", "%(n)d minutes ago", "n")),
)


@register.filter
def clock(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%H:%M")


@register.simple_tag
def span_of(start: datetime, end: datetime) -> str:
    """The days from ``start`` to ``end``: one date when they are the same."""
    first, last = (date_format(timezone.localtime(moment), _("j M Y")) for moment in (start, end))
    return first if first == last else f"{first} – {last}"


# ids and marks


@register.filter
def rows_of(table: str) -> str:
    """What the rows of a table are called; a table of Django's own, or one that there is no more, by its name."""
    name, _dot, column = table.partition(".")
    found = next((model for model in apps.get_models() if model._meta.db_table == name), None)
    words = capfirst(str(found._meta.verbose_name_plural)) if found else name
    return f"{words}: {column}" if column else words


@register.filter
def role_name(role: str) -> str:
    """``assistant`` in the reader's language."""
    return str(Message.Author(role).label)


@register.simple_tag
def topic_chip(pk: int, kind: str = "") -> SafeString:
    """``Topic:42``, which opens the topic and previews it; ``kind`` is one of the fixed meanings, or retired."""
    return format_html(
        '<a class="chip {}" href="{}" data-topic="{}" data-peek="{}">Topic:{}</a>',
        f"chip-{kind}" if kind else "",
        reverse("topic", args=[pk]),
        pk,
        reverse("topic_peek", args=[pk]),
        pk,
    )


@register.simple_tag
def icon(name: str, size: str = "") -> SafeString:
    """Returns one of the vendored icons; it is decoration only, so a word is shown beside it."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"/></svg>',
        f"icon-{size}" if size else "",
        static("vendor/icons.svg"),
        name,
    )


@register.simple_tag
def avatar(who: ChatUser | str, kind: str = "") -> SafeString:
    letter = next((letter for letter in str(who) if letter.isalnum()), "·")
    return format_html('<span class="avatar {}" aria-hidden="true">{}</span>', kind, letter.upper())


@register.simple_tag
def role_avatar(message: Message) -> SafeString:
    return avatar(message.author or message.get_role_display(), f"avatar-{message.role}")


@register.simple_tag
def file_icon(mime_type: str) -> SafeString:
    family = mime_type.partition("/")[0]
    return icon({"image": "photo", "audio": "microphone", "text": "file-text"}.get(family, "file"))


@register.simple_tag(takes_context=True)
def sort_head(context: Context, filters: Filter, label: str, first: str, second: str, kind: str) -> SafeString:
    """A column head that sorts by ``first``, and by ``second`` when it already does."""
    current = filters.sort if filters.sort in (first, second) else ""
    query = context["request"].GET.copy()
    for gone in ("before", "after", "at"):
        query.pop(gone, None)
    query["sort"] = second if second and current == first else first
    way = "descending" if filters.order[0].startswith("-") else "ascending"
    return format_html(
        '<th class="{}"{}><a href="?{}">{}{}</a></th>',
        kind,
        format_html(' aria-sort="{}"', way) if current else "",
        query.urlencode(),
        label,
        {"": "", "descending": " ↓", "ascending": " ↑"}[way if current else ""],
    )


# stored text


def _cut(text: str) -> int:
    """Where the opening of a long text ends: at a blank line, else a space, never inside fenced code."""
    if len(text) <= OPENING_CHARS * 1.3:
        return len(text)
    head = text[:OPENING_CHARS]
    place = max(head.rfind("\n\n"), head.rfind(" ") if head.rfind("\n\n") < OPENING_CHARS // 2 else -1)
    if head[: max(place, 0)].count("```") % 2:
        place = head.rfind("```")
    return place if place > 0 else OPENING_CHARS


@register.filter
def opening(text: str) -> str:
    """The part of a message that is shown at once."""
    return text[: _cut(text)]


@register.filter
def remainder(text: str) -> str:
    """What ``opening`` left out."""
    return text[_cut(text) :]


@register.filter
def marked(text: str, words: str) -> SafeString:
    """Escaped text with each occurrence of ``words`` marked."""
    if not words:
        return conditional_escape(text)
    parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE)
    return mark_safe(
        "".join(format_html("<mark>{}</mark>", part) if place % 2 else escape(part) for place, part in enumerate(parts))
    )


@register.filter
def snippet(text: str, words: str) -> SafeString:
    """The surroundings of the first occurrence of ``words``, marked."""
    text = to_text(text)
    found = re.search(re.escape(words), text, flags=re.IGNORECASE) if words else None
    start = max(0, found.start() - SNIPPET_CHARS // 3) if found else 0
    end = start + SNIPPET_CHARS
    cut = f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"
    return marked(cut, words)


# Commands that a page shows, to be pasted into a terminal.


@register.simple_tag
def program() -> str:
    """How this program is called in a terminal for this data folder."""
    return paths.program(settings.DATA_DIR)


@register.filter
def shell(name: str) -> str:
    """A name as a shell takes it for one word, whatever is in it."""
    return shlex.quote(name)


# Addresses of topics and active sessions, by their ids as runs name them.


register.filter("is_active_session", is_session)


@register.filter
def topic_address(id: str) -> str:
    """The page of a topic, or the messages of an active session. A document of another memory has none: its address is
    its place in the list of candidates."""
    if parse_document_id(id):
        return "#lane-candidates"
    return _reversed(id, "topic", "session")


@register.filter
def topic_peek(id: str, run: UUID) -> str:
    """A preview of the topic as it is now; of an active session, as the run found it."""
    return in_run(id, run) if is_session(id) or parse_document_id(id) else _reversed(id, "topic_peek", "")


@register.filter
def in_run(id: str, run: UUID) -> str:
    """The topic or session as the run found it."""
    if document := parse_document_id(id):
        return reverse("run_document", args=[run, document])
    return _reversed(id, "run_topic", "run_session", run)


@register.filter
def row_address(id: str, owner_id: int) -> str:
    """The page of a topic, a person or a fact."""
    noun, number = id.split(":")
    return page_address(noun.lower(), owner_id, int(number))


def _reversed(id: str, of_topic: str, of_session: str, *before: UUID) -> str:
    number = parse_topic_id(id) or 0
    return reverse(of_session if number < 0 else of_topic, args=[*before, abs(number)])


# How far neighbours are from each other, drawn.


@register.simple_tag
def similarities_chart(found: Distribution, in_force: float) -> SafeString:
    """A column for each part of the scale of cosines, with lines at the threshold in force and the proposed one."""
    most = max((column.share for column in found.columns), default=0) or 1
    bars = format_html_join("", _COLUMN, (_column_bar(at, column, most) for at, column in enumerate(found.columns)))
    lines = [("force", in_force), *([("proposed", found.proposed)] if found.proposed is not None else [])]
    marks = format_html_join("", _MARK, ((kind, _at(value), _at(value)) for kind, value in lines))
    return format_html(
        '<svg viewBox="0 0 {} 96" preserveAspectRatio="none" role="img" aria-label="{}">{}{}</svg>'
        '<p class="months-ends"><span>{}</span><span>{}</span></p>',
        len(found.columns) * 10,
        _("Pairs by their cosine"),
        bars,
        marks,
        number_format(FIRST),
        number_format(LAST),
    )


_COLUMN = '<g><title>{}</title><rect x="{}" y="{}" width="9" height="{}"/></g>'
_MARK = '<line class="line-{}" x1="{}" x2="{}" y1="0" y2="96"/>'


def _column_bar(place: int, column: SimilarityShare, most: float) -> tuple[object, ...]:
    height = max(0.4, round(94 * column.share / most, 1))
    title = _("from %(start)s: %(share)s %%") % {
        "start": number_format(column.start),
        "share": number_format(100 * column.share, 1),
    }
    return title, place * 10, round(96 - height, 1), height


def _at(cosine: float) -> float:
    """Returns the position of a cosine in the picture, ten units a column."""
    return round((min(max(cosine, FIRST), LAST) - FIRST) / WIDTH * 10, 1)
