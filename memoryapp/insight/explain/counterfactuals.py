"""Changes under which a run would have kept what it lost, each tried before it is named. What concerns the search is
tried on the memory as it is now, where a fork searches too; what comes after it, on what the run recorded. A change
that does not help is not named."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, cast

import numpy as np
from asgiref.sync import async_to_sync
from django.utils.translation import gettext as _

from memoryapp.curation import rescoring
from memoryapp.curation.operations.merge import composed_summary
from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import BASELINE, RANKED, Candidate
from memoryapp.engine.events import ModelReplied, RunFinished, TopicsRead
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import MessageContent, TopicContent, Where, parse_topic_id, topic_id
from memoryapp.engine.parameters import DEFAULTS, Limits, declarations
from memoryapp.engine.strategies.cuts import DIGITS, Cuts, apply_cuts
from memoryapp.engine.strategies.cuts import Fate as CutFate
from memoryapp.engine.strategies.filter import similarities
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.strategies.topics_tool import TopicsTool
from memoryapp.insight.explain.fate import CHOSEN, SHOWN, Fate, Story, kind_of
from memoryapp.memory.content import content, permitted
from memoryapp.models import EmbeddingProfile, QueryVector, Run, RunEvent, Suggestion, Topic, TopicMessage
from memoryapp.platform.statements import fetched
from memoryapp.runs import forks
from memoryapp.runs.parameters import ParameterError, strategy_named
from memoryapp.runs.replays import ForkError, changes_in_words, read_changes
from memoryapp.search.columns import Ids, int64s
from memoryapp.search.neighbours import neighbours
from memoryapp.search.where import AT_HAND

# A run's query compared once with the memory as it is now, and the orders of topics that follow from that.
#
# No model is asked: the vectors of the query are those that the run stored. One comparison serves every order that is
# tried; without the rewrite, without filters, or with two topics as one.

_SQL = table_beside(__file__)
PERMITTED: str = _SQL["permitted"]


@dataclass(frozen=True, slots=True)
class _Wording:
    """The query, or one wording of it, compared with passages and summaries."""

    by_passages: rescoring.RescoredQuery
    by_summaries: rescoring.QuerySummaries


@dataclass(frozen=True, slots=True)
class Research:
    """Orders of today's topics for a run's query. ``rows`` are all messages, ``within`` those that its filters permit.
    ``merged`` are numbers, beyond those of topics, for pairs that are tried as one."""

    whole: _Wording
    typed: _Wording | None
    rows: rescoring.MessagePassages
    within: Ids
    merged: Mapping[int, tuple[int, int]]
    threshold: float
    by_meaning: bool

    def ranks(self, *, shown: int = RANKED, typed: bool = False, everywhere: bool = False) -> dict[int, rescoring.Rank]:
        """The ranked topics when ``shown`` are shown; by the query as it was ``typed`` alone, or ``everywhere``,
        whatever the filters of the run."""
        wording = self.typed if typed and self.typed else self.whole
        return self._ranked(wording, self.rows.topics if everywhere else self.within, shown)

    def ranks_merged(self, number: int, *, shown: int) -> dict[int, rescoring.Rank]:
        """The ranked topics with the pair of that number as one topic."""
        topics = np.where(np.isin(self.within, self.merged[number]), number, self.within)
        return self._ranked(self.whole, topics, shown)

    def _ranked(self, wording: _Wording, topics: Ids, shown: int) -> dict[int, rescoring.Rank]:
        assignment = rescoring.Assignment.of_rows(self.rows, topics, {})
        found, common = wording.by_passages.found, wording.by_passages.common
        if self.by_meaning and not np.isnan(found.cosine).all():
            nearest = assignment.passages.nearest(found.cosine).tolist()
            return {topic: rescoring.Rank(rank, rank <= shown) for rank, topic in enumerate(nearest, start=1)}
        summaries = wording.by_summaries.words(assignment.passages.topics, common)
        return assignment.ranked(found, summaries, threshold=self.threshold, shown=shown)


def research(story: Story, pairs: Sequence[tuple[int, int]], threshold: float) -> Research | None:
    """The run's query compared with the memory; None for a run that did not get as far as a search."""
    queries = _queries(story)
    if not queries:
        return None
    owner = story.run.owner_id
    passages = rescoring.passages(owner)
    rows = _with_sessions(story, rescoring.message_passages(owner, passages.ids))
    first = int(max(rows.topics, default=0)) + 1
    merged = dict(enumerate(pairs, first))
    stems = rescoring.stems_of(queries)
    # The summaries of the pairs, as a merge joins them.
    wanted = {topic for pair in merged.values() for topic in pair}
    found = Topic.objects.of(owner).in_bulk(wanted) if wanted else {}
    ordered = {number: sorted((found[t] for t in pair), key=lambda t: t.started_at) for number, pair in merged.items()}
    put = {number: composed_summary([topic.summary for topic in topics]) for number, topics in ordered.items()}
    by_summaries = rescoring.summaries_for(owner, queries, stems, put)
    whole, *typed = map(_Wording, rescoring.rescored(owner, passages, queries, stems), by_summaries)
    within = _within(owner, rows, story.found.understood.where) if story.found else rows.topics
    return Research(whole, next(iter(typed), None), rows, within, merged, threshold, story.by_meaning)


