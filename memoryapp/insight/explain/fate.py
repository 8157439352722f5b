"""What became of a candidate in a run, read from its events: the first stage that lost it, with the numbers there."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, RunFinished, TopicsRead, TurnStarted
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.kind import ReadTopic
from memoryapp.engine.kinds.react import Answered, ToolUsed
from memoryapp.engine.memory import document_id, parse_item_id
from memoryapp.engine.offline import scorer
from memoryapp.engine.outline import Outline, answered_from
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.strategy import NEAREST
from memoryapp.engine.text.answers import answer_in_words, parse_answer, parse_ids
from memoryapp.engine.text.lines import quoted
from memoryapp.insight.explain.wanted import Wanted
from memoryapp.models import Run
from memoryapp.runs import followers
from memoryapp.runs.followers import StoredEvent

# What a run's events say, indexed for questions about one candidate.

# By kind of item, the parameters that bound how many are shown and how many are selected.
SHOWN = {"Topic": "candidates", "Person": "people_candidates", "Artifact": "artifact_candidates"}
CHOSEN = {"Topic": "max_topics", "Person": "max_people", "Artifact": "max_artifacts"}


def kind_of(id: str) -> str:
    """``Topic``, ``Person`` or ``Artifact``; an active session is shown and selected as a topic is."""
    parsed = parse_item_id(id)
    return parsed[0] if parsed and parsed[0] in SHOWN else "Topic"


@dataclass
class Story:
    """A finished run and its events in order."""

    run: Run
    stored: Sequence[StoredEvent]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def events(self) -> list[Event]:
        return [item.event for item in self.stored]

    @cached_property
    def outline(self) -> Outline:
        return Outline.of(self.events)

    @property
    def found(self) -> CandidatesFound | None:
        return self.outline.found

    @property
    def never(self) -> tuple[str, ...]:
        """What somebody had decided never to recall when the run began."""
        return next((event.never for event in self.events if isinstance(event, DecisionsApplied)), ())

    @property
    def finished(self) -> RunFinished | None:
        return self.outline.finished

    @property
    def answers(self) -> bool:
        """Whether the strategy ends with words."""
        strategy = STRATEGIES.get(self.run.strategy)
        return strategy is not None and strategy.answers

    @property
    def by_meaning(self) -> bool:
        """Whether candidates are ordered by cosine alone."""
        strategy = STRATEGIES.get(self.run.strategy)
        return strategy is not None and strategy.ranking is NEAREST

    @property
    def chooses_nearest(self) -> bool:
        """Whether the first of that order are chosen, up to a limit."""
        return self.by_meaning and CHOSEN["Topic"] in self.parameters

    def seq(self, *kinds: type[Any]) -> int:
        """The number of the last event of these kinds; 0 without one."""
        return max((item.seq for item in self.stored if isinstance(item.event, kinds)), default=0)

    def candidate(self, id: str) -> Candidate | ItemCandidate | None:
        return self.outline.topic(id) or self.outline.item(id)

    def read_unranked(self, id: str) -> Candidate | None:
        """A topic whose passages an answer was composed of although it is not among those that are ranked."""
        if id not in self.answered_from or kind_of(id) != "Topic":
            return None
        return Candidate(id, 0, 0, 0.0, 0.0, 0.0, 0.0, "", 0, 0, "", "", shown=True)

    def shown(self, id: str) -> Sequence[Candidate | ItemCandidate]:
        """The shown candidates of the same kind."""
        if self.found is None:
            return ()
        kinds: Mapping[str, Sequence[Candidate | ItemCandidate]] = {
            "Topic": self.found.candidates,
            "Person": self.found.people,
            "Artifact": self.found.artifacts,
        }
        return [each for each in kinds[kind_of(id)] if each.shown]

    @cached_property
    def read(self) -> Mapping[str, int]:
        """The topics that the model read, with the number of the event."""
        read = ((topic.id, item.seq) for item in self.stored for topic in _read(item.event))
        return dict(read)

    @cached_property
    def omitted(self) -> Mapping[str, tuple[ReadTopic, int]]:
        """The topics that did not fit, with the number of the event."""
        rows = (item for item in self.stored if isinstance(item.event, TopicsRead))
        return {topic.id: (topic, item.seq) for item in rows for topic in item.event.omitted}  # type: ignore[union-attr]

    @cached_property
    def requested(self) -> frozenset[str]:
        """The topics that the model asked to read."""
        calls = [call for event in self.events if isinstance(event, ModelReplied) for call in event.tool_calls]
        asked = {id for call in calls for id in parse_ids(call.arguments) or ()}
        return frozenset(asked | set(self.finished.requested if self.finished else ()))

    @cached_property
    def picks(self) -> tuple[str, ...]:
        """What the model's last answer names, in its order; empty where it was not used."""
        if self.finished is None or self.finished.fallback or not self.outline.replies:
            return ()
        text = self.outline.replies[-1].text
        return tuple(pick.id for pick in parse_answer(text) or answer_in_words(text) or ())

    @cached_property
    def cut(self) -> Mapping[str, tuple[Filtered, int]]:
        """What each stage of a filter removed, with the number of the event."""
        rows = ((item.event, item.seq) for item in self.stored if isinstance(item.event, Filtered))
        return {id: (event, seq) for event, seq in rows for id in event.removed}

    @cached_property
    def answered_from(self) -> frozenset[str]:
        """The topics whose passages were read for an answer."""
        return answered_from(self.events)

    @cached_property
    def composed(self) -> frozenset[str]:
        """The topics whose messages were sources of the answer, as far as its tools say so."""
        used = [event for event in self.events if isinstance(event, ToolUsed) and event.tool == "compose_context"]
        return frozenset(id for event in used for id in event.topics)

    @property
    def answer(self) -> Answered | None:
        return next((event for event in self.events if isinstance(event, Answered)), None)

    @property
    def answer_prompt(self) -> str:
        """What the model was sent to answer in words; empty when no model was asked."""
        turns = [event for event in self.events if isinstance(event, TurnStarted)]
        begun = [turn for turn in turns if turn.prompt_version.startswith("answer")]
        return "\n".join(message.content for turn in begun for message in turn.prompt)


