"""``manage.py recall``: one run from the command line."""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryapp import answer, runs
from memoryapp.clients import open_clients
from memoryapp.management.arguments import named_user, settings_given
from memoryapp.models import Run
from memoryapp.parameters import STRATEGIES, ParameterError


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
            run = runs.start(owner, query, strategy=strategy, parameters=settings_given(options["set"]))
        except ParameterError as error:
            raise CommandError(str(error)) from error
        asyncio.run(_execute(run))
        document = answer.document(Run.objects.get(pk=run.pk))
        self.stdout.write(json.dumps(document, ensure_ascii=False) if options["json"] else answer.text(document))


async def _execute(run: Run) -> None:
    async with open_clients() as clients:
        await runs.execute(run.pk, clients)