def _with_sessions(story: Story, rows: rescoring.MessagePassages) -> rescoring.MessagePassages:
    """The rows with the active sessions that a fork of the run ranks among the topics: without passages of what its
    caller has at hand, and none where the run leaves sessions out."""
    if story.parameters.get("fresh") != "yes":
        return rows
    session_of = rescoring.active_talk(story.run.owner_id).session_of
    active = np.flatnonzero((rows.topics == 0) & (rows.places >= 0)).tolist()
    at_hand = _at_hand(story.run) if active else set()
    new = {int(rows.places[at]) for at in active if int(rows.messages[at]) not in at_hand}
    topics = rows.topics.copy()
    for at in active:
        if int(rows.places[at]) in new:
            topics[at] = session_of.get(int(rows.messages[at]), 0)
    return replace(rows, topics=topics)


def _at_hand(run: Run) -> set[int]:
    sent = (str(message.get("text") or "") for message in run.messages or ())
    texts = [storable(text).strip() for text in (typed(run.query).text, *sent)]
    return {number for (number,) in fetched(AT_HAND, {"owner": run.owner_id, "ids": [], "texts": texts})}


def _queries(story: Story) -> list[rescoring.Query]:
    """The query as the run searched it and, if it was rewritten, as it was typed."""
    line = story.outline.enriched
    if line is None:
        return []
    vectors = QueryVector.objects.filter(run=story.run.pk).values_list("profile", "vector", "typed_vector").first()
    if vectors is None:
        whole = rescoring.Query(
            line.enriched, typed=rescoring.Query(line.query) if line.enriched != line.query else None
        )
    else:
        profile, vector, typed_vector = vectors
        typed = None if typed_vector is None else rescoring.Query(line.query, _array(typed_vector), profile)
        whole = rescoring.Query(line.enriched, _array(vector), profile, typed)
    return [whole, whole.typed] if whole.typed else [whole]


def _array(vector: Any) -> Any:
    return np.asarray(vector, dtype=np.float64)


def _within(owner_id: int, rows: rescoring.MessagePassages, where: Where) -> Ids:
    """The topic of each row, 0 for messages that ``where`` does not permit."""
    if not where:
        return rows.topics
    conditions, values = permitted(where)
    allowed = int64s(fetched(PERMITTED.format(conditions=conditions), {"owner": owner_id, **values})[0][0])
    return np.where(np.isin(rows.messages, allowed), rows.topics, 0)


# Forks of a run as experiments that were made already: what each change led to, for one candidate.

# The newest ones.
MOST_FORKS = 100


@dataclass(frozen=True, slots=True)
class TriedFork:
    """Forks with the same ``changes`` at the same ``turn``, and how many of them chose the candidate."""

    turn: int | None
    changes: Mapping[str, Any]
    chosen: int
    forks: int

    @property
    def words(self) -> str:
        return " · ".join(changes_in_words(self.changes))


def from_forks(run: Run, id: str) -> list[TriedFork]:
    """The kinds of forks of the run that chose the candidate, the surest first; two statements."""
    made = Run.objects.of(run.owner_id).filter(parent=run, state=Run.State.FINISHED, fallback="").exclude(changes={})
    forks = {each.pk: each for each in made.only("pk", "turn", "changes").order_by("-created_at")[:MOST_FORKS]}
    if not forks:
        return []
    ends = RunEvent.objects.filter(owner=run.owner_id, run__in=list(forks), kind=RunFinished.kind)
    columns = ("payload__selected", "payload__people", "payload__artifacts")
    chose = {pk: {item["id"] for each in ids for item in each or ()} for pk, *ids in ends.values_list("run", *columns)}
    keys = {pk: json.dumps([fork.turn, fork.changes], sort_keys=True) for pk, fork in forks.items()}
    every = Counter(keys.values())
    chosen = Counter(key for pk, key in keys.items() if id in chose.get(pk, ()))
    tried = [(*json.loads(key), count, every[key]) for key, count in chosen.items()]
    return sorted((TriedFork(*each) for each in tried), key=lambda each: -each.chosen / each.forks)