def _read(event: Event) -> Sequence[ReadTopic]:
    return event.read if isinstance(event, TopicsRead) else ()


# From the first stage to the last; each is a stage code of the interface for programs.
Stage = Literal[
    "unknown",
    "erased",
    "in_session",
    "not_searched",
    "no_vector",
    "filtered",
    "below_threshold",
    "beyond_candidates",
    "cut",
    "not_requested",
    "did_not_fit",
    "not_chosen",
    "beyond_limit",
    "not_in_context",
    "not_used",
    "chosen",
]
STAGES: tuple[str, ...] = get_args(Stage)
# So much of a message tells it from others in a prompt.
_TELLING_CHARS = 60


@dataclass(frozen=True, slots=True)
class Fate:
    """The ``stage`` that lost the candidate ``id``, and the number of its event (0: none). ``case`` tells apart reasons
    within a stage; ``numbers`` are those that decided."""

    stage: str
    id: str = ""
    case: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0


def fate(story: Story, id: str, *, threshold: float, texts: Callable[[], Sequence[str]]) -> Fate | None:
    """None for a topic that is not among the ranked ones. ``threshold`` is the cosine below which nothing counts as
    near; ``texts`` returns the texts of the topic's messages."""
    found, finished = story.found, story.finished
    if found is None or finished is None:
        return Fate("not_searched", id, finished.fallback if finished else "", seq=story.seq(RunFinished))
    if (selected := story.outline.selected(id)) is not None:
        numbers = {"place": selected.rank, "of": len(finished.selected), "fallback": finished.fallback}
        case = "pinned" if selected.pinned and not selected.vector_rank else finished.fallback and "instead"
        return Fate("chosen", id, case, numbers, story.seq(RunFinished))
    if id in story.cut:
        return _cut(story, id)
    candidate = story.candidate(id) or story.read_unranked(id)
    if candidate is None:
        return None
    is_read = candidate.shown or id in story.answered_from
    if not is_read and not (story.chooses_nearest and _is_near(story, candidate)):
        return _unshown(story, found, candidate, threshold)
    if finished.fallback == "no_vectors" and not finished.selected:
        return Fate("no_vector", id, "query", _numbers(candidate), story.seq(CandidatesFound))
    return _unchosen(story, candidate, texts)


