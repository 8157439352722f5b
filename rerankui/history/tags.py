"""Entries of the history: where they lead, and how the list is narrowed less."""

from collections.abc import Mapping

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from memoryapp.curation.history import HistoryEntry
from memoryapp.engine.agents import AGENTS
from memoryapp.engine.prompts.prompt import INSTRUCTION_LANGUAGES
from memoryapp.models import TopicEdit
from rerankui.curation.change_form import actor_words
from rerankui.frame.rows import page_address, row_id
from rerankui.frame.toasts import undo_address
from rerankui.runs.page.outcomes import NO_ANSWER
from rerankui.text.differences import DifferenceRow, TextLine

register = template.Library()
register.filter("who", actor_words)
register.simple_tag(undo_address, name="undo_url")


@register.simple_tag
def row_chip(noun: str, number: str | int, entry: HistoryEntry) -> SafeString:
    """``Person:5``, which opens its page; plain and struck through when there is no such row any more."""
    name = row_id(noun, number)
    if str(number) not in entry.there:
        return format_html('<span class="chip chip-retired">{}</span>', name)
    return format_html('<a class="chip" href="{}">{}</a>', page_address(noun, entry.record.owner_id, int(number)), name)


@register.simple_tag(takes_context=True)
def querystring_without(context: Context, name: str) -> str:
    """The address without this filter, from its first page."""
    query = context["request"].GET.copy()
    for gone in (name, "before", "after"):
        query.pop(gone, None)
    return f"?{query.urlencode()}"


@register.filter
def segmented(edit: TopicEdit) -> str:
    """That the segmenter cut an archived session into topics, and why; empty where somebody else did."""
    if edit.kind != TopicEdit.Kind.ARCHIVE or (edit.reason and not edit.call):
        return ""
    if edit.call is None:
        return _("Cut by the embedded segmenter.")
    if edit.call.outcome:
        return _("Cut by the embedded segmenter, for the model failed (%(outcome)s).") % {
            "outcome": agent_outcome(edit.call.outcome)
        }
    return ""


@register.filter
def of(values: Mapping[int, int], key: int) -> int:
    return values.get(key, 0)


@register.simple_tag
def agent_name(agent: str) -> str:
    """As a title; the stored name of an agent that there is no more."""
    return capfirst(_(AGENTS[agent].label)) if agent in AGENTS else agent


@register.filter
def agent_outcome(code: str) -> str | Promise:
    """Why an agent got no answer, in two words."""
    return NO_ANSWER.get(code, code)


@register.filter
def prompt_address(label: str) -> str:
    """Where the prompt of ``split-en-3`` can be read; empty for a label of another form."""
    name, _dash, rest = label.partition("-")
    language, _dash, version = rest.partition("-")
    if language not in INSTRUCTION_LANGUAGES or not version.isdecimal():
        return ""
    return reverse("prompt_version", args=[name, language, int(version)])


@register.filter
def removed_line(row: DifferenceRow) -> SafeString | str:
    """The old side of two texts' difference: its sign, and the line with what is gone in ``<del>``."""
    return _side(row.old, "" if row.kind == "same" else "−", "<del>{}</del>")


@register.filter
def added_line(row: DifferenceRow) -> SafeString | str:
    """The new side: its sign, and the line with what has come in ``<ins>``."""
    return _side(row.new, "" if row.kind == "same" else "+", "<ins>{}</ins>")


def _side(line: TextLine | None, sign: str, form: str) -> SafeString | str:
    return format_html('<span class="diff-sign">{}</span>{}', sign, _words(line, form)) if line else ""


@register.filter
def removed_words(row: DifferenceRow) -> SafeString | str:
    """The old side of a summary's difference without a sign, all of it in ``<del>`` where the whole line is gone."""
    return _words(row.old, "<del>{}</del>", is_whole=row.kind == "removed") if row.old else ""


@register.filter
def added_words(row: DifferenceRow) -> SafeString | str:
    return _words(row.new, "<ins>{}</ins>", is_whole=row.kind == "added") if row.new else ""


def _words(line: TextLine, form: str, *, is_whole: bool = False) -> SafeString:
    """No template writes this, for a line break between two spans would be a blank inside a word."""
    spans = ((format_html(form, span.text) if is_whole or span.is_changed else span.text,) for span in line.spans)
    return format_html_join("", "{}", spans)
