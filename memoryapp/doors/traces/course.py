"""The events of a foreign run, made of the spans of its trace.

A single search becomes ``candidates_found``; of several each is a ``tool_used``, and behind the last one all their
documents are candidates. A call of a model is a turn. What was chosen is what a reranker returned; without one, the
documents whose text a later call of a model contains; without such a text, every document. A note says which.

Events have the times of their spans. They may therefore change while spans are missing; the last one, too, as long as
late spans are taken."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from memoryapp.doors.traces import conventions
from memoryapp.doors.traces.span import (
    EmbeddingCall,
    EnclosingCall,
    ForeignDocument,
    ModelCall,
    RerankCall,
    RewriteCall,
    SearchCall,
    SentSpan,
    ToolCallRun,
    TraceStep,
    asked_in,
)
from memoryapp.engine.candidates import RANKED, Candidate
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    PromptMessage,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    TurnStarted,
)
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.memory import document_id
from memoryapp.engine.notes import Note
from memoryapp.engine.outline import summarise

# The documents of a foreign memory as candidates of a run.
#
# A document has its own id where the program sends one, so that runs of that program can be compared; otherwise one
# made of its text. The id says ``Document:``, which is no topic of this installation.

LONGEST_TITLE = 200
LONGEST_DOCUMENT = 20_000
_NAME = re.compile(r"[\w.:@+-]{1,60}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def id_of(document: ForeignDocument) -> str:
    if _NAME.fullmatch(document.id):
        return document_id(document.id)
    words = document.id or document.text or document.title
    return document_id(hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:8])


def once_each(lists: Iterable[Sequence[ForeignDocument]]) -> list[ForeignDocument]:
    """The documents of several searches: by their best place in any of them, each once."""
    places: dict[str, tuple[int, int]] = {}
    found: dict[str, ForeignDocument] = {}
    for number, listed in enumerate(lists):
        for place, document in enumerate(listed):
            id = id_of(document)
            if id not in places or (place, number) < places[id]:
                places[id], found[id] = (place, number), document
    return [found[id] for id in sorted(found, key=lambda id: places[id])][:RANKED]


def joined(found: Sequence[ForeignDocument], beyond: Iterable[ForeignDocument]) -> list[ForeignDocument]:
    """The documents that were found, then those ``beyond`` them that are none of these."""
    known = {id_of(each) for each in found}
    return [*found, *(each for each in beyond if id_of(each) not in known)][:RANKED]


def candidates(documents: Sequence[ForeignDocument]) -> tuple[Candidate, ...]:
    """The documents in this order, none of them twice."""
    return tuple(_candidate(document, rank) for rank, document in enumerate(documents, start=1))


def _candidate(document: ForeignDocument, rank: int) -> Candidate:
    score = document.score or 0.0
    day = _DAY.match(document.date)
    words = " ".join((document.title or document.text or document.id).split())
    return Candidate(
        id=id_of(document),
        rank=rank,
        vector_rank=0,
        cosine=0.0,
        bm25=0.0,
        fused=score,
        score=score,
        date=day[0] if day else "",
        message_count=0,
        size_chars=len(document.text),
        summary=words if len(words) <= LONGEST_TITLE else words[: LONGEST_TITLE - 1] + "…",
        line=document.text[:LONGEST_DOCUMENT],
        shown=True,
    )


STRATEGY = "foreign"
MOST_TURNS = 200
MOST_TOOLS = 200
LONGEST_QUERY = 4_000
# The attributes of conventions that are understood begin so.
_SPOKEN = ("openinference.", "gen_ai.", "llm.", "traceloop.", "ai.")
_LONGEST_VALUE = 300
# So much of a document's text is looked for in what a model was sent.
_RECOGNISED = 120
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)

Timed = tuple[datetime, Event]


def speaks(span: SentSpan) -> bool:
    """Whether the span may mean something: it is cheaper to ask than ``step_of``."""
    return any(name.startswith(_SPOKEN) for name in span.attributes)


def step_of(span: SentSpan) -> TraceStep | None:
    """What the span means in any convention that is understood; None for all other spans. A span that names a kind of
    OpenInference is read so, even if it has attributes of both."""
    meaning = conventions.openinference_meaning(span) or conventions.genai_meaning(span)
    return TraceStep(span, meaning) if meaning else None


@dataclass(frozen=True)
class TraceCourse:
    """A trace as far as it is known, its spans in any order. ``is_over``: no more are expected."""

    spans: Sequence[SentSpan]
    now: datetime
    is_over: bool

    @cached_property
    def steps(self) -> list[TraceStep]:
        """By their beginnings; what encloses others comes before them."""
        found = [step for span in self.spans if (step := step_of(span))]
        return sorted(found, key=lambda step: (step.span.began, -step.span.ended, step.span.id))

    @cached_property
    def root(self) -> SentSpan:
        """The span that encloses all others, or the one that began first."""
        return min(self.spans, key=lambda span: (bool(span.parent), span.began, -span.ended, span.id))

    @cached_property
    def began_at(self) -> datetime:
        return self._at(min(span.began for span in self.spans))

    @cached_property
    def searches(self) -> list[tuple[SentSpan, SearchCall]]:
        """Searches without those that enclose others."""
        enclosing = {span.id for span, _search in self.enclosing}
        return [each for each in self._every_search if each[0].id not in enclosing]

    @cached_property
    def enclosing(self) -> list[tuple[SentSpan, SearchCall]]:
        """Searches of a memory in which another search ran: what they returned was chosen of what that one found."""
        parents = {span.id: span.parent for span in self.spans}
        around = {id for span, _search in self._every_search for id in _ancestors(span.id, parents)}
        return [each for each in self._every_search if each[0].id in around]

    @cached_property
    def _every_search(self) -> list[tuple[SentSpan, SearchCall]]:
        return [(step.span, step.meaning) for step in self.steps if isinstance(step.meaning, SearchCall)]

    @cached_property
    def reranks(self) -> list[tuple[SentSpan, RerankCall]]:
        return [(step.span, step.meaning) for step in self.steps if isinstance(step.meaning, RerankCall)]

    @cached_property
    def calls(self) -> list[tuple[SentSpan, ModelCall]]:
        found = [(step.span, step.meaning) for step in self.steps if isinstance(step.meaning, ModelCall)]
        return [each for each in found if not _is_wrapped(each[0], found)][:MOST_TURNS]

    @cached_property
    def query(self) -> str:
        """What was asked: of the whole, else of the first search, else of the first model."""
        around = [step.meaning.query for step in self.steps if isinstance(step.meaning, EnclosingCall)]
        searched = [search.query for _span, search in self._every_search]
        searched += [each.query for _span, each in self.reranks]
        sent = [message for _span, call in self.calls[:1] for message in call.messages]
        users = [message.content for message in sent if message.role == "user"]
        asked = (*around[:1], *searched, *users[-1:], *around[1:], asked_in(self.root.attributes.get("input.value")))
        found = next(filter(None, asked), "") or self.root.name or "?"
        return found.strip()[:LONGEST_QUERY]

    @cached_property
    def documents(self) -> list[ForeignDocument]:
        lists = [search.documents for _span, search in self.searches] or [each.given for _s, each in self.reranks]
        returned = [each.ranked for _span, each in self.reranks]
        found = once_each(lists)
        beyond = once_each([*returned, *(search.documents for _span, search in self.enclosing)])
        return joined(found, beyond)

    def events(self) -> list[Timed]:
        """Every event so far, in order of time; with the last one when the trace is over."""
        timed: list[Timed] = [(self.began_at, self._started())]
        timed += sorted(self._between(), key=lambda each: each[0])
        if self.is_over:
            ended = max(self._at(max(span.ended for span in self.spans)), timed[-1][0])
            timed.append((ended, self._finished([event for _at, event in timed], ended)))
        return timed

    def _at(self, nanoseconds: int) -> datetime:
        moment = _EARLIEST
        if nanoseconds // 1_000_000_000 < 10**11:
            moment = datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)
            moment += timedelta(microseconds=nanoseconds % 1_000_000_000 // 1_000)
        return min(max(moment, _EARLIEST), self.now + _AHEAD)

    def _started(self) -> RunStarted:
        models = [call.model for _span, call in self.calls if call.model]
        vectors = [step.meaning.model for step in self.steps if isinstance(step.meaning, EmbeddingCall)]
        facts: dict[str, Any] = {
            "service": self.root.service,
            "span": self.root.name,
            "trace": self.root.trace,
            "instrumentation": ", ".join(sorted({step.span.scope for step in self.steps if step.span.scope})),
        }
        return RunStarted(STRATEGY, self.query, facts, "", models[0] if models else "", next(iter(vectors), ""))

    def _between(self) -> Iterator[Timed]:
        yield from self._rewritten()
        yield from self._found()
        before: tuple[PromptMessage, ...] = ()
        for turn, (span, call) in enumerate(self.calls, start=1):
            yield self._at(span.began), _turn(turn, call, before)
            yield self._at(span.ended), _reply(turn, span, call)
            before = call.messages
        asked = {call.name for _span, reply in self.calls for call in reply.tool_calls}
        tools = [(step.span, step.meaning) for step in self.steps if isinstance(step.meaning, ToolCallRun)]
        for span, tool in tools[:MOST_TOOLS]:
            yield self._at(span.ended), _used(span, tool, by_model=tool.name in asked)

    def _rewritten(self) -> Iterator[Timed]:
        for step in self.steps:
            if isinstance(step.meaning, RewriteCall):
                yield self._at(step.span.ended), _rewriting(step.span, step.meaning, self.query)

    def _found(self) -> Iterator[Timed]:
        """The searches, and what they found together."""
        if len(self.searches) > 1:
            for span, search in self.searches[:MOST_TOOLS]:
                yield self._at(span.ended), _search(span, search)
        for span, rerank in self.reranks[:MOST_TOOLS]:
            yield self._at(span.ended), _rerank(span, rerank)
        spans = [span for span, _search in self.searches] or [span for span, _rerank in self.reranks]
        if not spans:
            return
        ended = max(span.ended for span in spans)
        if not self.searches:
            # The reranker was handed what some search had found before.
            ended = min(span.began for span in spans)
        seconds = sum(span.seconds for span, _search in self.searches)
        count = sum(max(search.count, len(search.documents)) for _span, search in self.searches)
        yield self._at(ended), CandidatesFound(candidates(self.documents), count, seconds)

    def _finished(self, events: Sequence[Event], ended: datetime) -> RunFinished:
        chosen, why = self._chosen()
        scores = {id_of(each): each.score for each in self.documents}
        for _span, search in self.enclosing:
            scores |= {id_of(each): each.score for each in search.documents}
        for _span, rerank in self.reranks:
            scores |= {id_of(each): each.score for each in rerank.ranked}
        selected = tuple(Selected(id, rank, "", scores.get(id) or 0.0, 0) for rank, id in enumerate(chosen, start=1))
        given = {id_of(each) for _span, rerank in self.reranks for each in rerank.given}
        dropped = [id for each in self.documents if (id := id_of(each)) in given and id not in chosen]
        totals = replace(summarise(events), seconds=(ended - self.began_at).total_seconds())
        reranking = sum(span.seconds for span, _rerank in self.reranks)
        notes = (Note(why),) if why else ()
        return RunFinished(selected, tuple(dropped), "", totals=totals, rerank_seconds=reranking, notes=notes)

    def _chosen(self) -> tuple[list[str], str]:
        """The ids of what was chosen, best first, and a code that says by what that is known."""
        if self.enclosing and (returned := self.enclosing[0][1].documents):
            return [id_of(each) for each in once_each([returned])], "foreign_returned"
        if self.reranks:
            ranked = once_each([self.reranks[-1][1].ranked])
            return [id_of(each) for each in ranked], "foreign_reranked"
        if not self.documents:
            return [], ""
        last = max((span.ended for span, _search in self.searches), default=0)
        asked = [call for span, call in self.calls if span.ended >= last]
        sent = _one_line(message.content for call in asked for message in call.messages)
        if sent and any(each.text for each in self.documents):
            found = [id_of(each) for each in self.documents if _is_in(each, sent)]
            return found, "foreign_in_prompt"
        return [id_of(each) for each in self.documents], "foreign_all_found"


def _ancestors(id: str, parents: Mapping[str, str]) -> Iterator[str]:
    """The spans around a span, the nearest first; a circle, which only a fault makes, ends."""
    seen = {id}
    while (id := parents.get(id, "")) and id not in seen:
        seen.add(id)
        yield id


def _rewriting(span: SentSpan, rewrite: RewriteCall, query: str) -> QueryEnriched:
    call = rewrite.call
    return QueryEnriched(
        query=rewrite.query or query,
        enriched=rewrite.line or rewrite.query or query,
        note="",
        seconds=span.seconds,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cost_usd=call.cost_usd,
        model=call.model,
        cause=span.text("error.type"),
    )


def _is_wrapped(span: SentSpan, calls: Sequence[tuple[SentSpan, ModelCall]]) -> bool:
    """Whether the same call is reported again by a span inside this one: two instrumentations saw it."""
    return any(inner.parent == span.id and inner.trace == span.trace for inner, _call in calls)


def _one_line(texts: Iterable[str]) -> str:
    return " ".join(" ".join(text.split()) for text in texts)


def _is_in(document: ForeignDocument, sent: str) -> bool:
    words = " ".join(document.text.split())[:_RECOGNISED]
    return bool(words) and words in sent


def _turn(turn: int, call: ModelCall, before: Sequence[PromptMessage]) -> TurnStarted:
    """The turn with the messages that are new since the one before; with all, where it is another conversation."""
    continues = bool(before) and call.messages[: len(before)] == tuple(before)
    new = call.messages[len(before) :] if continues else call.messages
    return TurnStarted(turn, "auto" if call.has_tools else "none", "none", tuple(new))


def _reply(turn: int, span: SentSpan, call: ModelCall) -> ModelReplied:
    return ModelReplied(
        turn=turn,
        text=call.text,
        reasoning=call.reasoning,
        tool_calls=call.tool_calls,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cost_usd=call.cost_usd,
        seconds=span.seconds,
        model=call.model,
        finish_reason=call.finish_reason,
        error=span.fault,
        provider=call.provider,
        cached_tokens=call.cached_tokens,
        reasoning_tokens=call.reasoning_tokens,
    )


def _search(span: SentSpan, search: SearchCall) -> ToolUsed:
    found = tuple(dict.fromkeys(map(id_of, search.documents)))
    count = max(search.count, len(found))
    return _tool(span, {"query": search.query}, {"documents": count}, found)


def _rerank(span: SentSpan, rerank: RerankCall) -> ToolUsed:
    result = {"given": len(rerank.given), "kept": len(rerank.ranked)}
    return _tool(span, {"query": rerank.query, "model": rerank.model}, result)


def _used(span: SentSpan, tool: ToolCallRun, *, by_model: bool) -> ToolUsed:
    used = _tool(span, {"input": tool.arguments}, {"output": tool.result})
    return replace(used, tool=tool.name[:100], asked_by="model" if by_model else "agent")


def _tool(span: SentSpan, given: Mapping[str, Any], result: Mapping[str, Any], found: tuple[str, ...] = ()) -> ToolUsed:
    return ToolUsed(
        step=0,
        tool=span.name[:100],
        arguments=_short(given),
        result=_short(result),
        seconds=span.seconds,
        outcome="failed" if span.fault else "done",
        code=span.fault,
        topics=found,
    )


def _short(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that there are; long texts are cut."""
    cut = {name: value[:_LONGEST_VALUE] if isinstance(value, str) else value for name, value in values.items()}
    return {name: value for name, value in cut.items() if value != ""}