def _numbers(candidate: Candidate | ItemCandidate, **more: Any) -> dict[str, Any]:
    if not candidate.rank:
        return more
    return {
        "rank": candidate.rank,
        "vector_rank": candidate.vector_rank,
        "cosine": candidate.cosine,
        "score": candidate.score,
        **more,
    }


def _is_near(story: Story, candidate: Candidate | ItemCandidate) -> bool:
    """Whether the order by cosine, which alone decides, has it among as many as are shown."""
    return 0 < candidate.vector_rank <= int(story.parameters["candidates"])


def _cut(story: Story, id: str) -> Fate:
    event, seq = story.cut[id]
    candidate = story.candidate(id)
    similarity = candidate.cosine if candidate else 0.0
    case: str = event.stage
    if case == "initial" and round(similarity, 6) >= round(event.bound, 6):
        case = "initial_top_k"
    bound = story.parameters.get("initial_top_k", 0) if case == "initial_top_k" else event.bound
    numbers = {"cut": case, "cosine": similarity, "bound": bound, "kept": event.kept, "rank": _vector_rank(candidate)}
    if event.drop:
        numbers |= {"before": event.drop[0], "after": event.drop[1]}
    return Fate("cut", id, case, numbers, seq)


def _vector_rank(candidate: Candidate | ItemCandidate | None) -> int:
    return candidate.vector_rank if candidate else 0


def _unshown(story: Story, found: CandidatesFound, candidate: Candidate | ItemCandidate, threshold: float) -> Fate:
    """Why a ranked candidate was not shown."""
    id, seq = candidate.id, story.seq(CandidatesFound)
    if id in found.copies:
        return _copy(story, found.copies[id], id)
    shown = story.shown(id)
    limit = int(story.parameters[SHOWN[kind_of(id)]])
    numbers = _numbers(candidate, shown=len(shown), threshold=threshold)
    speaks = candidate.bm25 > 0 or "summary" in candidate.parts
    if not speaks and found.by_words_alone:
        return Fate("no_vector", id, "query", numbers, seq)
    if not speaks and candidate.cosine == 0.0 and found.without_vector:
        return Fate("no_vector", id, "passages", numbers, seq)
    last = max((each.rank for each in shown), default=0)
    is_irrelevant = len(shown) < limit or candidate.rank < last or (not speaks and candidate.cosine < threshold)
    return Fate("below_threshold" if is_irrelevant else "beyond_candidates", id, "", numbers, seq)


def _copy(story: Story, original: str, id: str) -> Fate:
    """The fate of the topic that says the same and was shown in its place."""
    known = fate(story, original, threshold=0.0, texts=tuple)
    return Fate(known.stage, original, known.case, {**known.numbers, "copy": id}, known.seq) if known else Fate("", id)


def _unchosen(story: Story, candidate: Candidate | ItemCandidate, texts: Callable[[], Sequence[str]]) -> Fate:
    """Why a candidate that was shown was not selected."""
    if story.answers and kind_of(candidate.id) == "Topic":
        return _unanswered(story, candidate, texts)
    finished = story.finished
    if finished is None or story.chooses_nearest or finished.fallback == "disabled":
        return _beyond(story, candidate, _vector_rank(candidate), _limit(story, candidate.id))
    if not story.outline.replies or story.answers:
        numbers = _numbers(candidate, fallback=finished.fallback)
        return Fate("not_requested", candidate.id, finished.fallback and "fallback", numbers, story.seq(RunFinished))
    return _unpicked(story, candidate, finished)


