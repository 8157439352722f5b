"""Clusters: topics that suggested merges connect, as one decision, and many of them as one.

The topics of a cluster that a person leaves ticked become one topic by one edit, which accepts every suggestion among
them; its undo opens all of these again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import ChangeRequest, CurationError
from memoryapp.curation.deciding import SuggestionDecided, close
from memoryapp.curation.settling import settle
from memoryapp.models import ChatUser, Suggestion, Topic, TopicEdit
from memoryapp.suggestions.queue import holder, opened
from memoryapp.suggestions.verdicts import verdict_of

# The best suggestions are clustered; a memory seldom has more open ones.
MOST_CLUSTERED = 1_000
# More topics are no one decision: a chain of pairs may lead far away.
MOST_TOPICS = 50
# Merges of one request.
MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class TopicCluster:
    """``topics`` are live ones, the oldest first, ``rows`` the open suggestions among them, the best first."""

    topics: tuple[Topic, ...]
    rows: tuple[Suggestion, ...]

    @property
    def best(self) -> float:
        return self.rows[0].score

    @property
    def least(self) -> float:
        return self.rows[-1].score

    @property
    def chars(self) -> int:
        return sum(topic.size_chars for topic in self.topics)

    @property
    def messages(self) -> int:
        return sum(topic.message_count for topic in self.topics)

    @property
    def fits(self) -> bool:
        """Whether it may become one topic without a person looking at it."""
        return len(self.topics) <= MOST_TOPICS and self.chars <= settings.MAX_MERGED_SIZE_CHARS


@dataclass(frozen=True, slots=True)
class AcceptedClusters:
    """The ``edits`` that merged clusters; ``left`` counts those that did not fit or could not be merged."""

    edits: tuple[TopicEdit, ...]
    left: int


def clusters(owner: ChatUser, least: float = 0.0) -> list[TopicCluster]:
    """The clusters of open merges with at least this score, the best first. Two queries."""
    rows = opened(owner).filter(kind=Suggestion.Kind.MERGE, score__gte=least)[:MOST_CLUSTERED]
    return _clusters(owner, list(rows))


def _clusters(owner: ChatUser, rows: Sequence[Suggestion]) -> list[TopicCluster]:
    leader = _joined(tuple(row.topics) for row in rows)
    groups: dict[int, list[Suggestion]] = {}
    for row in rows:
        groups.setdefault(leader[row.topics[0]], []).append(row)
    topics = Topic.objects.of(owner).live().in_bulk({number for row in rows for number in row.topics})
    found = (_cluster(together, topics) for together in groups.values())
    return [cluster for cluster in found if len(cluster.topics) > 1]


def _cluster(rows: Sequence[Suggestion], topics: Mapping[int, Topic]) -> TopicCluster:
    members = {number: topics[number] for row in rows for number in row.topics if number in topics}
    return TopicCluster(tuple(sorted(members.values(), key=lambda topic: (topic.started_at, topic.pk))), tuple(rows))


def _joined(groups: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """For each number, one that is the same for all that are connected."""
    above: dict[int, int] = {}

    def top(number: int) -> int:
        while above.setdefault(number, number) != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    for group in groups:
        for number in group:
            above[top(number)] = top(group[0])
    return {number: top(number) for number in list(above)}


@transaction.atomic
def merge_cluster(owner: ChatUser, numbers: Sequence[int], user: User) -> TopicEdit:
    """Makes one topic of these and accepts every open suggestion among them.

    Raises CurationError, Stale: where no suggestion connects two of them, where somebody else works on one, and what a
    merge raises; then nothing is changed.
    """
    asked = set(numbers)
    found = opened(owner).filter(kind=Suggestion.Kind.MERGE).order_by("pk").select_for_update(of=("self",))
    rows = [row for row in found if asked.issuperset(row.topics)]
    if not rows:
        raise SuggestionDecided(_("Nothing that is suggested connects these topics any more."))
    if others := {str(working) for row in rows if (working := holder(row)) and working != user}:
        raise CurationError(
            _("%(holder)s works on this one right now; nothing was decided.") % {"holder": ", ".join(sorted(others))}
        )
    wanted = ChangeRequest(curation.MERGE, owner, tuple(numbers), summaries=_summaries(rows, asked))
    return curation.make(wanted, actor=user.get_username(), accepts=rows).edit


def _summaries(rows: Sequence[Suggestion], asked: set[int]) -> tuple[str, ...]:
    """What the merger wrote for exactly these topics; empty where it did not."""
    verdicts = (verdict_of(row) for row in rows if asked == set(row.topics))
    return tuple(verdict.summary for verdict in verdicts if verdict and verdict.summary)[:1]


def accept_from(owner: ChatUser, least: float, user: User) -> AcceptedClusters:
    """Merges each cluster of suggestions with at least this score, at most ``MOST_AT_ONCE`` of them, the best first.

    Each is a change of its own: what cannot be merged is left open.
    """
    found = clusters(owner, least)
    fitting = [cluster for cluster in found if cluster.fits][:MOST_AT_ONCE]
    edits = tuple(_merges(owner, fitting, user))
    return AcceptedClusters(edits, len(found) - len(edits))


def _merges(owner: ChatUser, found: Iterable[TopicCluster], user: User) -> Iterator[TopicEdit]:
    for cluster in found:
        try:
            yield merge_cluster(owner, [topic.pk for topic in cluster.topics], user)
        except CurationError:
            continue


@transaction.atomic
def decline_cluster(owner: ChatUser, numbers: Sequence[int], user: User) -> list[int]:
    """Declines for good every open merge among these topics; returns the suggestions' numbers."""
    asked = set(numbers)
    found = opened(owner).filter(kind=Suggestion.Kind.MERGE).select_for_update(of=("self",))
    rows = [row for row in found if asked.issuperset(row.topics) and (holder(row) or user) == user]
    close(owner, rows, Suggestion.State.NEVER, actor=user.get_username())
    settle(owner)
    return [row.pk for row in rows]


def take_back_edits(owner: ChatUser, edits: Sequence[TopicEdit], *, actor: str) -> int:
    """Undoes those of the edits that are in effect, the latest first; their suggestions are open again. Returns how
    many; one that a later edit depends on stays."""
    standing = curation.in_effect(owner.pk, [edit.pk for edit in edits])
    undone = 0
    for edit in sorted(edits, key=lambda edit: edit.pk, reverse=True):
        if standing.get(edit.pk):
            undone += _undone(owner, edit, actor)
    return undone


def _undone(owner: ChatUser, edit: TopicEdit, actor: str) -> bool:
    try:
        curation.undo(owner, edit, actor=actor)
    except CurationError:
        return False
    return True
