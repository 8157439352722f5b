"""``manage.py recall``: one run from the command line."""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.management.base import BaseCommand, CommandError

from memoryapp import answer, runs
from memoryapp.clients import open_clients
from memoryapp.management.arguments import named_user, settings_given
from memoryapp.models import ChatUser, Run
from memoryapp.parameters import STRATEGIES, ParameterError

LOOK_AGAIN = 0.2
# Beyond the seconds the run itself may take: its search, and the sweep that closes what was abandoned.
PATIENCE = 60.0


class Command(BaseCommand):
    help = "Ask a memory a question and print what was chosen, with reasons."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("query")
        parser.add_argument("--user", required=True, help="whose memory: the chat user's name")
        parser.add_argument("--strategy", default="flash", help=", ".join(STRATEGIES))
        parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the run")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *, query: str, user: str, strategy: str, **options: Any) -> None:
        owner = named_user(user)
        if not query.strip():
            raise CommandError("The query is empty.")
        try:
            run = async_to_sync(_ended)(owner, query, strategy, settings_given(options["set"]))
        except ParameterError as error:
            raise CommandError(str(error)) from error
        document = answer.document(run)
        self.stdout.write(json.dumps(document, ensure_ascii=False) if options["json"] else answer.text(document))


async def _ended(owner: ChatUser, query: str, strategy: str, parameters: Mapping[str, Any]) -> Run:
    """A run at its end. It begins only when everything it needs is open, or the worker would take it for forgotten."""
    async with open_clients() as clients:
        run = await sync_to_async(runs.start)(owner, query, strategy=strategy, parameters=parameters)
        await runs.execute(run.pk, clients)
    await run.arefresh_from_db()
    if not run.is_finished:
        await _wait_for(run)
    return run


async def _wait_for(run: Run) -> None:
    """Until the process that claimed the run has ended it. Raises CommandError when that takes too long."""
    try:
        async with asyncio.timeout(run.parameters["seconds"] + run.parameters["turn_seconds"] + PATIENCE):
            while not run.is_finished:
                await asyncio.sleep(LOOK_AGAIN)
                await run.arefresh_from_db()
    except TimeoutError:
        raise CommandError(f"Another process works on run {run.pk} and has not ended it; look at it later.") from None
