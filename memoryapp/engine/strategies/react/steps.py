"""At most four steps over seven tools, from a question to an answer whose statements cite messages.

    plan       router_select, query_plan
    retrieve   search, rerank, fetch_docs, compose_context
    refine     the same once more, wider and in other words, where the sources speak of too little of the question
    answer     a model writes, and may search once more where a step is left; verify

Fewer steps leave out refine first, then plan. Whatever a tool fails to bring, the next one works with what there is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.conversation import Conversation, TurnLimits
from memoryapp.engine.events import Event, ModelProgress, ModelReplied, QueryEnriched, TopicsRead, TurnStarted
from memoryapp.engine.kinds.react import Phase, StepStarted
from memoryapp.engine.notes import Note
from memoryapp.engine.prompts import language_of, topic_number
from memoryapp.engine.strategies.ports import Ports, PreparedSearch, SearchTimeout, StrategyRequest
from memoryapp.engine.strategies.react.answering import Draft, answer_event, end_event, extractive_draft, model_draft
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.parameters import ReactParameters
from memoryapp.engine.strategies.react.planning import Planning
from memoryapp.engine.strategies.react.router import route_of
from memoryapp.engine.strategies.react.searching import Searching, is_flat
from memoryapp.engine.strategies.react.shapes import (
    MOST_QUERIES,
    ComposeInput,
    ComposeOutput,
    FetchInput,
    PlanInput,
    PlanOutput,
    RerankInput,
    RouterInput,
    RouterOutput,
    SearchInput,
    VerifyInput,
    VerifyOutput,
)
from memoryapp.engine.strategies.react.toolbox import AgentTool, Emit, Toolbox
from memoryapp.engine.text.lines import quoted

Events = AsyncGenerator[Event | ModelProgress, None]

# A second scoring is worth its time when there is much to choose from, or when the first one hardly distinguishes
# passages.
_MANY_HITS = 20
_FLAT_SCORES = 0.05
# How many documents are fetched, and how many topics are judged when no model writes.
_MOST_DOCUMENTS = 40
_MOST_TOPICS = 12
_NUMBERED = (TurnStarted, ModelReplied, TopicsRead, ModelProgress)

_READ_ON = {
    "en": "More sources:\n{}\n\nAnswer now, each sentence with the numbers of its sources.",
    "ru": "Ещё источники:\n{}\n\nТеперь ответь, каждое предложение — с номерами источников.",
}


async def recall(request: StrategyRequest[ReactParameters], ports: Ports) -> AsyncIterator[Event | ModelProgress]:
    """The events: the query, the steps with the results of their tools, the pool, the answer, and the topics that it
    cites."""
    line = QueryEnriched(request.query, request.query, note="no_model", seconds=0.0)
    if ports.writer:
        async with aclosing(ports.enrich()) as steps:
            async for step in steps:
                if isinstance(step, QueryEnriched):
                    line = step
                else:
                    yield step
    prepared = await ports.search(line)
    yield prepared.line
    turns = _Turns()
    async with aclosing(_Agent(request, ports, prepared).work()) as events:
        async for event in events:
            yield turns.numbered(event)


class _Turns:
    """Numbers the turns of all conversations of a run consecutively."""

    def __init__(self) -> None:
        self._before = self._last = 0

    def numbered(self, event: Event | ModelProgress) -> Event | ModelProgress:
        if isinstance(event, TurnStarted) and event.turn == 1:
            self._before = self._last
        if isinstance(event, _NUMBERED):
            event = cast("Event | ModelProgress", replace(event, turn=event.turn + self._before))
            self._last = max(self._last, cast("TurnStarted", event).turn)
        return event


class _Agent:
    """One run: its tools over one pool, and what they have found so far."""

    def __init__(self, request: StrategyRequest[ReactParameters], ports: Ports, prepared: PreparedSearch) -> None:
        self._query, self._parameters, self._ports = request.query, request.parameters, ports
        self._request = request
        self._language = language_of(request.query)
        self._searching = Searching(request.query, prepared, ports, request.parameters)
        self._pool = self._searching.pool
        self._composing = Composing(request.query, self._pool)
        self._planning = Planning(
            ports.writer,
            request.prompts,
            request.today.isoformat(),
            request.parameters.planner == "always",
            lambda: max(min(request.parameters.tool_seconds, ports.budget.left), 0.0),
        )
        self._toolbox = Toolbox(
            self._tools(),
            allowed=_allowed(request.parameters),
            seconds=request.parameters.tool_seconds,
            left=lambda: ports.budget.left,
        )
        self._route = RouterOutput(route="hybrid", meaning=1.0, words=1.0)
        self._queries: tuple[str, ...] = (request.query,)
        self._coverage = 0.0
        self._draft: Draft | None = None

    def _tools(self) -> tuple[AgentTool, ...]:
        return (
            AgentTool("router_select", RouterInput, self._routed),
            AgentTool("query_plan", PlanInput, self._planning.plan),
            AgentTool("search", SearchInput, self._searching.search, _SEARCH_PURPOSE),
            AgentTool("rerank", RerankInput, self._searching.rerank),
            AgentTool("fetch_docs", FetchInput, self._searching.fetch),
            AgentTool("compose_context", ComposeInput, self._composing.compose),
            AgentTool("verify", VerifyInput, self._composing.verify, _VERIFY_PURPOSE),
        )

    async def _routed(self, asked: RouterInput, emit: Emit) -> RouterOutput:
        return route_of(asked.query, self._request.today)

    async def work(self) -> Events:
        """Every event from the first step to the last event of the run. Raises SearchTimeout when every
        search is late."""
        most = self._parameters.max_steps
        if most > 2:
            async for event in self._plan():
                yield event
        yield self._step("retrieve")
        async for event in self._look(self._queries, self._parameters.hits):
            yield event
        if self._looks_again():
            async for event in self._refine():
                yield event
        if self._pool.is_empty:
            raise SearchTimeout
        found = self._pool.event(self._parameters.candidates)
        yield found
        candidates = {candidate.id: candidate for candidate in found.ranked()}
        async for event in self._answer(candidates):
            yield event

    def _step(self, phase: Phase) -> StepStarted:
        self._toolbox.step += 1
        return StepStarted(self._toolbox.step, self._parameters.max_steps, phase)

    @property
    def _has_step_left(self) -> bool:
        """Whether a step is left beside the one that answers."""
        return self._toolbox.step + 1 < self._parameters.max_steps

    async def _use(self, name: str, arguments: Mapping[str, Any]) -> Events:
        async with aclosing(self._toolbox.use(name, arguments)) as events:
            async for event in events:
                yield event

    async def _plan(self) -> Events:
        yield self._step("plan")
        async for event in self._use("router_select", {"query": self._query}):
            yield event
        if isinstance(self._toolbox.result, RouterOutput):
            self._route = self._toolbox.result
        if self._parameters.planner != "never":
            async for event in self._ask_for_queries(found_little=False):
                yield event

    async def _ask_for_queries(self, *, found_little: bool) -> Events:
        wanted = {"query": self._query, "most": self._parameters.subqueries, "found_little": found_little}
        async for event in self._use("query_plan", wanted):
            yield event
        if isinstance(self._toolbox.result, PlanOutput):
            self._queries = self._toolbox.result.queries[:MOST_QUERIES]

    async def _look(self, queries: tuple[str, ...], hits: int) -> Events:
        """Searches, orders, reads and puts the sources together."""
        filters = self._route.model_dump(include={"since", "until", "channels", "authors"})
        if self._parameters.date_filter == "off":
            filters |= {"since": "", "until": ""}
        wanted = {"queries": queries, "k": hits, "route": self._route.route, **filters}
        async for event in self._use("search", wanted):
            yield event
        if self._reads_again():
            async for event in self._use(
                "rerank",
                {"query": self._query, "ids": tuple(self._pool.order), "top_n": self._parameters.rerank_hits},
            ):
                yield event
        async for event in self._put_together():
            yield event

    def _reads_again(self) -> bool:
        """Whether the passages are scored a second time."""
        scores = [self._pool.passages[id].score for id in self._pool.order]
        is_due = len(scores) > _MANY_HITS or is_flat(scores, _FLAT_SCORES)
        return bool(scores) and (self._parameters.rerank == "always" or (self._parameters.rerank == "auto" and is_due))

    async def _put_together(self) -> Events:
        ids = tuple(self._pool.order[:_MOST_DOCUMENTS])
        if not ids:
            return
        async for event in self._use("fetch_docs", {"ids": ids}):
            yield event
        async for event in self._use(
            "compose_context", {"ids": ids, "max_tokens_ctx": self._parameters.context_tokens}
        ):
            yield event
        if isinstance(self._toolbox.result, ComposeOutput):
            self._coverage = self._toolbox.result.coverage_est

    def _looks_again(self) -> bool:
        is_little = self._coverage < self._parameters.enough_coverage
        return self._parameters.refine == "on" and is_little and self._has_step_left

    async def _refine(self) -> Events:
        """Searches wider, and with other words if a model finds some; earlier results are kept."""
        yield self._step("refine")
        if self._ports.writer and self._parameters.planner != "never":
            async for event in self._ask_for_queries(found_little=True):
                yield event
        async for event in self._look(self._queries, self._parameters.wider_hits):
            yield event

    async def _answer(self, candidates: Mapping[str, Candidate]) -> Events:
        yield self._step("answer")
        if self._ports.writer and self._composing.sources:
            async for event in self._write():
                yield event
        draft = self._draft or await self._extract(candidates)
        checks: list[VerifyOutput] = []
        if self._parameters.verify == "on":
            for claim in draft.claims[: self._parameters.claims]:
                wanted = {"claim": claim[:_LONGEST_CLAIM], "top_k": self._parameters.claim_evidence}
                async for event in self._use("verify", wanted):
                    yield event
                if isinstance(self._toolbox.result, VerifyOutput):
                    checks.append(self._toolbox.result)
        support = sum(check.verified for check in checks) / len(checks) if checks else None
        extracts = draft.statements.sources.values()
        coverage = self._composing.coverage(extracts) if draft.by == "extracts" else self._coverage
        answer = answer_event(draft, coverage, support, self._parameters, self._language)
        yield answer
        yield end_event(answer, draft, candidates, self._pool.baseline)

    async def _extract(self, candidates: Mapping[str, Candidate]) -> Draft:
        """The answer without a model's words, out of whole topics."""
        wanted = list(dict.fromkeys(document.topic for document in self._composing.sources.values()))[:_MOST_TOPICS]
        topics = await self._ports.read_topics([topic_number(id) for id in wanted]) if wanted else ()
        why = Note("model_failed" if self._ports.writer else "extracts_only")
        return extractive_draft(
            self._composing.question_terms, self._composing.sources, topics, candidates, self._language, why
        )

    async def _write(self) -> Events:
        """A model's answer; the model may search while a step is left. ``_draft`` stays None when it gives none."""
        assert self._ports.writer
        budget = self._ports.budget
        conversation = Conversation(
            self._ports.writer,
            self._request.prompts["answer", self._language],
            {
                "today": self._request.today.isoformat(),
                "query": quoted(self._query.strip()),
                "sources": _numbered(self._composing.texts),
            },
            limits=TurnLimits(max(budget.left, 0.0), self._parameters.turn_seconds),
            tools=self._toolbox.model_tools(),
        )
        while True:
            may_search = self._toolbox.step < self._parameters.max_steps
            async with aclosing(conversation.turn(tool_choice="auto" if may_search else "none")) as events:
                async for event in events:
                    yield event
            reply = conversation.reply
            if conversation.failure or not reply or not (reply.tool_calls and may_search):
                break
            async for event in conversation.answer_calls():
                yield event
            async for event in self._read_on(conversation):
                yield event
        budget.charge(conversation.budget.spent)
        if reply and reply.text.strip() and not conversation.failure:
            self._draft = model_draft(reply.text, self._composing.sources)

    async def _read_on(self, conversation: Conversation) -> Events:
        """Numbers what the model has found beside its sources; the model answers in the next step."""
        known = set(self._composing.sources)
        ids = tuple(self._pool.order[:_MOST_DOCUMENTS])
        async for event in self._use("fetch_docs", {"ids": ids}):
            yield event
        wanted = {"ids": ids, "max_tokens_ctx": self._parameters.context_tokens, "beside": True}
        async for event in self._use("compose_context", wanted):
            yield event
        if isinstance(self._toolbox.result, ComposeOutput):
            self._coverage = self._toolbox.result.coverage_est
        new = {number: text for number, text in self._composing.texts.items() if number not in known}
        conversation.say(_READ_ON[self._language].format(_numbered(new)))
        yield self._step("answer")


_LONGEST_CLAIM = 1_000
_SEARCH_PURPOSE = "Search the memory once more, for what the sources do not say. New sources are numbered for you."
_VERIFY_PURPOSE = "Check a claim against the messages found before you make it."


def _allowed(parameters: ReactParameters) -> frozenset[str]:
    """The tools that this run may use."""
    optional = {
        "query_plan": parameters.planner != "never",
        "rerank": parameters.rerank != "never",
        "verify": parameters.verify == "on",
    }
    always = {"router_select", "search", "fetch_docs", "compose_context"}
    return frozenset(always | {name for name, is_allowed in optional.items() if is_allowed})


def _numbered(texts: Mapping[int, str]) -> str:
    return "\n\n".join(f"[{number}] {text}" for number, text in texts.items())
