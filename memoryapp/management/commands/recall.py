"""``manage.py recall``: one run from the command line."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.management.base import CommandError

from memoryapp.doors.api.access import values_of
from memoryapp.doors.api.shapes.answers import WordsAnswer
from memoryapp.doors.api.shapes.runs import RecallAnswer
from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.management.arguments import MemoryCommand, named_user, settings_given, utf8, waited_for
from memoryapp.models import ChatUser, Run
from memoryapp.models.audit import Deed
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.parameters import ParameterError, strategy_named
from memoryapp.runs.recall_document import EndedRun, text


class Command(MemoryCommand):
    help = "Ask a memory a question and print its answer, if the strategy gives one, and what was chosen, with reasons."
    refusals = (ParameterError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("query")
        parser.add_argument("--user", type=utf8, required=True, help="whose memory: the chat user's name")
        parser.add_argument("--strategy", default=DEFAULT.name, help=", ".join(STRATEGIES))
        parser.add_argument(
            "--set", type=utf8, action="append", default=[], metavar="KEY=VALUE", help="a parameter of the run"
        )

    def handle(self, *, query: str, user: str, strategy: str, **options: Any) -> None:
        owner = named_user(user, "recall", Deed.ASK)
        if not query.strip():
            raise CommandError("The query is empty.")
        run = async_to_sync(_run_to_end)(owner, query, strategy, settings_given(options["set"]))
        ended = EndedRun(run)
        document = values_of(RecallAnswer.model_validate(ended))
        if strategy_named(strategy).answers:
            document |= values_of(WordsAnswer.model_validate(ended))
        self.answer(document, text(ended), as_json=options["json"])


async def _run_to_end(owner: ChatUser, query: str, strategy: str, parameters: Mapping[str, Any]) -> Run:
    """Executes a run; returns it at its end. It starts when all clients are open: else the worker would execute it."""
    async with open_clients() as clients:
        run = await sync_to_async(lifecycle.start)(owner, query, strategy=strategy, parameters=parameters)
        await lifecycle.execute(run.pk, clients)
    return await waited_for(run)