# The tool's answer to a recorded request once more, with more room: would a topic that did not fit be read?

# Heads and excerpts make a topic a little longer than its messages.
_MARGIN = 1.3
_STEP = 1_000


def would_read(story: Story, id: str) -> tuple[int, int] | None:
    """The characters with which the request that asked for the topic would return it, and its turn; None if not."""
    for event in story.events:
        if isinstance(event, TopicsRead) and id in {topic.id for topic in event.omitted}:
            reply = next((r for r in story.outline.replies if r.turn == event.turn), None)
            asked = (*event.read, *event.omitted)
            chars = _STEP * math.ceil(_MARGIN * sum(topic.size_chars for topic in asked) / _STEP)
            declared = declarations(strategy_named(story.run.strategy).parameters)["read_chars"]
            if reply is None or not declared.allows(chars):
                return None
            return (chars, event.turn) if id in _read(story, reply, chars, [topic.id for topic in asked]) else None
    return None


def _read(story: Story, reply: ModelReplied, chars: int, ids: Sequence[str]) -> set[str]:
    """The topics that the calls of the reply return within so many characters."""
    topics = {topic.id: topic for topic in _topics(story.run.owner_id, ids)}

    async def read_topics(numbers: Sequence[int]) -> Sequence[TopicContent]:
        return [topics[number] for number in numbers if number in topics]

    async def again() -> set[str]:
        shown = cast("list[Candidate]", list(story.shown("Topic:1")))
        tool = TopicsTool(shown, read_topics, Limits(read_chars=chars, excerpt_over_chars=DEFAULTS.excerpt_over_chars))
        await tool.take(reply.tool_calls)
        events = [(await tool.tool.run(call, reply.turn)).event for call in reply.tool_calls]
        return {topic.id for event in events if isinstance(event, TopicsRead) for topic in event.read}

    return async_to_sync(again)()


def _topics(owner_id: int, ids: Iterable[str]) -> list[TopicContent]:
    numbers = [number for id in ids if (number := parse_topic_id(id))]
    messages: defaultdict[int, list[MessageContent]] = defaultdict(list)
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=numbers).select_related("message")
    for row in rows.order_by("message__sent_at", "message_id"):
        messages[row.topic_id].append(content(row.message))
    topics = Topic.objects.of(owner_id).filter(pk__in=numbers)
    return [TopicContent(t.pk, t.summary, t.started_at, t.size_chars, tuple(messages[t.pk])) for t in topics]


MOST = 3
# Numbers of candidates are proposed in such steps.
STEP = 25
# A smaller difference of rank hardly matters.
FAR = 3
_WHERE = ("since", "until", "channel", "author")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A ``change`` and its ``result``, in words. ``turn`` and ``changes`` are the fork that makes it; ``merge`` are
    topics to merge instead. ``rank`` is that of the topic after a change of the search, ``shown`` whether the model
    would see it."""

    change: str
    result: str
    turn: int | None = None
    changes: Mapping[str, Any] | None = None
    merge: tuple[str, ...] = ()
    rank: int | None = None
    shown: bool | None = None

    @property
    def fork(self) -> dict[str, Any] | None:
        """The body of a request for the fork."""
        return None if self.changes is None else {"turn": self.turn, "changes": dict(self.changes)}


@dataclass(frozen=True, slots=True)
class LostItem:
    """What is tried for: a ``fate``, the number of the live topic ``now`` (0 without one), and the ``research``."""

    story: Story
    fate: Fate
    now: int
    research: Research | None

    @property
    def limit(self) -> int:
        """How many candidates of its kind the run shows."""
        return int(self.story.parameters[SHOWN[kind_of(self.fate.id)]])

    def standing(self, **how: Any) -> tuple[int, bool]:
        """The topic's rank, 0 for none, and whether it is shown, in an order of the research."""
        found = self.research.ranks(**{"shown": self.limit, **how}).get(self.now) if self.research else None
        return (found.rank, found.shown) if found else (0, False)


def counterfactuals(asked: LostItem) -> tuple[Counterfactual, ...]:
    """At most three, those of the stage itself first."""
    tried = (each for make in _OF_STAGE.get(asked.fate.stage, ()) for each in make(asked))
    return tuple(islice((each for each in tried if _can_be_forked(asked.story, each)), MOST))


