"""The picture of how similar the texts of a memory are; an SVG, for inline styles are refused."""

from django import template
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from memoryapp.insight.browsing.profiles import FIRST, LAST, WIDTH, Distribution, SimilarityShare

register = template.Library()


@register.simple_tag
def similarities_chart(found: Distribution, in_force: float) -> SafeString:
    """A column for each part of the scale of cosines, with lines at the threshold in force and the proposed one."""
    most = max((column.share for column in found.columns), default=0) or 1
    bars = format_html_join(
        "", _COLUMN, (_column_bar(place, column, most) for place, column in enumerate(found.columns))
    )
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
