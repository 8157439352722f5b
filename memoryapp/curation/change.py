"""A planned change of topics as a value, its bounds, and the errors that refuse a change.

The text of every error is a sentence for the person who asked. What they need in order to go on is an attribute of the
error: the topics that replaced those they saw, or the edits to undo first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from memoryapp.engine.memory import TopicDraft, topic_id
from memoryapp.models import KnowledgeEdit, TopicEdit

MOST_TOPICS = 200
MOST_MESSAGES = 20_000
MOST_SUMMARY_CHARS = 2_000
# The length of the database column.
MOST_REASON_CHARS = 500
# The actor of merges that no person made. It contains a blank, so no operator can have this name.
MERGER = "merger agent"


@dataclass(frozen=True, slots=True)
class Change:
    """Retire the topics ``out``, given by number, and create the topics ``put`` from the same messages."""

    out: tuple[int, ...]
    put: tuple[TopicDraft, ...]


class CurationError(Exception):
    """The change is refused and nothing was written; the text is a sentence for people."""


class Stale(CurationError):
    """Somebody changed these topics meanwhile. ``successors`` lists, by number, the live topics that hold their
    messages now; the topic with most of the messages is first."""

    def __init__(self, sentence: str, successors: Mapping[int, tuple[int, ...]] | None = None) -> None:
        super().__init__(sentence)
        self.successors = dict(successors or {})


class Depends(CurationError):
    """Later ``edits`` depend on this one. They have to be undone before it, in the given order (newest first)."""

    def __init__(self, sentence: str, edits: Sequence[TopicEdit | KnowledgeEdit]) -> None:
        super().__init__(sentence)
        self.edits = tuple(edits)


class ByHand(CurationError):
    """A person decided about ``topics``, and an automatic change may not overrule that."""

    def __init__(self, sentence: str, topics: Sequence[int]) -> None:
        super().__init__(sentence)
        self.topics = tuple(topics)


def named(ids: Sequence[int]) -> str:
    """The names of the first five topics, for a sentence."""
    shown = ", ".join(topic_id(number) for number in ids[:5])
    return shown if len(ids) <= 5 else _("%(topics)s and %(more)d more") % {"topics": shown, "more": len(ids) - 5}