def _can_be_forked(story: Story, tried: Counterfactual) -> bool:
    if tried.changes is None:
        return True
    try:
        forks.turn_of_fork(story.run, story.events, tried.turn, read_changes(tried.changes, story.events))
    except (ForkError, ParameterError):
        return False
    return True


def _ranked_words(rank: int, shown: bool) -> str:
    if shown:
        return _("it would be #%(rank)d, and the model would see it") % {"rank": rank}
    return _("it would be #%(rank)d") % {"rank": rank}


def _more_candidates(asked: LostItem) -> Iterator[Counterfactual]:
    name = SHOWN[kind_of(asked.fate.id)]
    rank = asked.standing(shown=RANKED)[0] if asked.now else int(asked.fate.numbers.get("rank", 0))
    least = STEP * math.ceil(max(rank, asked.limit + 1) / STEP)
    for wanted in range(least, min(least + 2 * STEP, RANKED) + 1, STEP):
        rank, shown = asked.standing(shown=wanted) if asked.now else (rank, rank <= wanted)
        if rank and shown:
            change = _("%(n)d candidates") % {"n": wanted}
            changes = {"parameters": {name: wanted}}
            yield Counterfactual(change, _ranked_words(rank, shown), 1, changes, rank=rank, shown=True)
            return


def _as_typed(asked: LostItem) -> Iterator[Counterfactual]:
    """Without what the enricher made of the query."""
    line = asked.story.outline.enriched
    if line is None or asked.research is None or asked.research.typed is None:
        return
    (before, was_shown), (rank, shown) = asked.standing(), asked.standing(typed=True)
    if rank and (not before or rank <= before - FAR or (shown and not was_shown)):
        changes = {"rewrite": line.query}
        result = _ranked_words(rank, shown)
        yield Counterfactual(_("without the enricher"), result, 1, changes, rank=rank, shown=shown)


def _merged(asked: LostItem) -> Iterator[Counterfactual]:
    if asked.research is None or not asked.now:
        return
    before, was_shown = asked.standing()
    for number, pair in asked.research.merged.items():
        found = asked.research.ranks_merged(number, shown=asked.limit).get(number)
        if found and (not before or found.rank < before) and (found.shown or not was_shown):
            names = tuple(map(topic_id, pair))
            change = _("merging %(one)s and %(other)s") % {"one": names[0], "other": names[1]}
            result = _("it would be #%(rank)d") % {"rank": found.rank}
            yield Counterfactual(change, result, merge=names, rank=found.rank, shown=found.shown)


def _other_cuts(asked: LostItem) -> Iterator[Counterfactual]:
    """The smallest change of each cut that loses it, one after the other."""
    found = asked.story.found
    if found is None:
        return
    known = similarities(found)
    own = Cuts(**{name: asked.story.parameters[name] for name in asdict(Cuts())})
    cuts = own
    for _round in range(len(asdict(own))):
        filtering = apply_cuts(known, cuts)
        item = next((each for each in filtering.items if each.id == asked.fate.id), None)
        if item is None:
            return
        if item.fate == "kept":
            changed = {name: value for name, value in asdict(cuts).items() if value != asdict(own)[name]}
            words = ", ".join(f"{name} {value:g}" for name, value in changed.items())
            result = _("it would be chosen, as no. %(rank)d") % {"rank": item.rank}
            yield Counterfactual(words, result, 1, {"parameters": changed})
            return
        cuts = _repaired(cuts, item.fate, item.rank, item.similarity, filtering.drop)
        declared = declarations(strategy_named(asked.story.run.strategy).parameters)
        if not all(declared[name].allows(value) for name, value in asdict(cuts).items()):
            return


def _repaired(cuts: Cuts, fate: CutFate, rank: int, similarity: float, drop: tuple[float, float] | None) -> Cuts:
    lower = math.floor(round(similarity, DIGITS) * 100) / 100
    if fate == "below_initial":
        return replace(cuts, initial_threshold=lower)
    if fate == "beyond_initial":
        return replace(cuts, initial_top_k=rank)
    if fate == "below_threshold":
        return replace(cuts, threshold=lower)
    if fate == "after_gap" and drop:
        return replace(cuts, score_gap=math.ceil(round(drop[0] - drop[1], DIGITS) * 100) / 100)
    return replace(cuts, final_top_k=rank)


def _more_nearest(asked: LostItem) -> Iterator[Counterfactual]:
    """More topics of the plain vector order."""
    baseline = asked.story.finished.baseline if asked.story.finished else ()
    if asked.story.chooses_nearest and asked.fate.id in baseline[:BASELINE]:
        place = baseline.index(asked.fate.id) + 1
        result = _("it would be chosen, as no. %(rank)d") % {"rank": place}
        yield Counterfactual(f"max_topics {place}", result, 1, {"parameters": {"max_topics": place}})


