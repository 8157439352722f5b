"""Claims a run and turns its row into the request that ``recall`` takes.

When two processes want the same run, one of them gets it: the claim is a compare-and-set. Whatever the row only refers
to is loaded after the claim: the bytes of its media, the prompt to try, the events to replay. So if something it refers
to is missing, the run ends with a last event, as after any other fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from memoryapp import media, prompt_versions, reading
from memoryapp.engine.events import MediaItem, from_payload
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts import PromptBook
from memoryapp.models import Prompt
from memoryapp.operations.database import in_thread
from memoryapp.runs import trials
from memoryapp.runs.parameters import of_run, strategy_named
from memoryapp.runs.recall.request import RecallRequest, Replayed
from memoryapp.search.index_cache import Edit

# The same round trip reads what the run begins with.
CLAIM = f"""
WITH asked AS (
    UPDATE memoryapp_run AS run SET state = 'running', heartbeat_at = now()
    FROM memoryapp_chatuser AS u WHERE run.id = %(run)s AND run.state = 'pending' AND u.id = run.owner_id
    RETURNING run.id AS run_id, run.owner_id, run.query, run.strategy, run.parameters, run.messages, run.media,
              run.parent_id, run.prompt_id, u.profile
)
SELECT asked.*, {reading.BACKGROUND} AS background, {prompt_versions.IN_FORCE} AS texts,
       last_edit.id AS last_edit, last_edit.at AS edited_at
FROM asked LEFT JOIN LATERAL (
    SELECT id, at FROM memoryapp_topicedit WHERE owner_id = asked.owner_id ORDER BY id DESC LIMIT 1
) AS last_edit ON true
"""
NUMBERS = "SELECT external_id, id FROM memoryapp_message WHERE owner_id = %s AND external_id = ANY(%s)"
EVENTS = "SELECT kind, payload FROM memoryapp_runevent WHERE owner_id = %s AND run_id = %s ORDER BY seq"


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
    prompt_id: int | None
    profile: str
    background: Mapping[str, Any]
    texts: Sequence[Mapping[str, Any]] | None
    last_edit: int | None
    edited_at: datetime | None

    @property
    def edit(self) -> Edit:
        """The last edit of the owner's topics."""
        return (self.last_edit, self.edited_at) if self.last_edit and self.edited_at else None


async def claim(run_id: UUID, pool: AsyncConnectionPool) -> Claim | None:
    """The run, with its state set to running; None when another process claimed it, or when it has ended."""
    async with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Claim))
        return await (await cursor.execute(CLAIM, {"run": run_id, **reading.HOW_MUCH})).fetchone()


async def request_of(claimed: Claim, pool: AsyncConnectionPool) -> RecallRequest:
    """The request of the run, made from the rows as they are now. Raises what loading of media and prompts raises."""
    prompts = prompt_versions.book(claimed.texts)
    sources = _Sources(prompts)
    if claimed.messages is not None or claimed.parent_id or claimed.prompt_id:
        async with pool.connection() as connection:
            sources = await _sources(connection, claimed, prompts)
    items = [MediaItem(**item) for item in claimed.media]
    return RecallRequest(
        owner_id=claimed.owner_id,
        query=claimed.query,
        strategy=claimed.strategy,
        parameters=of_run(claimed.parameters, strategy_named(claimed.strategy)),
        today=datetime.now(UTC).date(),
        background=reading.background(claimed.background, profile=claimed.profile, messages=sources.messages),
        run_id=claimed.run_id,
        edit=claimed.edit,
        messages=sources.messages,
        media=tuple([await media.load(claimed.owner_id, item) for item in items]),
        prompts=sources.prompts,
        parent=str(claimed.parent_id or ""),
        replayed=sources.replayed,
    )


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a run takes from rows other than its own; most runs take only the prompts in force."""

    prompts: PromptBook
    messages: tuple[MessageContent, ...] | None = None
    replayed: Replayed = Replayed()


async def _sources(connection: psycopg.AsyncConnection[Any], claimed: Claim, prompts: PromptBook) -> _Sources:
    tried = await in_thread(Prompt.objects.get, pk=claimed.prompt_id) if claimed.prompt_id else None
    return _Sources(
        prompts=prompt_versions.book_with(prompts, tried) if tried else prompts,
        messages=await _conversation(connection, claimed),
        replayed=await _replayed(connection, claimed, tried),
    )


async def _conversation(connection: psycopg.AsyncConnection[Any], claimed: Claim) -> tuple[MessageContent, ...] | None:
    """The running conversation that came with the query; None stands for the active session.

    A message that the memory contains is identified by its number there; the others are numbered from -1 downwards.
    """
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


async def _replayed(connection: psycopg.AsyncConnection[Any], claimed: Claim, tried: Prompt | None) -> Replayed:
    """What the new run takes from the run it tries again: everything before the prompt ``tried``, or before the
    reranker's prompt."""
    if claimed.parent_id is None:
        return Replayed()
    rows = await (await connection.execute(EVENTS, [claimed.owner_id, claimed.parent_id])).fetchall()
    events = [from_payload(kind, payload) for kind, payload in rows]
    return trials.replay(events, tried.name if tried else Prompt.Name.RERANK.value)
