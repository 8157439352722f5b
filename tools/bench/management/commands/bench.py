"""``manage.py bench``: the project's measurements, each beside the value to compare it with."""

import json
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError

from memoryapp.platform import database
from memoryapp.platform.llm import clients
from memoryapp.search.profiles import profile_row
from tools.bench import borders, imports, looks, memory, runs
from tools.bench.runs import Load
from tools.bench.stage import BenchStage, peer
from tools.bench.table import BenchRow, heading, line

TOPICS, QUICK_TOPICS = 250, 60
LARGE = 2_000
LOADS = (Load(1, 5), Load(25, 125), Load(50, 500), Load(200, 400, waves=3))
QUICK_LOADS = (Load(1, 3), Load(20, 60, waves=2))
# Loads of three seconds differed by two thirds from each other, loads of twelve seconds by a quarter.
SHARED, QUICK_SHARED = Load(50, 1_000), Load(20, 40)
RUNS, QUICK_RUNS = 10, 3
IMPORTED, QUICK_IMPORTED = 100_000, 10_000
PAST_RUNS, QUICK_PAST_RUNS = 200, 30


class Command(BaseCommand):
    help = "Measure, on a memory made up for it and removed again; ratios, for seconds tell about the machine."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--quick", action="store_true", help="less of everything, in under 30 seconds")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, **options: Any) -> None:
        with database.exclusive("bench", 0) as is_alone:
            if not is_alone:
                raise CommandError("Another bench is running on this database; two would measure each other.")
            try:
                self._print(_rows(quick=options["quick"]), as_json=options["json"])
            finally:
                looks.forget_viewer()

    def _print(self, rows: Iterator[BenchRow], *, as_json: bool) -> None:
        if as_json:
            measured = []
            try:
                for row in rows:
                    measured.append(row.as_dict())
            finally:
                # What was measured is printed even if a later measurement or the clean-up fails.
                self.stdout.write(json.dumps({"rows": measured}))
            return
        self.stdout.write(heading())
        for row in rows:
            self.stdout.write(line(row))
            self.stdout.flush()


def _rows(*, quick: bool) -> Iterator[BenchRow]:
    yield from _all(borders.rows)
    profile, topics = async_to_sync(profile_row)(clients.profile()), QUICK_TOPICS if quick else TOPICS
    with peer() as address, memory.stored(topics, profile) as owner:
        stage = BenchStage(owner, address, tuple(memory.queries(topics)))
        yield from _all(lambda: runs.rerank_rows(stage, QUICK_LOADS if quick else LOADS))
        yield from runs.shared_rows(stage, QUICK_SHARED if quick else SHARED)
        yield from _all(lambda: looks.search_rows(stage))
        yield from _all(lambda: runs.stage_rows(stage, QUICK_RUNS if quick else RUNS))
        if not quick:
            yield from _all(lambda: runs.timeout_rows(stage))
        yield from looks.page_rows(stage)
        yield from looks.curation_rows(stage, profile, QUICK_PAST_RUNS if quick else PAST_RUNS)
    yield from imports.rows(QUICK_IMPORTED if quick else IMPORTED)
    if not quick:
        with memory.stored(LARGE, profile) as owner:
            large = replace(stage, owner=owner)
            yield from _all(lambda: looks.search_rows(large))
            yield from looks.curation_rows(large, profile, PAST_RUNS)


def _all(rows: Callable[[], AsyncIterator[BenchRow]]) -> list[BenchRow]:
    """Returns the rows of one benchmark, which has its own event loop."""

    async def gather() -> list[BenchRow]:
        return [row async for row in rows()]

    return async_to_sync(gather)()
