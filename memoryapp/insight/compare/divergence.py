"""Where two runs first differ, read from their events stage by stage, in one sentence. Only what happened counts. What
was asked of the runs (strategy, parameters, prompt, model, what a fork leaves out) shows only by its effect, except for
the query itself. Topics of one lineage are the same topic."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import Event, ModelReplied, Selected, TopicsRead, TurnStarted
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.react import Answered, ToolUsed
from memoryapp.engine.outline import Outline

# So many topics are named in a sentence.
NAMED = 3
LONGEST_QUERY = 80
Sentences = tuple[str | Promise, str | Promise, str | Promise]

# What only one run did, and what each of both did instead: A alone, B alone, both.
_FOUND = (
    gettext_lazy("Search: A found %(these)s, B did not."),
    gettext_lazy("Search: B found %(those)s, A did not."),
    gettext_lazy("Search: A found %(these)s, B found %(those)s."),
)
_READ = (
    gettext_lazy("Turn %(turn)s: A read %(these)s, B did not."),
    gettext_lazy("Turn %(turn)s: B read %(those)s, A did not."),
    gettext_lazy("Turn %(turn)s: A read %(these)s, B read %(those)s."),
)
_ASKED_FOR = (
    gettext_lazy("Turn %(turn)s: A asked for %(these)s, B did not."),
    gettext_lazy("Turn %(turn)s: B asked for %(those)s, A did not."),
    gettext_lazy("Turn %(turn)s: A asked for %(these)s, B asked for %(those)s."),
)
_REMOVED = (
    gettext_lazy("Filter: A removed %(these)s, B did not."),
    gettext_lazy("Filter: B removed %(those)s, A did not."),
    gettext_lazy("Filter: A removed %(these)s, B removed %(those)s."),
)
_TOOLS = (
    gettext_lazy("Tools: A used messages of %(these)s, B did not."),
    gettext_lazy("Tools: B used messages of %(those)s, A did not."),
    gettext_lazy("Tools: A used messages of %(these)s, B those of %(those)s."),
)
_CHOSE = (
    gettext_lazy("Choice: A chose %(these)s, B did not."),
    gettext_lazy("Choice: B chose %(those)s, A did not."),
    gettext_lazy("Choice: A chose %(these)s, B chose %(those)s."),
)
_CITED = (
    gettext_lazy("Answer: A cites %(these)s, B does not."),
    gettext_lazy("Answer: B cites %(those)s, A does not."),
    gettext_lazy("Answer: A cites %(these)s, B cites %(those)s."),
)


@dataclass(frozen=True, slots=True)
class Divergence:
    """``stage`` is query, rewrite, search, filter, turn, tools, choice, answer, words, or none where the runs did the
    same; ``topics`` are the ids in the sentence."""

    stage: str
    sentence: str
    turn: int | None = None
    topics: tuple[str, ...] = ()


@dataclass
class Side:
    """The events of one run; ``same`` names the lineage of each topic by one id, ``taken_out`` are candidates that one
    of both runs was not to have."""

    query: str
    events: Sequence[Event]
    same: Mapping[str, str] = field(default_factory=dict)
    taken_out: frozenset[str] = frozenset()

    @cached_property
    def outline(self) -> Outline:
        return Outline.of(self.events)

    @property
    def searched(self) -> str:
        line = self.outline.enriched
        return line.enriched if line else self.query

    @cached_property
    def shown(self) -> list[str]:
        """What the search listed for the strategy, best first: topics, then people and artifacts."""
        found = self.outline.found
        if found is None:
            return []
        listed: Sequence[Candidate | ItemCandidate] = (*found.candidates, *found.people, *found.artifacts)
        return self.known(each.id for each in listed if each.shown)

    def known(self, ids: Iterable[str]) -> list[str]:
        """Each lineage once, without what was taken out."""
        return list(dict.fromkeys(self.same.get(id, id) for id in ids if id not in self.taken_out))

    def of_turn(self, turn: int) -> list[Event]:
        kinds = (TurnStarted, ModelReplied, TopicsRead)
        return [event for event in self.events if isinstance(event, kinds) and event.turn == turn]

    @property
    def turns(self) -> int:
        return max((event.turn for event in self.events if isinstance(event, TurnStarted)), default=0)

    @property
    def answer(self) -> Answered | None:
        return next((event for event in self.events if isinstance(event, Answered)), None)

    @property
    def chosen(self) -> Sequence[Selected]:
        ended = self.outline.finished
        return (*ended.selected, *ended.people, *ended.artifacts) if ended else ()


def first_divergence(a: Side, b: Side) -> Divergence:
    """The first of all differences; its stage is none where there is no difference."""
    same = Divergence("none", _("Both runs did the same."))
    return next((found for stage in STAGES for found in stage(a, b)), same)


def _query(a: Side, b: Side) -> Iterator[Divergence]:
    if a.query != b.query:
        values = {"a": _cut(a.query), "b": _cut(b.query)}
        yield Divergence("query", _("Query: A was asked “%(a)s”, B “%(b)s”.") % values)


def _rewrite(a: Side, b: Side) -> Iterator[Divergence]:
    if a.outline.found and b.outline.found and a.searched != b.searched:
        values = {"a": _cut(a.searched), "b": _cut(b.searched)}
        yield Divergence("rewrite", _("Rewritten query: A searched “%(a)s”, B “%(b)s”.") % values)


def _search(a: Side, b: Side) -> Iterator[Divergence]:
    if (found := a.outline.found is not None) != (b.outline.found is not None):
        a_alone, b_alone = (
            _("Search: A found candidates, B ended before."),
            _("Search: B found candidates, A ended before."),
        )
        yield Divergence("search", a_alone if found else b_alone)
        return
    yield from _sets("search", _FOUND, a.shown, b.shown, named=_with_place)
    for place, (one, other) in enumerate(zip(a.shown, b.shown, strict=False), start=1):
        if one != other:
            values = {"topic": one, "a": place, "b": b.shown.index(one) + 1}
            sentence = _("Search: %(topic)s is candidate %(a)s in A and %(b)s in B.") % values
            yield Divergence("search", sentence, topics=(one,))


def _filters(a: Side, b: Side) -> Iterator[Divergence]:
    yield from _sets("filter", _REMOVED, _removed(a), _removed(b))


def _removed(side: Side) -> list[str]:
    return side.known(id for event in side.events if isinstance(event, Filtered) for id in event.removed)


def _turns(a: Side, b: Side) -> Iterator[Divergence]:
    for turn in range(1, max(a.turns, b.turns) + 1):
        if turn > min(a.turns, b.turns):
            yield _more_turns(turn, a, b)
            return
        ours, theirs = a.of_turn(turn), b.of_turn(turn)
        yield from _sets("turn", _READ, a.known(_read(ours)), b.known(_read(theirs)), turn)
        yield from _sets("turn", _ASKED_FOR, a.known(_asked(ours)), b.known(_asked(theirs)), turn)
        if _failed(ours) != _failed(theirs):
            sentence = _("Turn %(turn)s: the model failed in A, and answered in B.")
            other = _("Turn %(turn)s: the model answered in A, and failed in B.")
            yield Divergence("turn", (sentence if _failed(ours) else other) % {"turn": turn}, turn)


def _more_turns(turn: int, a: Side, b: Side) -> Divergence:
    if not min(a.turns, b.turns):
        said = _("Turn 1: A asked a model, B asked none.") if a.turns else _("Turn 1: B asked a model, A asked none.")
    elif a.turns > b.turns:
        said = _("Turn %(turn)s: A asked the model again, B had its answer.") % {"turn": turn}
    else:
        said = _("Turn %(turn)s: B asked the model again, A had its answer.") % {"turn": turn}
    return Divergence("turn", said, turn)


def _read(events: Iterable[Event]) -> list[str]:
    return [topic.id for event in events if isinstance(event, TopicsRead) for topic in event.read]


def _asked(events: Iterable[Event]) -> list[str]:
    return [id for event in events if isinstance(event, ModelReplied) for id in event.requested]


def _failed(events: Iterable[Event]) -> bool:
    return any(isinstance(event, ModelReplied) and event.error for event in events)


def _tools(a: Side, b: Side) -> Iterator[Divergence]:
    yield from _sets("tools", _TOOLS, _used(a), _used(b))


def _used(side: Side) -> list[str]:
    return side.known(id for event in side.events if isinstance(event, ToolUsed) for id in event.topics)


def _choice(a: Side, b: Side) -> Iterator[Divergence]:
    ours, theirs = a.outline.finished, b.outline.finished
    if ours is None or theirs is None:
        return
    if ours.fallback != theirs.fallback:
        values = {"a": ours.fallback, "b": theirs.fallback}
        if ours.fallback and theirs.fallback:
            sentence = _("Choice: nothing was chosen in either; in A because of %(a)s, in B because of %(b)s.")
        elif ours.fallback:
            sentence = _("Choice: B chose, A did not (%(a)s).")
        else:
            sentence = _("Choice: A chose, B did not (%(b)s).")
        yield Divergence("choice", sentence % values)
    picked, others = a.known(each.id for each in a.chosen), b.known(each.id for each in b.chosen)
    yield from _sets("choice", _CHOSE, picked, others)
    for place, (one, other) in enumerate(zip(picked, others, strict=False), start=1):
        if one != other:
            places = {"topic": one, "a": place, "b": others.index(one) + 1}
            yield Divergence(
                "choice", _("Choice: %(topic)s is choice %(a)s in A and %(b)s in B.") % places, topics=(one,)
            )


def _answer(a: Side, b: Side) -> Iterator[Divergence]:
    ours, theirs = a.answer, b.answer
    if ours is None or theirs is None:
        if ours is not theirs:
            sentence = (
                _("Answer: A answered in words, B did not.") if ours else _("Answer: B answered in words, A did not.")
            )
            yield Divergence("answer", sentence)
        return
    if ours.outcome != theirs.outcome:
        values = {"a": ours.outcome, "b": theirs.outcome}
        yield Divergence("answer", _("Answer: it is “%(a)s” in A and “%(b)s” in B.") % values)
    cited = [side.known(each.topic for each in answer.citations) for side, answer in ((a, ours), (b, theirs))]
    yield from _sets("answer", _CITED, cited[0], cited[1])
    if ours.text != theirs.text:
        yield Divergence("answer", _("Answer: both cite the same topics in other words."))


def _words(a: Side, b: Side) -> Iterator[Divergence]:
    reasons = [[(each.reason, each.excerpt) for each in side.chosen] for side in (a, b)]
    replies = [[(reply.text, reply.reasoning) for reply in side.outline.replies] for side in (a, b)]
    if reasons[0] != reasons[1] or replies[0] != replies[1]:
        yield Divergence("words", _("Both runs read and chose the same; only the words of the model differ."))


STAGES: Sequence[Callable[[Side, Side], Iterator[Divergence]]] = (
    _query,
    _rewrite,
    _search,
    _filters,
    _turns,
    _tools,
    _choice,
    _answer,
    _words,
)


def _sets(
    stage: str,
    sentences: Sentences,
    ours: Sequence[str],
    theirs: Sequence[str],
    turn: int | None = None,
    *,
    named: Callable[[str, Sequence[str]], str] = lambda id, _listed: id,
) -> Iterator[Divergence]:
    """What is in only one of both, in order; ``named`` makes the name of an id in its list."""
    these = [id for id in ours if id not in set(theirs)]
    those = [id for id in theirs if id not in set(ours)]
    if these or those:
        sentence = sentences[2] if these and those else sentences[0] if these else sentences[1]
        values = {
            "these": _listed([named(id, ours) for id in these]),
            "those": _listed([named(id, theirs) for id in those]),
            "turn": turn,
        }
        yield Divergence(stage, str(sentence) % values, turn, (*these[:NAMED], *those[:NAMED]))


def _with_place(id: str, listed: Sequence[str]) -> str:
    return f"{id} (#{listed.index(id) + 1})"


def _listed(ids: Sequence[str]) -> str:
    named = ", ".join(ids[:NAMED])
    if len(ids) <= NAMED:
        return named
    more = len(ids) - NAMED
    return ngettext("%(named)s and %(n)d more", "%(named)s and %(n)d more", more) % {"named": named, "n": more}


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_QUERY else f"{line[:LONGEST_QUERY]}…"