def _limit(story: Story, id: str) -> int:
    finished = story.finished
    chosen = len(finished.selected) if finished else 0
    return int(story.parameters.get(CHOSEN[kind_of(id)], chosen)) if story.chooses_nearest else chosen


def _beyond(story: Story, candidate: Candidate | ItemCandidate, place: int, limit: int, case: str = "order") -> Fate:
    numbers = _numbers(candidate, place=place, limit=limit)
    return Fate("beyond_limit", candidate.id, case, numbers, story.seq(RunFinished))


def _unpicked(story: Story, candidate: Candidate | ItemCandidate, finished: RunFinished) -> Fate:
    """Why a model that was asked did not select it."""
    id, fallback = candidate.id, finished.fallback
    numbers = _numbers(candidate, fallback=fallback)
    same_kind = [pick for pick in story.picks if kind_of(pick) == kind_of(id) and story.candidate(pick)]
    if id in same_kind:
        limit = int(story.parameters.get(CHOSEN[kind_of(id)], 0))
        return _beyond(story, candidate, same_kind.index(id) + 1, limit, "picked")
    if kind_of(id) != "Topic":
        # People and files are described in full, so a model has read all that it is shown.
        return Fate("not_chosen", id, "fallback" if fallback else "item", numbers, story.seq(ModelReplied))
    if id in story.read:
        return Fate("not_chosen", id, fallback and "fallback", numbers, story.seq(ModelReplied))
    if id in story.omitted:
        topic, seq = story.omitted[id]
        sizes = {"size_chars": topic.size_chars, "read_chars": int(story.parameters.get("read_chars", 0))}
        return Fate("did_not_fit", id, "size", {**numbers, **sizes}, seq)
    if id in story.requested:
        if fallback and finished.selected:
            return _beyond(story, candidate, len(finished.selected) + 1, len(finished.selected), "stand_ins")
        return Fate("did_not_fit", id, "late", numbers, story.seq(ModelReplied))
    replied = story.seq(ModelReplied)
    return Fate("not_requested", id, fallback and "fallback", numbers, replied)


def _unanswered(story: Story, candidate: Candidate | ItemCandidate, texts: Callable[[], Sequence[str]]) -> Fate:
    """Why an answer does not cite it."""
    id, answer = candidate.id, story.answer
    numbers = _numbers(candidate, hits=int(story.parameters.get("hits", 0)))
    if id in story.composed or _is_in(story.answer_prompt, texts):
        if answer is not None and answer.outcome == "passages":
            return _beyond(story, candidate, 0, len(answer.citations), "passages")
        case = "refused" if answer and answer.outcome == "refused" else ""
        return Fate("not_used", id, case, numbers, story.seq(Answered))
    if id in story.answered_from:
        sizes = {"context_tokens": int(story.parameters.get("context_tokens", 0))}
        return Fate("did_not_fit", id, "context", {**numbers, **sizes}, story.seq(Answered))
    return Fate("not_requested", id, "hits", numbers, story.seq(CandidatesFound))


def _is_in(prompt: str, texts: Callable[[], Sequence[str]]) -> bool:
    return bool(prompt) and any(text.strip() and quoted(text)[:_TELLING_CHARS] in prompt for text in texts())


# Fates in words: one sentence for each stage and case, with what tells the run's time from today.

