"""Claims a run and turns its row into the request that ``recall`` takes.

When two processes want the same run, one of them gets it: the claim is a compare-and-set. Whatever the row only refers
to is loaded after the claim: the bytes of its media, the prompts and the events of a fork's parent. So if something it
refers to is missing, the run ends with a last event, as after any other fault."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.beside import table_beside
from memoryapp.engine.cells import cell, within
from memoryapp.engine.events import MediaItem, from_payload
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.memory import Background, MessageContent, parse_topic_id, topic_id
from memoryapp.engine.prompt_registry import prompts_of_runs
from memoryapp.engine.prompts.prompt import PromptBook
from memoryapp.engine.sight import EVERYTHING, looking
from memoryapp.memory import content, past
from memoryapp.models import Prompt
from memoryapp.platform import database
from memoryapp.platform.database import array, in_thread
from memoryapp.platform.llm import prompt_versions
from memoryapp.runs.parameters import of_run, strategy_named
from memoryapp.runs.recall.request import RecallRequest, Replayed
from memoryapp.runs.replays import labels as labels_of
from memoryapp.runs.replays import left_out, replay, text_labelled, with_messages
from memoryapp.search.memory_index import Version

_SQL = table_beside(__file__)
CLAIM: str = _SQL["claim"].format(background=content.BACKGROUND, texts=prompt_versions.IN_FORCE)
NUMBERS = "SELECT external_id, id FROM memoryapp_message WHERE owner_id = %s AND external_id = ANY(%s)"
EVENTS: str = _SQL["events"]
BACKGROUND: str = _SQL["background"].format(background=content.BACKGROUND)
FIRST_ASKED: str = _SQL["first_asked"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The row of a run that this process executes."""

    run_id: UUID
    owner_id: int
    query: str
    strategy: str
    parameters: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]] | None
    media: Sequence[Mapping[str, Any]]
    parent_id: UUID | None
    turn: int | None
    changes: Mapping[str, Any]
    prompt_id: int | None
    attempt: int
    profile: str
    talk: int
    background: Mapping[str, Any]
    texts: Sequence[Mapping[str, Any]] | None
    last_edit: int | None
    edited_at: datetime | None
    project: str

    @property
    def version(self) -> Version:
        """The state of the owner's memory."""
        return self.last_edit, self.edited_at, self.talk


async def claim(run_id: UUID, pool: AsyncConnectionPool) -> Claim | None:
    """The run, with its state set to running; None when another process claimed it, or when it has ended."""
    async with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Claim))
        claimed = await (
            await cursor.execute(CLAIM, {"run": run_id, "prompts": list(prompts_of_runs()), **content.HOW_MUCH})
        ).fetchone()
    if claimed is None or not claimed.project:
        return claimed
    asked = {"owner": claimed.owner_id, "is_given": claimed.messages is not None, **content.HOW_MUCH}
    with looking(EVERYTHING.within(claimed.project)):
        async with pool.connection() as connection:
            found = await (await connection.execute(BACKGROUND, asked)).fetchone()
    return replace(claimed, background=found[0] if found else {})


