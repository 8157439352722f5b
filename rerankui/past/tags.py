"""Moments in links: the memory as it was at a run, and before and after a change."""

from datetime import datetime

from django import template

from memoryapp.curation.history import Record
from memoryapp.memory.past import just_before
from memoryapp.models import KnowledgeEdit
from rerankui.frame.rows import list_address
from rerankui.web.moment import PastMoment, written

register = template.Library()
register.filter("as_moment", written)


@register.simple_tag
def list_of(record: Record) -> str:
    """The list that shows what a change concerns."""
    return list_address(record.noun if isinstance(record, KnowledgeEdit) else "topic", record.owner_id)


@register.filter
def moment_before(at: datetime) -> str:
    return written(just_before(at))


@register.filter
def named_moment(text: str) -> str:
    """The same for a moment that a run has stored."""
    return written(datetime.fromisoformat(text))


@register.filter
def moment_words(text: str) -> str:
    """A moment that a run has stored, on the reader's clock."""
    return PastMoment(datetime.fromisoformat(text)).words
