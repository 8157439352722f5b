"""At most four steps over seven tools, from a question to an answer whose statements cite messages.

    plan       router_select, query_plan
    retrieve   search, rerank, fetch_docs, compose_context
    refine     the same once more, wider and in other words, where the sources speak of too little of the question
    answer     a model writes, and may search once more where a step is left; verify

Fewer steps leave out refine first, then plan. Whatever a tool fails to bring, the next one works with what there is.
Where every search was late, the question is searched for and answered once, as by *plain*."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from memoryapp.engine import events
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.chat.protocol import Reply
from memoryapp.engine.conversation import Conversation, Failure, TurnLimits
from memoryapp.engine.emit import Emit
from memoryapp.engine.kinds.react import Phase, StepStarted
from memoryapp.engine.memory import ANYWHERE
from memoryapp.engine.notes import Note
from memoryapp.engine.offline.judging import wants_several
from memoryapp.engine.prompts.prompt import language_of
from memoryapp.engine.strategies.react import toolbox
from memoryapp.engine.strategies.react.answering import Draft, conclusion, conversation, model_draft, verified
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.plain import answered_at_once
from memoryapp.engine.strategies.react.planning import Planning, route_of
from memoryapp.engine.strategies.react.searching import Searching, is_flat
from memoryapp.engine.strategies.react.statements import Statement
from memoryapp.engine.strategies.react.verifying import Verifying
from memoryapp.engine.strategies.strategy import Ports, PreparedSearch, StrategyRequest

# A second scoring is worth its time when there is much to choose from, or when the first one hardly distinguishes
# passages.
_MANY_HITS = 20
_FLAT_SCORES = 0.05
# How many documents are fetched.
_MOST_DOCUMENTS = 40
# The share of the remaining seconds that a question for further queries may take.
_PLANNERS_SHARE = 1 / 2
_NUMBERED = (events.TurnStarted, events.ModelReplied, events.TopicsRead, events.ModelProgress)

_READ_ON = {
    "en": "More sources:\n<sources>\n{}\n</sources>\n\nAnswer now, each sentence with the numbers of its sources.",
    "ru": "Ещё источники:\n<sources>\n{}\n</sources>\n\nТеперь ответь, каждое предложение — с номерами источников.",
}


async def recall(request: StrategyRequest[toolbox.ReactParameters], ports: Ports, emit: Emit) -> events.RunFinished:
    """Emits the query, the steps with their tools' results, the pool and the answer; returns the topics it cites."""
    line = events.QueryEnriched(request.query, request.query, note="no_model", seconds=0.0)
    prepared = await ports.search(await ports.enrich(emit) if ports.writer else line)
    emit(prepared.line)
    return await _Agent(request.read_as(prepared.line), ports, prepared, _Turns(emit).emit).work()