# By stage and case; a case that is not listed has the sentence of its stage.
SENTENCES: Mapping[tuple[str, str], Promise] = {
    ("unknown", ""): _("Nothing in this memory says that, in these words or in other words near to them in meaning."),
    ("unknown", "words"): _("Nothing in this memory says that in these words; meanings could not be compared."),
    ("unknown", "id"): _("This memory has nothing with this id, and no trace that it ever had."),
    ("unknown", "later"): _("%(what)s came into this memory only after this run had searched."),
    ("erased", ""): _("This was erased from the memory."),
    ("erased", "withdrawn"): _("%(what)s was withdrawn together with its import, so it is in no topic."),
    ("in_session", ""): _("%(what)s was in no topic yet when this run searched: its session had not been archived."),
    ("not_searched", ""): _("This run ended before its search had found anything, so nothing could be recalled."),
    ("no_vector", "query"): _("%(id)s shares no word with the query, and the query had no vector to compare."),
    ("no_vector", "passages"): _(
        "%(id)s had no vector yet when this run searched, and it shares no word with the query."
    ),
    ("no_vector", "no_passage"): _("%(id)s contains no text that could be searched."),
    ("filtered", ""): _("%(id)s has no message within the filters of this run: %(filters)s."),
    ("filtered", "never"): _("%(id)s is never recalled: somebody decided so before this run."),
    ("below_threshold", ""): _(
        "%(id)s shares no word with the query, and its similarity %(cosine)s is below %(threshold)s, so the model was"
        " not shown it."
    ),
    ("beyond_candidates", ""): _("%(id)s was ranked #%(rank)s, and only the first %(shown)s were shown to the model."),
    ("cut", "initial"): _("The first cut removed %(id)s: its similarity %(cosine)s is below %(bound)s."),
    ("cut", "initial_top_k"): _("The first cut removed %(id)s: it is #%(rank)s by similarity, and %(bound)s are kept."),
    ("cut", "threshold"): _("The second threshold removed %(id)s: its similarity %(cosine)s is below %(bound)s."),
    ("cut", "gap"): _(
        "%(id)s comes after the gap: similarity falls from %(before)s to %(after)s there, by more than %(bound)s."
    ),
    ("cut", "top_k"): _("%(id)s was similar enough, but only the first %(bound)s are kept; it is #%(rank)s."),
    ("not_requested", ""): _("The model saw %(id)s as #%(rank)s of the candidates, and did not ask to read it."),
    ("not_requested", "fallback"): _(
        "%(id)s was #%(rank)s of the candidates, but the model chose nothing (%(fallback)s) and had not asked for it."
    ),
    ("not_requested", "hits"): _(
        "%(id)s was #%(rank)s of the candidates, but none of its passages was among those that were read."
    ),
    ("not_requested", "scorer"): _(
        "The embedded scorer saw %(id)s as #%(rank)s of the candidates, and read others that promise more."
    ),
    ("did_not_fit", "size"): _(
        "The model asked for %(id)s, but its %(size_chars)s characters did not fit into the %(read_chars)s of one"
        " answer."
    ),
    ("did_not_fit", "late"): _("The model asked for %(id)s, but the run ended before it was read."),
    ("did_not_fit", "context"): _(
        "Passages of %(id)s were found, but did not fit into the %(context_tokens)s tokens of the sources."
    ),
    ("not_chosen", ""): _("The model read %(id)s and did not choose it."),
    ("not_chosen", "scorer"): _(
        "The embedded scorer read %(id)s and kept others: the last of them holds the answer with a chance of"
        " %(least)s, and this one with less."
    ),
    ("not_chosen", "scorer_chance"): _(
        "The embedded scorer read %(id)s and did not keep it: it holds the answer with a chance of %(chance)s, the last"
        " one kept with %(least)s."
    ),
    ("not_chosen", "scorer_none"): _("The embedded scorer read %(id)s, but no topic says enough about the query."),
    ("not_chosen", "item"): _("The model was shown %(id)s in full and did not choose it."),
    ("not_chosen", "fallback"): _("%(id)s was read, but the model chose nothing (%(fallback)s)."),
    ("beyond_limit", "order"): _("%(id)s is #%(place)s by similarity, and only the first %(limit)s are chosen."),
    ("beyond_limit", "picked"): _("The model chose %(id)s as no. %(place)s, but at most %(limit)s are kept."),
    ("beyond_limit", "stand_ins"): _(
        "The model asked for %(id)s but chose nothing (%(fallback)s); the first %(limit)s it asked for were used"
        " instead."
    ),
    ("beyond_limit", "passages"): _("%(id)s was found and read, but only the %(limit)s nearest are shown."),
    ("not_in_context", ""): _("%(id)s was chosen, but its messages were in the conversation already."),
    ("not_in_context", "message"): _("%(id)s was chosen, but this message of it did not enter the context."),
    ("not_used", ""): _("%(id)s was in the context, and the answer does not use it."),
    ("not_used", "refused"): _("%(id)s was among the sources, but they did not bear out an answer."),
    ("chosen", ""): _("It was not lost: %(id)s was chosen, as no. %(place)s."),
    ("chosen", "pinned"): _("It was not lost: %(id)s was handed over, because somebody pinned it."),
    ("chosen", "instead"): _("The model chose nothing (%(fallback)s); %(id)s was used instead."),
}
_DIGITS = {"cosine": 3, "threshold": 3, "before": 3, "after": 3}
# Written with two digits, as the scorer writes them.
_CHANCES = ("chance", "least")
# What the model did not do.
_BY_MODEL = ("not_requested", "not_chosen", "beyond_limit")


