"""The queue of suggestions as people work through it: one at a time, each leased to the person who looks at it. A lease
ends two minutes after its holder's last request, so nobody has to release it. The first decision counts. Suggestions
about a topic that was retired meanwhile are closed, and opened again when the topic comes back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp import curation
from memoryapp.curation import ChangeRequest, CurationError
from memoryapp.curation.change import MERGER
from memoryapp.curation.settling import SuggestionDecided, close, decision_words, settle
from memoryapp.curation.suggestions.consolidation import verdict_in, verdict_of
from memoryapp.curation.undoing import in_effect, undo
from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.models import ChatUser, Suggestion, Topic, TopicEdit
from memoryapp.platform.database import lease_holds

LEASE = timedelta(minutes=2)

State = Suggestion.State


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How many suggestions are open, and how many people have decided."""

    open: int
    decided: int


def opened(owner: ChatUser) -> QuerySet[Suggestion]:
    """Open suggestions, best first."""
    rows = Suggestion.objects.filter(owner=owner, state=State.OPEN)
    return rows.select_related("held_by").order_by("-score", "-pk")


def progress(owner: ChatUser) -> QueueProgress:
    rows = Suggestion.objects.filter(owner=owner).exclude(decided_by=MERGER)
    return QueueProgress(
        rows.filter(state=State.OPEN).count(), rows.filter(state__in=(State.ACCEPTED, State.NEVER)).count()
    )


def topics_of(suggestions: Iterable[Suggestion]) -> dict[int, Topic]:
    """The topics they are about, by number: one query."""
    wanted = {(each.owner_id, number) for each in suggestions for number in each.topics}
    owners = {owner for owner, _number in wanted}
    return Topic.objects.filter(owner__in=owners).in_bulk({number for _owner, number in wanted})


def holder(suggestion: Suggestion) -> User | None:
    """The person who works on it now."""
    holds = suggestion.held_at is not None and abs(timezone.now() - suggestion.held_at) <= LEASE
    return suggestion.held_by if holds else None


def lease(suggestion: Suggestion, user: User) -> User | None:
    """Leases the suggestion to the user for two minutes, or renews the lease. Returns the holder. The holder is
    somebody else if they were first, and nobody if the suggestion is no longer open."""
    free = Suggestion.objects.filter(_free_for(user), pk=suggestion.pk, state=State.OPEN)
    free.update(held_by=user, held_at=timezone.now())
    suggestion.refresh_from_db(fields=("state", "held_by", "held_at"))
    return holder(suggestion)


def release(suggestion: Suggestion, user: User) -> None:
    """Ends the lease of this user, if they hold it."""
    Suggestion.objects.filter(pk=suggestion.pk, held_by=user).update(held_by=None, held_at=None)


@transaction.atomic
def next_open(owner: ChatUser, user: User, after: Suggestion | None = None) -> Suggestion | None:
    """The best suggestion, or the one after ``after``, that nobody else holds; it is leased to this user. After the
    last one it continues with the first."""
    settle(owner)
    free = opened(owner).filter(_free_for(user)).select_for_update(skip_locked=True, of=("self",))
    found = None
    if after is not None:
        found = free.filter(Q(score__lt=after.score) | Q(score=after.score, pk__lt=after.pk)).first()
    found = found or free.first()
    if found is not None:
        found.held_by, found.held_at = user, timezone.now()
        found.save(update_fields=("held_by", "held_at"))
    return found


def _free_for(user: User) -> Q:
    return Q(held_by=None) | Q(held_by=user) | ~lease_holds("held_at", LEASE)


def decide(suggestion: Suggestion, state: Suggestion.State, *, actor: str, edit: TopicEdit | None = None) -> Suggestion:
    """Closes one suggestion as ``close`` does. Raises SuggestionDecided."""
    return close(suggestion.owner, [suggestion], state, actor=actor, edit=edit)[0]


@transaction.atomic
def take_back(suggestion: Suggestion, *, actor: str) -> Suggestion:
    """Undoes the edit that accepted the suggestion, if it is in effect, and opens the suggestion again. Raises Depends
    when later edits depend on that edit, SuggestionDecided when the topics no longer exist."""
    edit = suggestion.edit
    if edit is not None and in_effect(suggestion.owner_id, [edit.pk]).get(edit.pk):
        undo(suggestion.owner, edit, actor=actor)
    return reopen(suggestion)


