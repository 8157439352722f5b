"""Entries of the history: where they lead, and how the list is narrowed less."""

from __future__ import annotations

from collections.abc import Mapping

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryapp.history import Entry
from memoryapp.models import KnowledgeEdit, TopicEdit
from rerankui.change_words import actor_words
from rerankui.rows import page_address, row_id

register = template.Library()


@register.simple_tag
def undo_url(record: TopicEdit | KnowledgeEdit) -> str:
    name = "undo_preview" if isinstance(record, TopicEdit) else "undo_change"
    return reverse(name, args=[record.owner_id, record.pk])


@register.simple_tag
def row_chip(noun: str, number: str | int, entry: Entry) -> SafeString:
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
def who(actor: str) -> str:
    return actor_words(actor)


@register.filter
def of(values: Mapping[int, int], key: int) -> int:
    return values.get(key, 0)