def sentence(fate: Fate, wanted: Wanted, *, by_scorer: bool = False) -> str:
    """What became of it, then what else there is to know about its ids. ``by_scorer``: no chat model chose."""
    template = SENTENCES.get((fate.stage, fate.case)) or SENTENCES.get((fate.stage, "")) or fate.stage
    if fate.stage == "beyond_candidates" and not fate.numbers.get("rank"):
        template = _("%(id)s was ranked beyond #200, and only the first %(shown)s were shown to the model.")
    values = {name: _written(name, value) for name, value in fate.numbers.items()}
    if "cosine" in values and values["cosine"] in (values.get("bound"), values.get("threshold")):
        values["cosine"] = str(number_format(fate.numbers["cosine"], 5, use_l10n=True))
    blank = dict.fromkeys(("rank", "fallback", "filters", "reason", "place", "limit", "shown"), "")
    what = _what(wanted, fate)
    lost = str(template) % {**blank, **values, "id": fate.id, "what": what}
    if wanted.case == "meaning" and wanted.ids:
        near = gettext("No message says that in these words; nearest in meaning is %(id)s.") % {"id": wanted.ids[0]}
        lost = f"{near} {lost}"
    return " ".join([lost, *_chooser(fate, by_scorer), *_more(fate, wanted)])


def _chooser(fate: Fate, by_scorer: bool) -> list[str]:
    """Who chose, where that was no chat model."""
    if fate.case.startswith("scorer"):
        return [gettext("The scorer chooses because no chat model was connected.")]
    told = by_scorer and fate.stage in _BY_MODEL
    return [gettext("In place of a chat model the embedded scorer chose.")] if told else []


def _what(wanted: Wanted, fate: Fate) -> str:
    if wanted.message is not None:
        return gettext("Message %(id)s") % {"id": wanted.message.external_id}
    return wanted.asked or fate.id


def _written(name: str, value: Any) -> str:
    if isinstance(value, float):
        written = round(value, _DIGITS.get(name, 2))
        return str(number_format(written, 2 if name in _CHANCES else None, use_l10n=True))
    return str(number_format(value, force_grouping=True)) if isinstance(value, int) else str(value)


