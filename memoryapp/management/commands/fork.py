"""``manage.py fork``: a stored run once more, with changes from a turn on."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.doors.api.access import values_of
from memoryapp.doors.api.shapes.answers import WordsAnswer
from memoryapp.doors.api.shapes.runs import RecallAnswer
from memoryapp.management.arguments import MemoryCommand, run_named, settings_given, utf8, waited_for
from memoryapp.models import Run
from memoryapp.models.audit import Deed
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.parameters import ParameterError, strategy_named
from memoryapp.runs.recall_document import EndedRun, text
from memoryapp.runs.replays import CHANGES, ForkError


class Command(MemoryCommand):
    help = (
        "Fork a run: replay it up to a turn without asking a model, and go on from there with changes. Prints what the"
        " same part of the run has cost before it begins, and what the fork has cost after it."
    )
    refusals = (ForkError, ParameterError)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=utf8, help="the id of the run")
        parser.add_argument("--turn", type=int, help="the first turn that is not replayed; 0: before the query")
        parser.add_argument(
            "--set",
            type=utf8,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help=f"a change ({', '.join(CHANGES)}) or a parameter of the run",
        )

    def handle(self, *, run: str, turn: int | None, **options: Any) -> None:
        parent = run_named(run, "fork", Deed.ASK)
        fork = async_to_sync(self._to_end)(parent, turn, settings_given(options["set"]))
        ended = EndedRun(fork)
        document = values_of(RecallAnswer.model_validate(ended))
        if strategy_named(fork.strategy).answers:
            document |= values_of(WordsAnswer.model_validate(ended))
        document |= {"parent": str(parent.pk), "turn": fork.turn, "changes": fork.changes}
        self.answer(document, text(ended), as_json=options["json"])

    async def _to_end(self, parent: Run, turn: int | None, changes: Mapping[str, Any]) -> Run:
        """Executes a fork; returns it at its end. It starts when all clients are open: else the worker would."""
        async with open_clients() as clients:
            fork = await sync_to_async(forks.fork)(parent, turn=turn, changes=changes)
            events = await sync_to_async(forks.events_of)(parent)
            part = forks.forecast(events, forks.first_asked(fork))
            tokens = f"{part.usage.input_tokens} + {part.usage.output_tokens} tokens"
            self.stderr.write(f"This part of the run took {part.turns} turns, {tokens}, ${part.usage.cost_usd:.4f}.")
            await lifecycle.execute(fork.pk, clients)
        return await waited_for(fork)
