"""What the page of one topic shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from memoryapp.browsing.neighbours import Neighbour
from memoryapp.browsing.topic_runs import TopicRuns
from memoryapp.curation import Lineage
from memoryapp.models import Artifact, ChatUser, Fact, Message, Topic, TopicEdit
from rerankui.history.entry_views import EntryView
from rerankui.pages import Page, PageContext
from rerankui.text.minimap import Mark
from rerankui.text.talk import TalkMessage


@dataclass(frozen=True, slots=True)
class TopicTalk(PageContext):
    """What a topic says: its summary and a page of its messages, which are the same at every moment.

    ``title`` is what the summary begins with, ``more`` the rest; ``place`` is the number of messages on earlier pages.
    """

    owner: ChatUser
    topic: Topic
    title: str
    more: str
    page: Page[Message]
    place: int
    talk: Sequence[TalkMessage]
    minimap: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class RowChanges(PageContext):
    """The last changes of a row, each with its way back unless the reader looks at an earlier moment."""

    changes: Sequence[EntryView]
    has_older: bool
    row_id: str
    may_change: bool = False


@dataclass(frozen=True, slots=True)
class TopicPage(PageContext):
    """What stands beside the talk of a topic: its past, its neighbours, what was noted of it, the runs that met it.

    The page of an earlier moment permits nothing, and has no neighbours: only topics of today are compared.
    ``is_outdated``: the summary was written for other messages.
    """

    said: TopicTalk
    history: RowChanges
    lineage: Lineage
    seen: TopicRuns
    facts: Sequence[Fact] | QuerySet[Fact]
    artifacts: QuerySet[Artifact]
    made_by: TopicEdit | None
    made_again: bool
    successors: Sequence[Topic] = ()
    has_vector: bool = True
    neighbours: Sequence[Neighbour] = ()
    may_curate: bool = False
    may_erase: bool = False
    is_past: bool = False
    is_outdated: bool = False

    def names(self, **more: Any) -> dict[str, Any]:
        """Its own names beside those of the talk and the changes."""
        return {**self.said.names(), **self.history.names(), **PageContext.names(self, **more)}


def maker(lineage: Lineage) -> TopicEdit | None:
    """The edit that the topic lives by, when a way leads back from it."""
    last = lineage.edits[0] if lineage.edits else None
    return last if last and last.kind != TopicEdit.Kind.ARCHIVE else None


def is_outdated(topic: Topic, lineage: Lineage) -> bool:
    """Whether the edit that it lives by changed its messages and left the summary as it was."""
    last = maker(lineage)
    if last is None or last.kind == TopicEdit.Kind.UNDO or not topic.summary:
        return False
    return any(
        parent.summary == topic.summary and parent.message_count != topic.message_count for parent in lineage.parents
    )
