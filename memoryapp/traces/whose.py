"""Whose memory a trace belongs to, as its spans name the chat user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from memoryapp.importers.record import clean
from memoryapp.traces.span import SentSpan, text_of

# OpenInference, OpenTelemetry's registry, its former name, the AI SDK; metadata of LangChain is JSON and not searched.
_USERS = ("mnemoscope.user", "user.id", "enduser.id", "ai.telemetry.metadata.userId")
_SESSIONS = ("session.id", "gen_ai.conversation.id", "ai.telemetry.metadata.sessionId")
LONGEST_NAME = 200


def user_of_spans(spans: Sequence[SentSpan]) -> str:
    """The chat user that spans of a trace name, or their resource does; empty if none does."""
    own = (text_of(span.attributes.get(name)) for name in _USERS for span in spans)
    shared = (text_of(span.resource.get(name)) for name in _USERS for span in spans)
    return _first(chain(own, shared))


def session_of_spans(spans: Sequence[SentSpan]) -> str:
    """The conversation that spans of a trace name; it stands for a chat user where nothing else does."""
    return _first(text_of(span.attributes.get(name)) for name in _SESSIONS for span in spans)


def _first(names: Iterable[str]) -> str:
    return next((found for name in names if (found := clean(name).strip()[:LONGEST_NAME])), "")