async def request_of(claimed: Claim, pool: AsyncConnectionPool) -> RecallRequest:
    """The request of the run, made from the rows as they are now. Raises what loading of media and prompts raises."""
    prompts = prompt_versions.book(claimed.texts)
    sources = _Sources(prompts)
    if claimed.messages is not None or claimed.parent_id or claimed.prompt_id:
        async with pool.connection() as connection:
            sources = await _sources(connection, claimed, prompts)
    items = [MediaItem(**item) for item in claimed.media]
    found = claimed.background
    if moment := sources.replayed.as_of:
        found = {**found, **await in_thread(past.background_at, claimed.owner_id, datetime.fromisoformat(moment))}
    background = content.background(found, profile=claimed.profile, messages=sources.messages)
    replayed = sources.replayed
    if not {*background.never} <= {*sources.never}:
        replayed = await in_thread(_recallable, claimed.owner_id, replayed, background)
    return RecallRequest(
        owner_id=claimed.owner_id,
        query=claimed.query,
        strategy=claimed.strategy,
        parameters=of_run(claimed.parameters, strategy_named(claimed.strategy)),
        today=sources.today or datetime.now(UTC).date(),
        background=background,
        run_id=claimed.run_id,
        version=claimed.version,
        messages=sources.messages,
        media=tuple([await in_thread(content.read, claimed.owner_id, item) for item in items]),
        prompts=sources.prompts,
        parent=str(claimed.parent_id or ""),
        replayed=replayed,
        model=claimed.changes.get("model", ""),
    ).permitted


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a run takes from rows other than its own; most runs take only the prompts in force. ``never`` is what its
    parent was not to recall."""

    prompts: PromptBook
    messages: tuple[MessageContent, ...] | None = None
    replayed: Replayed = Replayed()
    today: date | None = None
    never: tuple[str, ...] = ()


def _recallable(owner_id: int, replayed: Replayed, background: Background) -> Replayed:
    """The same without what somebody decided since never to recall, in candidates and in what describes the user."""
    ranked = replayed.found.candidates if replayed.found else ()
    numbers = [number for each in ranked if (number := parse_topic_id(each.id))]
    gone = [*map(topic_id, past.never_among(owner_id, numbers)), *background.never]
    return left_out(replace(replayed, enrich_variables={}, rerank_variables={}), gone)


async def _sources(connection: psycopg.AsyncConnection[Any], claimed: Claim, prompts: PromptBook) -> _Sources:
    messages = await _conversation(connection, claimed)
    stored = await in_thread(Prompt.objects.get, pk=claimed.prompt_id) if claimed.prompt_id else None
    if claimed.parent_id is None:
        book = prompt_versions.book_with(prompts, stored) if stored else prompts
        moment = claimed.changes.get("as_of", "")
        today = datetime.fromisoformat(moment).date() if moment else None
        return _Sources(book, messages, Replayed(as_of=moment), today)
    rows = await (await connection.execute(EVENTS, [claimed.owner_id, claimed.parent_id])).fetchall()
    events = with_messages([(from_payload(kind, payload), raw) for kind, payload, raw in rows])
    labels = [*labels_of(events), claimed.changes.get("prompt") or str(stored or "")]
    named = {"owner": claimed.owner_id, "run": claimed.parent_id}
    asked, moment = await (await connection.execute(FIRST_ASKED, named)).fetchone() or (None, None)
    turn = claimed.turn if claimed.turn is not None else 0 if stored and stored.name == ENRICH.name else 1
    changes = {**claimed.changes, **({"prompt": str(stored)} if stored else {})}
    replayed = replay(events, turn, changes)
    return _Sources(
        prompts=await in_thread(_as_sent, prompts, labels),
        messages=messages,
        replayed=replayed if replayed.as_of else replace(replayed, as_of=moment or ""),
        today=asked.astimezone(UTC).date() if asked else None,
        never=next((event.never for event in events if isinstance(event, DecisionsApplied)), ()),
    )


def _as_sent(prompts: PromptBook, labels: Sequence[str]) -> PromptBook:
    """The prompts in force, except for those with a label, of which the last counts."""
    texts = [text for label in labels if (text := text_labelled(label))]
    return {**prompts, **{(text.name, text.language): text for text in texts}}


async def _conversation(connection: psycopg.AsyncConnection[Any], claimed: Claim) -> tuple[MessageContent, ...] | None:
    """The running conversation that came with the query; None stands for the active session. A message that the memory
    contains is identified by its number there; the others are numbered from -1 downwards."""
    if claimed.messages is None:
        return None
    names = [str(message["id"]) for message in claimed.messages if message.get("id")]
    rows = await (await connection.execute(NUMBERS, [claimed.owner_id, names])).fetchall()
    numbers = dict(rows)
    return tuple(
        _content(message, numbers.get(str(message.get("id")), -place))
        for place, message in enumerate(claimed.messages, start=1)
    )


def _content(message: Mapping[str, Any], number: int) -> MessageContent:
    moment = message.get("ts")
    return MessageContent(
        id=number,
        role=str(message.get("role") or "user"),
        author=str(message.get("author") or ""),
        sent_at=datetime.fromisoformat(moment) if moment else datetime.now(UTC),
        text=str(message.get("text") or ""),
        forwarded_from=str(message.get("forwarded_from") or ""),
    )


# Leases: the process that executes a run regularly renews the run's lease, a time in its row. A sweep closes runs
# whose lease has lapsed.
#
# One statement renews the leases of all runs of an event loop. With a statement for each run, hundreds of slow runs
# would keep the database busy with little else. The rows it returns also name the person who asked for the end of a
# run.

# How long a lease lasts without being renewed, and how often it is renewed.
LEASE = timedelta(seconds=15)
RENEWED_EVERY = 3.0
RENEW: str = _SQL["renew"]

logger = logging.getLogger(__name__)


class Leases:
    """The leases of the runs of one event loop."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool
        self._runs: dict[UUID, tuple[int, Callable[[str], None]]] = {}
        self._renewing: asyncio.Task[None] | None = None

    @contextmanager
    def renewal(self, run_id: UUID, stop: Callable[[str], None]) -> Iterator[None]:
        """Renews the run's lease, which its claim began, while the body lasts. ``stop`` is called with the name of the
        person who asked for the end of the run, or with an empty name."""
        self._runs[run_id] = cell() or 0, stop
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            del self._runs[run_id]

    async def _renew(self) -> None:
        """Runs until there is no run left to renew; the next run starts it again."""
        while self._runs:
            await asyncio.sleep(RENEWED_EVERY)
            if self._runs:
                await self._renew_all()

    async def _renew_all(self) -> None:
        for number in {number for number, _stop in self._runs.values()}:
            renewed = [run_id for run_id, (of_run, _stop) in self._runs.items() if of_run == number]
            try:
                with within(number):
                    async with self._pool.connection() as connection:
                        rows = await (await connection.execute(RENEW, [array(renewed)])).fetchall()
            except psycopg.Error as error:
                logger.warning("the leases of %s runs are not renewed: %s", len(renewed), error)
                continue
            for run_id, stopped_by in rows:
                if run_id in self._runs:
                    self._runs[run_id][1](stopped_by)

    async def close(self) -> None:
        """Stops renewing, because the event loop ends."""
        if self._renewing:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))


@asynccontextmanager
async def open_leases() -> AsyncIterator[Leases]:
    """Leases that end with the body. They have a connection of their own: queued behind hundreds of runs, a renewal
    would come too late for all of them."""
    async with database.pool(is_single=True) as pool:
        leases = Leases(pool)
        try:
            yield leases
        finally:
            await leases.close()