class _Turns:
    """Numbers the turns of all conversations of a run consecutively."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._before = self._last = 0

    def emit(self, event: events.Event | events.ModelProgress) -> None:
        if isinstance(event, events.TurnStarted) and event.turn == 1:
            self._before = self._last
        if isinstance(event, _NUMBERED):
            event = cast("events.Event | events.ModelProgress", replace(event, turn=event.turn + self._before))
            self._last = max(self._last, cast("events.TurnStarted", event).turn)
        self._emit(event)


class _Agent:
    """One run: its tools over one pool, and what they have found so far."""

    def __init__(
        self, request: StrategyRequest[toolbox.ReactParameters], ports: Ports, prepared: PreparedSearch, emit: Emit
    ) -> None:
        self._query, self._parameters, self._ports, self._emit = request.query, request.parameters, ports, emit
        self._request = request
        self._language = language_of(request.query)
        self._searching = searching = Searching(request.query, prepared, ports, request.parameters)
        self._pool = searching.pool
        self._composing = Composing(request.query, self._pool)
        planning = Planning(
            ports.writer,
            request.prompts,
            request.today.isoformat(),
            request.parameters.planner == "always",
            lambda: min(request.parameters.tool_seconds, ports.deadline.left * _PLANNERS_SHARE),
        )
        self._router = toolbox.AgentTool("router_select", toolbox.RouterInput, self._routed)
        self._planner = toolbox.AgentTool("query_plan", toolbox.PlanInput, planning.plan)
        self._search = toolbox.AgentTool("search", toolbox.SearchInput, searching.search, _SEARCH_PURPOSE)
        self._rerank = toolbox.AgentTool("rerank", toolbox.RerankInput, searching.rerank)
        self._fetch = toolbox.AgentTool("fetch_docs", toolbox.FetchInput, searching.fetch)
        self._compose = toolbox.AgentTool("compose_context", toolbox.ComposeInput, self._composing.compose)
        self._verifying = Verifying(
            self._composing,
            request.prompts,
            self._language,
            ports.deadline,
            min(request.parameters.tool_seconds, request.parameters.turn_seconds),
            ports.judge or ports.writer,
        )
        self._verify = toolbox.AgentTool("verify", toolbox.VerifyInput, self._verifying.verify, _VERIFY_PURPOSE)
        self._toolbox = toolbox.Toolbox(
            (self._router, self._planner, self._search, self._rerank, self._fetch, self._compose, self._verify),
            allowed=_allowed(request.parameters),
            seconds=request.parameters.tool_seconds,
            deadline=ports.deadline,
        )
        self._route = toolbox.RouterOutput(route="hybrid", meaning=1.0, words=1.0)
        self._line, self._guess = prepared.line.enriched, ANYWHERE
        self._queries: tuple[str, ...] = (request.query,)
        self._planned_hits: int | None = None
        self._coverage = 0.0

    async def _routed(self, asked: toolbox.RouterInput, emit: Emit) -> toolbox.RouterOutput:
        return route_of(asked.query, self._request.today)

    async def work(self) -> events.RunFinished:
        """Takes every step; returns the last event of the run. Raises SearchTimeout without any search in time."""
        if self._parameters.max_steps > 2:
            await self._plan()
        self._begin("retrieve")
        await self._look(self._queries, self._hits)
        is_little = self._coverage < self._parameters.enough_coverage
        if self._parameters.refine == "on" and is_little and self._has_step_left:
            await self._refine()
        if self._pool.is_empty:
            # Every search was late: no tools, in the seconds that are left.
            self._begin("answer")
            return await answered_at_once(self._request, self._searching, self._emit, (Note("searched_plainly"),))
        found = self._pool.event(self._parameters.candidates)
        self._emit(found)
        return await self._answer({candidate.id: candidate for candidate in found.candidates})

    @property
    def _hits(self) -> int:
        """How many passages a query brings at first: more where several things are asked for."""
        several = wants_several(self._query)
        return max(self._planned_hits or self._parameters.hits, self._parameters.wider_hits if several else 0)

    def _begin(self, phase: Phase) -> None:
        self._toolbox.step += 1
        self._emit(StepStarted(self._toolbox.step, self._parameters.max_steps, phase))

    @property
    def _has_step_left(self) -> bool:
        """Whether a step is left beside the one that answers."""
        return self._toolbox.step + 1 < self._parameters.max_steps

    async def _use(self, tool: toolbox.AgentTool[toolbox.Output], **arguments: Any) -> toolbox.Output | None:
        return await self._toolbox.use(tool, arguments, self._emit)

    async def _plan(self) -> None:
        self._begin("plan")
        self._route = await self._use(self._router, query=self._line[: toolbox.LONGEST_QUESTION]) or self._route
        self._guess = self._route.where
        if self._parameters.planner != "never":
            await self._ask_for_queries(found_little=False)

    async def _ask_for_queries(self, *, found_little: bool) -> None:
        most = self._parameters.subqueries
        if plan := await self._use(self._planner, query=self._query, most=most, found_little=found_little):
            self._queries = plan.queries[: toolbox.MOST_QUERIES]
            self._guess = self._guess.over(plan.where)
            self._planned_hits = plan.k_per_query

    async def _look(self, queries: tuple[str, ...], hits: int) -> None:
        """Searches, orders, reads and puts the sources together."""
        filters = {name: getattr(self._guess, name) for name in toolbox.Filters.model_fields}
        if self._parameters.date_filter == "off":
            filters |= {"since": "", "until": ""}
        await self._use(self._search, queries=queries, k=hits, route=self._route.route, **filters)
        if self._reads_again():
            ids, most = tuple(self._pool.order), self._parameters.rerank_hits
            await self._use(self._rerank, query=self._query, ids=ids, top_n=most)
        if self._pool.order:
            await self._put_together()

    def _reads_again(self) -> bool:
        """Whether the passages are scored a second time."""
        scores = [self._pool.passages[id].score for id in self._pool.order]
        is_due = len(scores) > _MANY_HITS or is_flat(scores, _FLAT_SCORES)
        return bool(scores) and (self._parameters.rerank == "always" or (self._parameters.rerank == "auto" and is_due))

    async def _put_together(self, *, beside: bool = False) -> None:
        """Numbers the best documents as sources, ``beside`` those that have a number already."""
        ids = tuple(self._pool.order[:_MOST_DOCUMENTS])
        await self._use(self._fetch, ids=ids)
        kept = {"beside": True} if beside else {}
        if made := await self._use(self._compose, ids=ids, max_tokens_ctx=self._parameters.context_tokens, **kept):
            self._coverage = made.coverage_est

    async def _refine(self) -> None:
        """Searches wider, without guessed filters, with other words if a model finds some; keeps earlier results."""
        self._begin("refine")
        guess = self._guess
        if self._ports.writer and self._parameters.planner != "never" and not self._pool.is_empty:
            await self._ask_for_queries(found_little=True)
        if guess:
            self._searching.widened, self._guess = guess, ANYWHERE
        await self._look(self._queries, self._parameters.wider_hits)

    async def _answer(self, candidates: Mapping[str, Candidate]) -> events.RunFinished:
        self._begin("answer")
        written = await self._write()
        draft = await self._check(written) if written else None
        answer, end = conclusion(self._request, self._searching, self._composing, draft, candidates)
        self._emit(answer)
        return end

    async def _check(self, draft: Draft) -> Draft:
        """The draft without what its sources do not bear out."""
        statements, most = draft.statements.kept, self._parameters.claims
        if self._parameters.verify == "off" or not statements:
            return draft
        await self._verifying.judge(statements[:most], self._emit)
        draft = await verified(draft, most, self._checked)
        judge, writer = self._ports.judge, self._ports.writer
        is_other = draft.judged and judge and writer and judge.model != writer.model
        return replace(draft, judge=judge.model) if judge and is_other else draft

    async def _checked(self, statement: Statement) -> toolbox.VerifyOutput | None:
        asked = self._verifying.question(statement, self._parameters.claim_evidence)
        return await self._use(self._verify, **asked.model_dump())

    async def _write(self) -> Draft | None:
        """A model's answer, None when it gives none; the model may search while a step is left."""
        if not (self._ports.writer and self._composing.sources):
            return None
        limits = TurnLimits(self._ports.deadline.left, self._parameters.turn_seconds)
        tools = self._toolbox.model_tools()
        reply = await self._written(conversation(self._request, self._composing, self._ports.writer, limits, tools))
        if reply is None or not reply.text.strip():
            return None
        return replace(model_draft(reply.text, self._composing.sources), cut=reply.is_at_limit)

    async def _written(self, conversation: Conversation) -> Reply | None:
        """The reply with which the conversation ends; None when it fails."""
        while True:
            may_search = self._toolbox.step < self._parameters.max_steps
            outcome = await conversation.turn(self._emit, tool_choice="auto" if may_search else "none")
            if isinstance(outcome, Failure):
                return None
            if not (outcome.tool_calls and may_search):
                return outcome
            if await conversation.answer_calls(outcome, self._emit):
                return None
            await self._read_on(conversation)

    async def _read_on(self, conversation: Conversation) -> None:
        """Numbers what the model has found beside its sources; the model answers in the next step."""
        known = set(self._composing.sources)
        await self._put_together(beside=True)
        new = {number: text for number, text in self._composing.texts.items() if number not in known}
        conversation.say(_READ_ON[self._language].format("\n\n".join(new.values())))
        self._begin("answer")


_SEARCH_PURPOSE = "Search the memory once more, for what the sources do not say. New sources are numbered for you."
_VERIFY_PURPOSE = "Check a claim against the messages found before you make it."


def _allowed(parameters: toolbox.ReactParameters) -> frozenset[str]:
    """The tools that this run may use."""
    optional = {
        "query_plan": parameters.planner != "never",
        "rerank": parameters.rerank != "never",
        "verify": parameters.verify == "on",
    }
    always = {"router_select", "search", "fetch_docs", "compose_context"}
    return frozenset(always | {name for name, is_allowed in optional.items() if is_allowed})
