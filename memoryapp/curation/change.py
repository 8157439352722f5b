"""A planned change of topics as a value, its bounds, and the errors that refuse one.

The text of every error is a sentence for the person who asked. What else they need to go on (the topics that took the
place of those they saw, the edits that come first) is an attribute of the error.
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
# What the column holds.
MOST_REASON_CHARS = 500
# Who merges where no person does. No operator is called so: names have no blanks.
MERGER = "merger agent"


@dataclass(frozen=True, slots=True)
class Change:
    """These topics ``out``, by number, and those ``put`` in over the same messages."""

    out: tuple[int, ...]
    put: tuple[TopicDraft, ...]


class CurationError(Exception):
    """The change is refused and nothing is written; the text is a sentence for people."""


class Stale(CurationError):
    """Somebody changed these topics meanwhile: ``successors`` says, by number, which live topics hold their
    messages now, the one with most of them first."""

    def __init__(self, sentence: str, successors: Mapping[int, tuple[int, ...]] | None = None) -> None:
        super().__init__(sentence)
        self.successors = dict(successors or {})


class Depends(CurationError):
    """Later ``edits`` stand on this one and have to be undone before it, in this order (newest first)."""

    def __init__(self, sentence: str, edits: Sequence[TopicEdit | KnowledgeEdit]) -> None:
        super().__init__(sentence)
        self.edits = tuple(edits)


class ByHand(CurationError):
    """A person decided about ``topics``, and what nobody watches does not overrule that."""

    def __init__(self, sentence: str, topics: Sequence[int]) -> None:
        super().__init__(sentence)
        self.topics = tuple(topics)


def named(ids: Sequence[int]) -> str:
    """The topics' names in a sentence, the first five of them."""
    shown = ", ".join(topic_id(number) for number in ids[:5])
    return shown if len(ids) <= 5 else _("%(topics)s and %(more)d more") % {"topics": shown, "more": len(ids) - 5}