@transaction.atomic
def reopen(suggestion: Suggestion) -> Suggestion:
    """Takes back a decision that changed no topics; others are taken back by ``curation.undo`` of their edit. Raises
    SuggestionDecided when that edit is in effect, or the topics no longer exist."""
    Suggestion.objects.filter(pk=suggestion.pk, edit=None).update(state=State.OPEN, decided_by="", decided_at=None)
    settle(suggestion.owner)
    suggestion.refresh_from_db()
    if suggestion.state != State.OPEN:
        raise SuggestionDecided(decision_words(suggestion))
    return suggestion


# Clusters: topics that suggested merges connect, as one decision, and many of them as one.
#
# The topics of a cluster that a person leaves ticked become one topic by one edit, which accepts every suggestion
# among them; its undo opens all of these again.

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
    """Makes one topic of these and accepts every open suggestion among them. Raises CurationError, Stale: where no
    suggestion connects two of them, where somebody else works on one, and what a merge raises; then nothing is
    changed."""
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
    Each is a change of its own: what cannot be merged is left open."""
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


# The reasons for a suggestion, in sentences for people, made from the numbers that were stored with it.

_DAY = 86_400


def reasons(suggestion: Suggestion) -> list[str]:
    """Sentences in the active language, the most telling reason first."""
    words = _merge if suggestion.kind == Suggestion.Kind.MERGE else _split
    return list(words(suggestion.evidence))


def _merge(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield from _verdict(verdict_in(evidence))
    near = {"similarity": _two_digits(evidence["similarity"]), "threshold": _two_digits(evidence["threshold"])}
    if evidence["similarity"] >= evidence["threshold"]:
        yield _("They are about the same: similarity %(similarity)s; pairs are suggested from %(threshold)s up.") % near
    else:
        yield _("They lie near each other, and what they share adds to it: similarity %(similarity)s.") % near
    if evidence["people"]:
        yield _("Both speak of %(people)s.") % {"people": ", ".join(evidence["people"])}
    together = evidence["together"]
    if together:
        yield ngettext(
            "%(together)d of the last %(runs)d runs chose both.",
            "%(together)d of the last %(runs)d runs chose both.",
            together,
        ) % {"together": together, "runs": evidence["runs"]}
    if (days := evidence["days_apart"]) < 1:
        yield _("They were talked about on the same day.")
    else:
        yield ngettext("%(days)d day lies between them.", "%(days)d days lie between them.", days) % {"days": days}
    yield _("Merged they have %(chars)s characters.") % {"chars": _whole(evidence["size_chars"])}


def _verdict(verdict: MergeVerdict | None) -> Iterator[str]:
    if verdict is None:
        return
    if verdict.should_merge:
        yield _("The merger would make them one: %(reason)s") % {"reason": verdict.reason}
        if verdict.fault:
            yield _("Its summary could not be used, so a person decides; the proposed one quotes the messages.")
    elif verdict.reason:
        yield _("The merger would keep them apart: %(reason)s") % {"reason": verdict.reason}
    else:
        yield _("The merger would keep them apart.")


def _split(evidence: Mapping[str, Any]) -> Iterator[str]:
    size, limit = evidence["size_chars"], evidence["limit"]
    if size > limit:
        chars = {"chars": _whole(size), "limit": _whole(limit)}
        yield _("It has %(chars)s characters; above %(limit)s only excerpts are handed over.") % chars
    if evidence["similarity"] < evidence["usual"]:
        near = {"similarity": _two_digits(evidence["similarity"]), "usual": _two_digits(evidence["usual"])}
        yield (
            _("Its parts are no more similar than different topics are: similarity %(similarity)s, usually %(usual)s.")
            % near
        )
    gain = {"percent": round(100 * evidence["gain"])}
    yield _("How well two parts divide it: %(percent)d of 100, where 100 means that they share nothing.") % gain
    if evidence["pause_seconds"] >= _DAY:
        days = int(evidence["pause_seconds"] // _DAY)
        yield ngettext("The talk paused for %(days)d day there.", "The talk paused for %(days)d days there.", days) % {
            "days": days
        }
    yield _("Parts: %(parts)s messages.") % {"parts": " + ".join(str(count) for count, _chars in evidence["parts"])}


def _two_digits(value: float) -> str:
    return number_format(round(value, 2), decimal_pos=2)


def _whole(value: int) -> str:
    return number_format(value, force_grouping=True)
