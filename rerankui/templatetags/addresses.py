"""Addresses of topics and active sessions, by their ids as runs name them."""

from uuid import UUID

from django import template
from django.urls import reverse

from memoryapp.engine.memory import is_session, parse_document_id, parse_topic_id
from rerankui.frame.rows import page_address

register = template.Library()
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