def _more(fate: Fate, wanted: Wanted) -> list[str]:
    """What tells the run's time from today, and one id from another."""
    known: list[str] = []
    then = wanted.ids[0] if wanted.ids else ""
    if len(wanted.holders) > 1:
        known.append(gettext("%(topics)s say it alike.") % {"topics": ", ".join(wanted.holders)})
    if copy := fate.numbers.get("copy"):
        known.append(gettext("%(copy)s says the same, so only %(id)s was shown.") % {"copy": copy, "id": fate.id})
    elif wanted.message is not None and then and not wanted.holders:
        known.append(gettext("The message was in %(topic)s then.") % {"topic": then})
    elif wanted.asked and then and wanted.asked != then:
        known.append(
            gettext("%(asked)s was not live then; its messages were in %(topic)s.")
            % {"asked": wanted.asked, "topic": then}
        )
    if then and then not in wanted.now and wanted.now:
        known.append(gettext("Today they are in %(topics)s.") % {"topics": ", ".join(wanted.now[:3])})
    return known


# What the embedded scorer made of a topic, where it chose in place of a chat model: the chances that it wrote down.

# As the scorer writes the chances of the topics that it read, in every language.
_CHANCE = re.compile(r"\b((?:Topic|Session):\d{1,18}) ([01]\.\d\d)\b")


def chose(story: Story) -> bool:
    """Whether no chat model was asked."""
    started = story.outline.started
    return started is not None and started.model == scorer.MODEL


def weighed(story: Story, lost: Fate) -> Fate:
    """The same fate with the scorer's reason: ``chance`` is that of the topic to hold the answer, ``least`` that of the
    last one kept, both from 0 to 1 and only where the scorer wrote them."""
    if not chose(story) or lost.case or lost.stage not in ("not_requested", "not_chosen"):
        return lost
    if lost.stage == "not_requested":
        return replace(lost, case="scorer")
    replies, finished = story.outline.replies, story.finished
    written = {id: float(chance) for id, chance in _CHANCE.findall(replies[-1].reasoning if replies else "")}
    kept = [written[each.id] for each in finished.selected if each.id in written] if finished else []
    if not kept:
        return replace(lost, case="scorer_none")
    if lost.id not in written:
        return replace(lost, case="scorer", numbers={**lost.numbers, "least": min(kept)})
    chances = {"chance": written[lost.id], "least": min(kept)}
    return replace(lost, case="scorer_chance", numbers={**lost.numbers, **chances})


# Why a run of another program did not choose a document, as far as its trace says.


def foreign_fate(run: Run, asked: str) -> tuple[Fate, str]:
    """The fate of the document with this id, or whose text contains these words, and a sentence."""
    stored = followers.stored(run.pk)
    outline = Outline.of([item.event for item in stored])
    seqs = {type(item.event): item.seq for item in stored}
    document = _document(outline, asked)
    if document is None:
        sentence = gettext(
            "Nothing like that is in the trace; what %(origin)s has in its memory besides is not known here."
        )
        return Fate("unknown"), sentence % {"origin": run.origin}
    selected = outline.selected(document.id)
    named = {"id": document.id, "rank": document.rank, "origin": run.origin}
    numbers = {"rank": document.rank}
    if selected:
        sentence = gettext("%(id)s was found as #%(rank)s, and it was chosen as #%(chosen)s.")
        return Fate("chosen", document.id, "", numbers), sentence % {**named, "chosen": selected.rank}
    dropped = outline.finished.dropped if outline.finished else ()
    if document.id in dropped:
        sentence = gettext("%(id)s was found as #%(rank)s, and the reranker of %(origin)s left it out.")
    else:
        sentence = gettext(
            "%(id)s was found as #%(rank)s, but its words are not in what the model was sent afterwards."
        )
    last = seqs.get(RunFinished, seqs.get(CandidatesFound, 0))
    return Fate("not_chosen", document.id, "", numbers, last), sentence % named


def _document(outline: Outline, asked: str) -> Candidate | None:
    ranked = outline.found.candidates if outline.found else ()
    words = " ".join(asked.casefold().split())
    by_id = (each for each in ranked if each.id in (asked, document_id(asked)))
    by_words = (each for each in ranked if words in " ".join(f"{each.summary} {each.line}".casefold().split()))
    return next(by_id, None) or next(by_words, None)
