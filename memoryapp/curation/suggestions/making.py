"""Makes and stores suggestions: topics that look like one, or like several, and about which nobody has decided. Reading
and comparing takes seconds in a large memory and locks nothing. Only storing is a transaction, in which processes that
suggest for one owner wait for each other. A suggestion has a key and is stored once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import combinations, pairwise, product
from typing import Any, TypeVar

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from numpy.typing import NDArray

from memoryapp.curation import rescoring
from memoryapp.curation.lineage import successors
from memoryapp.curation.operations import RESPLIT, SPLIT
from memoryapp.curation.rescoring import halves, message_passages
from memoryapp.curation.settling import settle
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.text.lexical import Floats, Indices, Matches
from memoryapp.models import ChatUser, EditedTopic, EmbeddingProfile, Person, Suggestion, Topic, TopicVector
from memoryapp.platform import database, metrics
from memoryapp.platform.statements import fetched
from memoryapp.platform.webhooks.announcing import announce_waiting
from memoryapp.search.columns import Ids, int64s

# Finds pairs of topics that look like one: near in meaning, with bonuses for people and selections that they share.
#
# Some hundred topics at a time are compared with all of the owner's, as one product of matrices; only the nearest few
# of each are examined further. Shared people, or having been selected together, raise a pair whose similarity is
# almost sufficient.

# What a shared person or a common selection adds to the similarity, and up to how many count.
_LIFT, _MOST_LIFTS = 0.02, 3
# A person who is mentioned in more than this share of the compared topics says nothing about two of them.
_COMMON_SHARE = 0.25
_PEOPLE = 300
_PEOPLE_LISTED = 5
_RUNS = 300
# Rows of one product, so that it needs only tens of megabytes in the largest memory.
_AT_ONCE = 128

_SQL = table_beside(__file__)
CHOSEN: str = _SQL["chosen"]

Pair = tuple[int, int]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Merge:
    """Two topics, the older first, and the reasons why they may be one."""

    topics: Pair
    score: float
    similarity: float
    people: tuple[str, ...]
    together: int
    runs: int
    size_chars: int
    days_apart: int


@dataclass(frozen=True, slots=True)
class TopicVectors:
    """Live topics to compare: ids and lengths in characters, shape (n,), and as ``matrix`` unit vectors, (n,
    dimensions). Each of the first ``asked`` topics is compared with all."""

    ids: Ids
    sizes: Ids
    matrix: Floats
    asked: int


def merges(owner_id: int, vectors: TopicVectors, never: frozenset[Pair], threshold: float) -> list[Merge]:
    """Pairs of a topic in question and any other, at least ``threshold`` similar, best first, without ``never``."""
    near = dict(_near_pairs(vectors, never, threshold - _LIFT * _MOST_LIFTS))
    alike = Counter(number for pair in near for number in pair)
    metrics.compared((alike[number] for number in vectors.ids[: vectors.asked].tolist()), owner_id)
    topics = Topic.objects.of(owner_id).live().in_bulk({number for pair in near for number in pair})
    # One of a pair may have been retired meanwhile.
    near = {pair: similarity for pair, similarity in near.items() if topics.keys() >= set(pair)}
    near = {pair: each for pair, each in near.items() if topics[pair[0]].project == topics[pair[1]].project}
    people = _people(owner_id, {number: topics[number] for pair in near for number in pair})
    # For each of the last runs, the live topics that hold what it selected.
    runs = [
        list(filter(None, map(parse_topic_id, names)))
        for (names,) in fetched(CHOSEN, {"owner": owner_id, "most": _RUNS})
    ]
    live = successors(owner_id, _every(runs))
    chosen = [{holders[0] for number in run if (holders := live.get(number))} for run in runs]
    together = Counter(pair for choice in chosen for pair in combinations(sorted(choice), 2))
    found = (_suggested_merge(topics, pair, near[pair], people, together, len(chosen)) for pair in near)
    enough = [merge for merge in found if merge.score >= threshold]
    return sorted(enough, key=lambda merge: (-merge.score, merge.topics))


def _near_pairs(vectors: TopicVectors, never: frozenset[Pair], least: float) -> Iterator[tuple[Pair, float]]:
    """Pairs with at least that similarity that are not too long together: for each topic the nearest few."""
    ids = vectors.ids
    count = min(settings.CONSOLIDATION_BATCH_SIZE, len(ids) - 1)
    if count < 1:
        return
    for first in range(0, vectors.asked, _AT_ONCE):
        asked = np.arange(first, min(first + _AT_ONCE, vectors.asked))
        cosines = _cosines(vectors, asked)
        nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        rows, columns = np.nonzero(np.take_along_axis(cosines, nearest, axis=1) >= least)
        for row, other in zip(rows.tolist(), nearest[rows, columns].tolist(), strict=True):
            one = asked[row]
            pair = (int(min(ids[one], ids[other])), int(max(ids[one], ids[other])))
            if pair not in never:
                yield pair, float(cosines[row, other])


def _cosines(vectors: TopicVectors, asked: Indices) -> Floats:
    """The cosine of each of the ``asked`` topics with all topics, shape (asked, n); -1 where two cannot be one."""
    sizes = vectors.sizes
    cosines: Floats = vectors.matrix[asked] @ vectors.matrix.T
    cosines[np.arange(len(asked)), asked] = -1
    cosines[sizes[asked][:, None] + sizes[None, :] > settings.MAX_MERGED_SIZE_CHARS] = -1
    return cosines


def _suggested_merge(
    topics: Mapping[int, Topic],
    pair: Pair,
    similarity: float,
    people: Mapping[int, frozenset[str]],
    together: Mapping[Pair, int],
    runs: int,
) -> Merge:
    older, newer = sorted((topics[number] for number in pair), key=lambda topic: (topic.started_at, topic.pk))
    shared = sorted(people.get(older.pk, frozenset()) & people.get(newer.pk, frozenset()))
    lifts = min(len(shared) + together.get(pair, 0), _MOST_LIFTS)
    return Merge(
        topics=(older.pk, newer.pk),
        score=round(similarity + _LIFT * lifts, 4),
        similarity=round(similarity, 4),
        people=tuple(shared[:_PEOPLE_LISTED]),
        together=together.get(pair, 0),
        runs=runs,
        size_chars=older.size_chars + newer.size_chars,
        days_apart=max((newer.started_at.date() - older.ended_at.date()).days, 0),
    )


def _people(owner_id: int, topics: Mapping[int, Topic]) -> dict[int, frozenset[str]]:
    """The people mentioned in each of these topics, without those who are mentioned everywhere or known from another
    project."""
    known = list(Person.objects.filter(owner=owner_id).order_by("-mention_count", "pk")[:_PEOPLE]) if topics else []
    if not known:
        return {}
    names = [(person.display_name, name) for person in known for name in _names(person)]
    ids = rescoring.passages(owner_id).ids
    terms = rescoring.terms_of([name for _called, name in names])
    matches, rows = rescoring.term_matches(owner_id, ids, terms), message_passages(owner_id, ids)
    found: dict[str, set[int]] = {}
    for (called, _name), stems in zip(names, terms, strict=True):
        places = _holding_all([matches.get(stem) for stem in stems])
        spoken_of = set(np.unique(rows.topics[np.isin(rows.places, places)]).tolist()) if len(places) else set()
        found.setdefault(called, set()).update(spoken_of & topics.keys())
    telling = {name: where for name, where in found.items() if len(where) <= max(2, _COMMON_SHARE * len(topics))}
    of = {person.display_name: person.project for person in known}
    return {
        number: frozenset(
            name for name, where in telling.items() if number in where and of[name] in ("", topic.project)
        )
        for number, topic in topics.items()
    }


def _names(person: Person) -> list[str]:
    aliases = person.aliases if isinstance(person.aliases, list) else []
    return [name for name in (person.display_name, *map(str, aliases)) if len(name) > 2]


def _holding_all(matches: Sequence[Matches | None]) -> Indices:
    """The passages that contain all of some words; none when there are no words."""
    found = [each.documents for each in matches if each]
    return reduce(np.intersect1d, found) if found and len(found) == len(matches) else np.zeros(0, np.intp)


def _every(runs: Iterable[Iterable[int]]) -> set[int]:
    return {number for run in runs for number in run}


# Finds topics that look like several: too long, about two subjects, or resumed after a long pause.
#
# A cut is between two exchanges. The best cut explains most of the difference between the exchanges' vectors, as in
# 2-means with consecutive parts. The two parts are then compared with the usual nearness of different topics of this
# memory, because no fixed number fits every embedding model.

# The mean of fewer messages is not worth comparing; a topic that is too long is cut anyway.
LEAST_MESSAGES = 6
LONG_PAUSE = 3 * 86_400.0
_MOST_PARTS = 20
# How many messages' vectors are in memory at once.
_SPLITS_AT_ONCE = 4_000

MESSAGES: str = _SQL["messages"]
MERGED: str = _SQL["merged"]


@dataclass(frozen=True, slots=True)
class Split:
    """A topic, the messages ``at`` which new parts would begin, and the reasons. ``gain`` in [0, 1] is the share of the
    variance that the parts explain, ``similarity`` that of the two parts of the first cut, ``usual`` that of different
    topics; ``parts`` are messages and characters of each part."""

    topic: int
    score: float
    at: tuple[int, ...]
    size_chars: int
    gain: float
    similarity: float
    usual: float
    pause_seconds: float
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Nearness:
    """Cosines in this memory and profile: ``usual`` for two different topics, ``apart`` below which no bonus makes two
    a suggested merge."""

    usual: float
    apart: float


@dataclass(frozen=True, slots=True)
class _TopicMessages:
    """The n messages of a topic in order; ``vectors`` has shape (n, dimensions), the other arrays (n,)."""

    ids: Ids
    at: Floats
    sizes: Ids
    passages: Ids
    vectors: Floats

    def part(self, start: int, end: int) -> _TopicMessages:
        cut = slice(start, end)
        return _TopicMessages(self.ids[cut], self.at[cut], self.sizes[cut], self.passages[cut], self.vectors[cut])

    def joined(self, other: _TopicMessages) -> _TopicMessages:
        """Both in one order."""
        pairs = [(getattr(self, name), getattr(other, name)) for name in ("ids", "at", "sizes", "passages", "vectors")]
        ids, at, *others = (np.concatenate(pair) for pair in pairs)
        order = np.lexsort((ids, at))
        return _TopicMessages(ids[order], at[order], *(each[order] for each in others))

    def borders(self, least: int) -> NDArray[np.intp]:
        """Where a part may begin: not inside an exchange, and with at least ``least`` messages on either side."""
        begins = np.flatnonzero(np.diff(self.passages)) + 1
        return begins[(begins >= least) & (begins <= len(self.ids) - least)]


@dataclass(frozen=True, slots=True)
class _Cut:
    at: int
    gain: float
    similarity: float


def splits(owner_id: int, topics: Sequence[Topic], profile: int, near: Nearness, most: int) -> list[Split]:
    """The best ``most`` of ``topics`` to split, best first; none that a merge made within its bound."""
    named = [topic.pk for topic in topics if _may_be_cut(topic)]
    merged = frozenset(
        number
        for (number,) in fetched(MERGED, {"owner": owner_id, "topics": named, "most": settings.MAX_MERGED_SIZE_CHARS})
    )
    apart = [topic for topic in topics if topic.pk not in merged]
    cut = filter(_may_be_cut, apart)
    found = (_suggested_split(topic, messages, near) for topic, messages in _messages_of(owner_id, list(cut), profile))
    return sorted((split for split in found if split), key=lambda split: (-split.score, split.topic))[:most]


def lasting(owner_id: int, found: Sequence[Merge], profile: int, near: Nearness) -> list[Merge]:
    """Those of ``found`` in whose messages, of either topic or together, the splitter finds no two subjects."""
    numbers = {number for merge in found for number in merge.topics}
    counts = dict(Topic.objects.of(owner_id).filter(pk__in=numbers).values_list("pk", "message_count"))
    kept: list[Merge] = []
    for group in _groups(found, lambda merge: sum(counts.get(number, 0) for number in merge.topics)):
        topics = Topic.objects.of(owner_id).filter(pk__in={number for merge in group for number in merge.topics})
        messages = {topic.pk: own for topic, own in _messages_of(owner_id, list(topics), profile)}
        kept += [
            merge
            for merge in group
            if not _would_be_cut([messages[each] for each in merge.topics if each in messages], near)
        ]
    return kept


def _would_be_cut(topics: Sequence[_TopicMessages], near: Nearness) -> bool:
    # Of messages without a vector nothing is known; a topic that was erased meanwhile is left out later.
    if len(topics) < 2 or not all(len(topic.ids) and topic.vectors.any(axis=1).all() for topic in topics):
        return False
    return any(_telling_cut(part, near) for part in (*topics, reduce(_TopicMessages.joined, topics)))


def _suggested_split(topic: Topic, messages: _TopicMessages, near: Nearness) -> Split | None:
    long = _is_long(topic)
    if topic.locked_by_hand and not long:
        # A person put it together or left it that way, knowing what it is about.
        return None
    cut = _best_cut(messages, messages.borders(1)) if long else _telling_cut(messages, near)
    if cut is None:
        return None
    at = _cuts(messages, cut) if long else [cut.at]
    borders = [0, *at, len(messages.ids)]
    return Split(
        topic=topic.pk,
        score=round(cut.gain + long * topic.size_chars / settings.SPLIT_THRESHOLD_CHARS, 4),
        at=tuple(int(messages.ids[place]) for place in at),
        size_chars=topic.size_chars,
        gain=round(cut.gain, 4),
        similarity=round(cut.similarity, 4),
        usual=round(near.usual, 4),
        pause_seconds=float(messages.at[cut.at] - messages.at[cut.at - 1]),
        parts=tuple((end - start, int(messages.sizes[start:end].sum())) for start, end in pairwise(borders)),
    )


def _telling_cut(messages: _TopicMessages, near: Nearness) -> _Cut | None:
    """The best cut if its parts differ as much as different topics, or one at a long pause between dissimilar parts;
    its parts would never be suggested as a merge."""
    borders = messages.borders(LEAST_MESSAGES)
    cut = _best_cut(messages, borders)
    if cut is None or cut.similarity < min(near.usual, near.apart):
        return cut
    pauses = messages.at[borders] - messages.at[borders - 1]
    longest = int(np.argmax(pauses))
    at_pause = _best_cut(messages, borders[longest : longest + 1]) if pauses[longest] >= LONG_PAUSE else None
    unlike = at_pause and at_pause.similarity < near.apart
    return at_pause if unlike else None


def _best_cut(messages: _TopicMessages, at: NDArray[np.intp]) -> _Cut | None:
    """The cut among ``at`` that explains most; None when there is none."""
    if not len(at):
        return None
    n = len(messages.ids)
    sums = np.cumsum(messages.vectors, axis=0)
    left, whole = sums[at - 1], sums[-1]
    right = whole - left
    squares = (left**2).sum(axis=1), (right**2).sum(axis=1), float((whole**2).sum())
    differing = max(float((messages.vectors**2).sum()) - squares[2] / n, 1e-9)
    gains = (squares[0] / at + squares[1] / (n - at) - squares[2] / n) / differing
    best = int(np.argmax(gains))
    lengths = max(float(np.sqrt(squares[0][best] * squares[1][best])), 1e-9)
    return _Cut(int(at[best]), float(gains[best]), float(left[best] @ right[best]) / lengths)


def _cuts(messages: _TopicMessages, first: _Cut) -> list[int]:
    """The cuts, beginning with ``first``, that make each part short enough, as far as possible."""
    found = [first.at]
    while len(found) < _MOST_PARTS - 1:
        borders = [0, *sorted(found), len(messages.ids)]
        further = next(filter(None, (_cut_within(messages, start, end) for start, end in pairwise(borders))), None)
        if further is None:
            break
        found.append(further)
    return sorted(found)


def _cut_within(messages: _TopicMessages, start: int, end: int) -> int | None:
    part = messages.part(start, end)
    if part.sizes.sum() <= settings.SPLIT_THRESHOLD_CHARS:
        return None
    cut = _best_cut(part, part.borders(1))
    return start + cut.at if cut else None


def _messages_of(owner_id: int, topics: Sequence[Topic], profile: int) -> Iterator[tuple[Topic, _TopicMessages]]:
    for group in _groups(topics, lambda topic: topic.message_count):
        [(ids, at, *numbers)] = fetched(MESSAGES, {"owner": owner_id, "topics": [topic.pk for topic in group]})
        sizes, passages, topic_ids = map(int64s, numbers)
        times = np.frombuffer(at or b"", ">f8").astype(np.float64)
        joined = _TopicMessages(int64s(ids), times, sizes, passages, _passage_vectors(owner_id, profile, passages))
        starts = np.searchsorted(topic_ids, [topic.pk for topic in group])
        ends = np.searchsorted(topic_ids, [topic.pk for topic in group], side="right")
        for topic, start, end in zip(group, starts.tolist(), ends.tolist(), strict=True):
            yield topic, joined.part(start, end)


def _may_be_cut(topic: Topic) -> bool:
    return _is_long(topic) or topic.message_count >= 2 * LEAST_MESSAGES


def _is_long(topic: Topic) -> bool:
    return topic.size_chars > settings.SPLIT_THRESHOLD_CHARS


def _groups(found: Iterable[_T], messages: Callable[[_T], int]) -> Iterator[list[_T]]:
    """``found`` in groups that have only some thousand ``messages`` together, as far as possible."""
    group: list[_T] = []
    for each in found:
        if group and sum(map(messages, group)) + messages(each) > _SPLITS_AT_ONCE:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _passage_vectors(owner_id: int, profile: int, passages: Ids) -> Floats:
    """For each message the vector of its exchange, shape (messages, dimensions); zero where there is none."""
    known, vectors = rescoring.vectors_of(owner_id, profile, np.unique(passages))
    if not len(known):
        return np.zeros((len(passages), 1))
    order = np.argsort(known)
    known, vectors = known[order], vectors[order]
    places = np.minimum(np.searchsorted(known, passages), len(known) - 1)
    return np.where((known[places] == passages)[:, None], vectors[places], 0)


MOST_OPEN = 200
# How many topics a topic is compared with, and how many pairs at a time: all of 4,000 topics, some hundred of the
# largest memory.
MOST_TOPICS = 50_000
MOST_PAIRS = 16_000_000

Kind, State = Suggestion.Kind, Suggestion.State
_SPLITS = (SPLIT.name, RESPLIT.name)

VECTORS: str = _SQL["vectors"]


def with_unchecked() -> QuerySet[ChatUser]:
    """Chat users with a live topic that has a vector and was not yet compared for a merge. Without chat users for whom
    consolidation is off, and those whose queue is full."""
    vectors = TopicVector.objects.filter(topic=OuterRef("pk"))
    unchecked = Topic.objects.live().filter(Exists(vectors), owner=OuterRef("pk"), consolidation_checked=False)
    waiting = Suggestion.objects.filter(owner=OuterRef("pk"), state=State.OPEN).order_by("pk")
    is_full = Exists(waiting[MOST_OPEN - 1 : MOST_OPEN])
    return ChatUser.objects.exclude(consolidation=ChatUser.Consolidation.OFF).filter(Exists(unchecked), ~is_full)


def suggest(owner: ChatUser) -> int:
    """Makes as many suggestions as there is room for, best first; returns how many are new. Changes no topic.

    Compared are the owner's live topics with a vector in the profile used last. In a large memory a call considers some
    of them only: first those that were never considered, of these the latest. If consolidation is off, only splits are
    suggested."""
    served = TopicVector.objects.filter(owner=owner).order_by("-profile__is_serving", "-profile")
    newest = served.values_list("profile").first()
    if newest is None:
        return 0
    vectors, least = _vectors(owner, newest[0]), threshold(newest[0])
    pairs, alone = _rejections(owner)
    is_off = owner.consolidation == ChatUser.Consolidation.OFF
    near = Nearness(_usual(vectors.matrix), least - _LIFT * _MOST_LIFTS)
    found = [] if is_off else lasting(owner.pk, merges(owner.pk, vectors, pairs, least), newest[0], near)
    asked = vectors.ids[: vectors.asked].tolist()
    whole = [topic for topic in Topic.objects.of(owner).live().filter(pk__in=asked) if topic.pk not in alone]
    cut = splits(owner.pk, whole, newest[0], near, MOST_OPEN)
    made = [*(_merge(owner, merge, least) for merge in found), *(_split(owner, split) for split in cut)]
    best_first = sorted(made, key=lambda suggestion: -suggestion.score)
    return _store(owner, best_first, looked_at=[] if is_off else asked)


def threshold(profile: int) -> float:
    """The cosine from which two topics are compared for a merge, in the profile with this id."""
    return EmbeddingProfile.objects.get(pk=profile).consolidation_threshold


def _vectors(owner: ChatUser, profile: int) -> TopicVectors:
    [(known, sizes, sent)] = fetched(VECTORS, {"owner": owner.pk, "profile": profile, "most": MOST_TOPICS})
    ids = int64s(known)
    asked = min(len(ids), MOST_PAIRS // max(len(ids), 1))
    return TopicVectors(ids, int64s(sizes), halves(sent or b"", len(ids)), asked)


def _usual(vectors: Floats) -> float:
    """The mean similarity of two different topics; 0 when there are fewer than two."""
    n = len(vectors)
    if n < 2:
        return 0.0
    # The sum of all products equals the square of the sum, so no product is computed.
    total = vectors.sum(axis=0)
    return float((total @ total - np.vdot(vectors, vectors)) / (n * (n - 1)))


def _rejections(owner: ChatUser) -> tuple[frozenset[Pair], frozenset[int]]:
    """Pairs of live topics that are never to be merged, because somebody said so or a split took them apart, and topics
    never to be split, as their edits left them."""
    rows = list(Suggestion.objects.filter(owner=owner, state=State.NEVER).values_list("kind", "topics"))
    rows += [(Kind.MERGE, parts) for parts in _taken_apart(owner)]
    live = successors(owner.pk, {number for _kind, numbers in rows for number in numbers})
    holders = [(kind, [live.get(number, ()) for number in numbers]) for kind, numbers in rows]
    pairs = {
        pair
        for kind, live_topics in holders
        if kind == Kind.MERGE
        for one, other in combinations(live_topics, 2)
        for pair in ((min(pair), max(pair)) for pair in product(one, other))
    }
    whole = {number for kind, live_topics in holders if kind == Kind.SPLIT for number in live_topics[0]}
    return frozenset(pairs), frozenset(whole)


def _taken_apart(owner: ChatUser) -> list[list[int]]:
    """The topics that each split put in."""
    put_in = EditedTopic.objects.filter(owner=owner, side=EditedTopic.Side.IN, edit__kind__in=_SPLITS)
    parts: defaultdict[int, list[int]] = defaultdict(list)
    for edit, topic in put_in.order_by("pk").values_list("edit", "topic"):
        parts[edit].append(topic)
    return list(parts.values())


def _merge(owner: ChatUser, merge: Merge, threshold: float) -> Suggestion:
    evidence = {**_evidence(merge), "threshold": threshold}
    key = f"merge-{min(merge.topics)}-{max(merge.topics)}"
    return Suggestion(
        owner=owner, kind=Kind.MERGE, key=key, topics=list(merge.topics), score=merge.score, evidence=evidence
    )


def _split(owner: ChatUser, split: Split) -> Suggestion:
    evidence = {**_evidence(split), "limit": settings.SPLIT_THRESHOLD_CHARS}
    return Suggestion(
        owner=owner,
        kind=Kind.SPLIT,
        key=f"split-{split.topic}",
        topics=[split.topic],
        score=split.score,
        evidence=evidence,
    )


def _evidence(found: Merge | Split) -> dict[str, Any]:
    named = asdict(found)
    return {name: value for name, value in named.items() if name not in ("topic", "topics", "score")}


@transaction.atomic
def _store(owner: ChatUser, made: Sequence[Suggestion], looked_at: Sequence[int]) -> int:
    """Stores suggestions that are new, if there is room; returns how many. The topics ``looked_at`` are marked as
    considered, unless one of their merges found no room: it is searched for again."""
    database.acquire_until_commit("suggestions", owner.pk)
    settle(owner)
    rows = Suggestion.objects.filter(owner=owner)
    known = set(rows.filter(key__in=[each.key for each in made]).values_list("key", flat=True))
    room = MOST_OPEN - rows.filter(state=State.OPEN).count()
    new = [each for each in made if each.key not in known]
    wanted, left = new[: max(room, 0)], new[max(room, 0) :]
    Suggestion.objects.bulk_create(wanted)
    if wanted:
        announce_waiting(owner.pk)
    # A topic may have been retired while its suggestion was made.
    settle(owner)
    again = {number for each in left if each.kind == Kind.MERGE for number in each.topics}
    checked = Topic.objects.of(owner).filter(pk__in=set(looked_at) - again, consolidation_checked=False)
    checked.update(consolidation_checked=True)
    return len(wanted)
