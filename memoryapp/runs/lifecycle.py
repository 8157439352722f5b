"""Starts and executes runs.

``start`` inserts the run's row. ``execute`` claims the run, receives its events and records them, in whichever process
it is called; when several processes call it, one of them executes the run. A run that no process has claimed for a few
seconds is ``unclaimed``, and the worker executes it. A run whose process died meanwhile is closed (``closing``)."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem, ModelProgress
from memoryapp.engine.json_values import storable
from memoryapp.engine.sight import EVERYTHING, into, looking, sight
from memoryapp.engine.strategies import DEFAULT
from memoryapp.memory import content as media_store
from memoryapp.models import ApiToken, ChatUser, Evaluation, Prompt, Run
from memoryapp.platform import database
from memoryapp.platform.caps import check_cap
from memoryapp.platform.database import in_thread
from memoryapp.platform.logs import about_run
from memoryapp.runs import endings
from memoryapp.runs.claims import Claim, claim, request_of
from memoryapp.runs.clients import Clients
from memoryapp.runs.endings import Stopped
from memoryapp.runs.journal import Recorder, RunClosed
from memoryapp.runs.notices import Announce, ignore
from memoryapp.runs.parameters import ParameterError, of_memory, strategy_for_new_run, to_store
from memoryapp.runs.recall.stages import Emitted, recall

UNCLAIMED_AFTER = timedelta(seconds=3)
# A run from further in the future was requested while a clock was ahead.
FURTHEST_AHEAD = timedelta(days=1)
LONGEST_QUERY = 4_000
LOOK_AGAIN = 0.2
# Seconds beyond those of the run itself: for its search, and for the sweep that closes abandoned runs.
PATIENCE = 60.0

logger = logging.getLogger(__name__)


class TooManyRuns(Exception):
    """The token already has as many runs in flight as it may have; the text is a sentence for programs."""


def begin(token: ApiToken, owner: ChatUser, query: str, *, media: Sequence[MediaContent] = (), **asked: Any) -> Run:
    """``start`` for a program, with its token; stores the ``media``. Raises TooManyRuns, ParameterError."""
    stored = [media_store.store(owner, item) for item in media]
    with room_for(token):
        return start(owner, query, token=token, media=stored, **asked)


@contextmanager
def room_for(token: ApiToken) -> Iterator[None]:
    """A transaction in which the token may start one run, one request after another. Raises TooManyRuns."""
    with transaction.atomic():
        database.acquire_until_commit("runs of token", token.pk)
        in_flight = Run.objects.made_here().filter(token=token).exclude(state=Run.State.FINISHED).count()
        if in_flight >= settings.API_MAX_RUNS:
            raise TooManyRuns(f"This token has {in_flight} runs in flight; wait for some to end.")
        yield


def start(
    owner: ChatUser,
    query: str,
    *,
    strategy: str = DEFAULT.name,
    parameters: Mapping[str, Any] | None = None,
    operator: User | None = None,
    evaluation: Evaluation | None = None,
    token: ApiToken | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    media: Sequence[MediaItem] = (),
    parent: Run | None = None,
    turn: int | None = None,
    changes: Mapping[str, Any] | None = None,
    prompt: Prompt | None = None,
    evidence: Sequence[int] = (),
    as_of: datetime | None = None,
    traceparent: str = "",
    project: str | None = None,
) -> Run:
    """A new run that waits to be executed. Raises ParameterError for an unknown strategy or parameter, and
    CapReached.

    ``messages`` is the running conversation (``id, role, author, ts, text``), None the active session; ``media`` is
    stored already. ``traceparent`` names the span of the caller. ``as_of`` is the moment whose memory is searched;
    nothing that was said later is a conversation then. ``project`` is the one in which it asks; None for that of what
    the code at hand writes. A fork has a ``parent``, and ``turn``, ``changes`` and ``prompt`` as ``forks.fork`` makes
    them."""
    chosen = strategy_for_new_run(strategy)
    check_cap(owner, chosen.name, token)
    if as_of is not None:
        if chosen.answers:
            raise ParameterError(_("Runs that answer in words search the memory of today only."))
        messages, changes = messages or [], {**(changes or {}), "as_of": as_of.isoformat()}
    project = into() if project is None else project
    if sight().projects is not None and not project:
        raise ParameterError(
            _("Say in which project to ask: %(projects)s.") % {"projects": ", ".join(sorted(sight().own))}
        )
    return Run.objects.create(
        owner=owner,
        query=storable(query).strip()[:LONGEST_QUERY],
        strategy=chosen.name,
        parameters=to_store(chosen, {**of_memory(owner, chosen), **(parameters or {})}),
        operator=operator,
        evaluation=evaluation,
        token=token,
        messages=None if messages is None else list(messages),
        media=[asdict(item) for item in media],
        parent=parent,
        turn=turn,
        changes=dict(changes or {}),
        prompt=prompt,
        evidence=list(evidence),
        traceparent=traceparent,
        project=project,
    )


async def execute(run_id: UUID, clients: Clients, announce: Announce = ignore) -> None:
    """Executes a run that ``start`` made, to its end. Does nothing when another process has claimed it."""
    clients = await clients.now()
    claimed = await claim(run_id, clients.pool)
    if claimed is None:
        return
    with about_run(run_id):
        await _execute(claimed, clients, announce)


async def _execute(claimed: Claim, clients: Clients, announce: Announce) -> None:
    run_id = claimed.run_id
    recorder = Recorder(run_id, clients.journal, announce, claimed.attempt)
    with endings.stoppable(run_id) as stop, clients.leases.renewal(run_id, stop.ask):
        try:
            await stop.complete(_follow(recorder, claimed, clients))
        except RunClosed:
            logger.warning("run %s was closed while it was executing", run_id)
        except Stopped as stopped:
            end = endings.stopped_event(stopped.by)
            with suppress(RunClosed):
                await asyncio.shield(recorder.close(lambda _events: end))
        except BaseException as error:
            with suppress(RunClosed):
                await asyncio.shield(recorder.close(partial(endings.after_fault, error)))
            raise
        finally:
            await recorder.stop_showing()


async def _follow(recorder: Recorder, claimed: Claim, clients: Clients) -> None:
    unread: deque[Emitted] = deque()
    try:
        with looking(EVERYTHING.within(claimed.project)):
            request = await request_of(claimed, clients.pool)
            async with aclosing(recall(request, clients.asking(request.model), unread)) as events:
                async for event in events:
                    if isinstance(event, ModelProgress):
                        recorder.show(event)
                    else:
                        await recorder.record(event)
    finally:
        recorder.keep(event for event in unread if not isinstance(event, ModelProgress))


async def wait_for_end(run: Run) -> None:
    """Reads the row until the run has ended, in whatever process. Raises TimeoutError where it takes too long."""
    async with asyncio.timeout(run.parameters["seconds"] + run.parameters["turn_seconds"] + PATIENCE):
        await in_thread(run.refresh_from_db)
        while not run.is_finished:
            await asyncio.sleep(LOOK_AGAIN)
            await in_thread(run.refresh_from_db)


def unclaimed(age: timedelta = UNCLAIMED_AFTER) -> list[UUID]:
    """Runs older than ``age`` that no process has claimed, oldest first: the one that should begin them has died."""
    is_late = Q(created_at__lt=Now() - age) | Q(created_at__gt=Now() + FURTHEST_AHEAD)
    late = Run.objects.filter(is_late, state=Run.State.PENDING)
    return list(late.order_by("created_at").values_list("pk", flat=True)[:100])