def _more_picks(asked: LostItem) -> Iterator[Counterfactual]:
    """The model's own last answer once more, with a higher limit; no model is asked."""
    replies, place = asked.story.outline.replies, int(asked.fate.numbers.get("place", 0))
    if asked.fate.case != "picked" or not replies:
        return
    name = CHOSEN[kind_of(asked.fate.id)]
    changes = {"reply": replies[-1].text, "parameters": {name: place}}
    result = _("it would be chosen, as no. %(rank)d, from the same answer") % {"rank": place}
    yield Counterfactual(f"{name} {place}", result, replies[-1].turn, changes)


def _more_room(asked: LostItem) -> Iterator[Counterfactual]:
    """More characters in one answer of the tool, for the same request."""
    if asked.fate.case != "size":
        return
    found = would_read(asked.story, asked.fate.id)
    if found is None:
        return
    chars, turn = found
    result = _("it would be read in turn %(turn)d") % {"turn": turn}
    # The recorded request is answered anew; the model is asked from the turn after it on.
    after = min(turn + 1, asked.story.outline.replies[-1].turn)
    yield Counterfactual(f"read_chars {chars}", result, after, {"parameters": {"read_chars": chars}})


def _unfiltered(asked: LostItem) -> Iterator[Counterfactual]:
    story = asked.story
    rank, shown = asked.standing(everywhere=True)
    if not rank or asked.fate.case == "never":
        return
    result = _ranked_words(rank, shown)
    given = {name: "" for name in _WHERE if story.parameters.get(name)}
    plain = typed(story.run.query)
    if given:
        yield Counterfactual(_("without its filters"), result, 1, {"parameters": given}, rank=rank, shown=shown)
    elif plain.where and plain.text:
        yield Counterfactual(_("without its filters"), result, 0, {"query": plain.text}, rank=rank, shown=shown)


def _earlier_forks(asked: LostItem) -> Iterator[Counterfactual]:
    """Forks of this run that chose it."""
    for fork in from_forks(asked.story.run, asked.fate.id):
        result = _("chosen in %(n)d of %(of)d forks") % {"n": fork.chosen, "of": fork.forks}
        yield Counterfactual(fork.words, result, fork.turn, fork.changes)


_Make = Callable[[LostItem], Iterator[Counterfactual]]
_OF_STAGE: Mapping[str, Sequence[_Make]] = {
    "filtered": (_unfiltered,),
    "below_threshold": (_as_typed, _merged, _more_nearest, _earlier_forks),
    "beyond_candidates": (_more_candidates, _more_nearest, _as_typed, _merged, _earlier_forks),
    "cut": (_other_cuts, _as_typed, _earlier_forks),
    "not_requested": (_earlier_forks, _as_typed),
    "did_not_fit": (_more_room, _earlier_forks),
    "not_chosen": (_earlier_forks,),
    "beyond_limit": (_more_nearest, _more_picks, _earlier_forks),
    "not_used": (_earlier_forks,),
}


def needs_search(stage: str) -> bool:
    return bool({_more_candidates, _as_typed, _merged, _unfiltered} & set(_OF_STAGE.get(stage, ())))


def tries_merges(stage: str) -> bool:
    return _merged in _OF_STAGE.get(stage, ())


def live_number(now: Sequence[str]) -> int:
    """The number of the first of these topics; 0 without one."""
    return next((parse_topic_id(id) or 0 for id in now), 0)


# Topics with which a topic might be merged: those that are suggested, else those that are near enough.

MOST_PARTNERS = 2


def partners(owner_id: int, topic: int) -> list[tuple[int, int]]:
    """At most two pairs of live topics, each with the ``topic`` first."""
    rows = Suggestion.objects.filter(
        owner=owner_id, kind=Suggestion.Kind.MERGE, state=Suggestion.State.OPEN, topics__contains=[topic]
    )
    others = [other for row in rows.order_by("-score", "-pk")[:MOST_PARTNERS] for other in row.topics if other != topic]
    if not others:
        others = _near(owner_id, topic)
    return [(topic, other) for other in dict.fromkeys(others)][:MOST_PARTNERS]


def _near(owner_id: int, topic: int) -> list[int]:
    row = Topic.objects.of(owner_id).live().filter(pk=topic).first()
    serving = EmbeddingProfile.objects.filter(is_serving=True).first()
    if row is None or serving is None:
        return []
    near = neighbours(row, MOST_PARTNERS)
    return [each.topic.pk for each in near if each.similarity >= serving.consolidation_threshold]
