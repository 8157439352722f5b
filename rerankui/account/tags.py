"""The record of changes of operators, in words."""

from collections.abc import Mapping

from django import template
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy

from memoryapp.platform.accounts.operators import RecordedChange

register = template.Library()

_FIELDS: Mapping[str, Promise] = {
    "role": pgettext_lazy("changed", "role"),
    "memories": pgettext_lazy("changed", "memories"),
    "access": pgettext_lazy("changed", "right to sign in"),
    "password": pgettext_lazy("changed", "password"),
}


@register.simple_tag
def recorded(change: RecordedChange) -> SafeString:
    """A sentence: who made an operator, or changed what of one."""
    names = {"by": format_html("<b>{}</b>", change.by), "whom": format_html("<b>{}</b>", change.whom)}
    if change.is_new:
        return format_html(_("{by} made {whom} an operator"), **names)
    what = format_lazy("{}", ", ".join(str(_FIELDS.get(field, field)) for field in change.what))
    return format_html(_("{by} changed {whom}: {what}"), what=what, **names)
