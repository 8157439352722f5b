"""``manage.py evaluate``: labelled questions through a strategy, and the figures."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError

from memoryapp import evaluation
from memoryapp.clients import open_clients
from memoryapp.management.arguments import settings_given
from memoryapp.models import Evaluation
from memoryapp.parameters import RANKED, STRATEGIES, ParameterError, overridden, strategy_named
from memoryapp.retrieval import BASELINE


class Command(BaseCommand):
    help = "Run labelled questions through a strategy and report recall, precision, F1 and latency."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("questions", type=Path, help="JSON Lines: user, qid, question, category, evidence")
        parser.add_argument("--strategy", default="flash", help=", ".join(STRATEGIES))
        parser.add_argument("--k", default="5,10,50", help="where to cut recall, separated by commas")
        parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the runs")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *, questions: Path, strategy: str, k: str, **options: Any) -> None:
        parameters = settings_given(options["set"])
        try:
            cuts = _cuts(k, strategy_named(strategy))
            overridden(parameters)
            asked = evaluation.read_questions(questions)
            row = Evaluation.objects.create(source=questions.name, strategy=strategy, parameters=parameters)
            scores = async_to_sync(_scores)(asked, row, parameters)
        except (ParameterError, evaluation.QuestionsError) as error:
            raise CommandError(str(error)) from error
        row.report = evaluation.report(scores, strategy=strategy, cuts=cuts)
        row.save(update_fields=["report"])
        self.stdout.write(json.dumps(row.report, ensure_ascii=False) if options["json"] else _text(row.report))


def _cuts(raw: str, strategy: str) -> list[int]:
    """Recall further down than a run records its order would be understated, so it is refused."""
    most = BASELINE if strategy == "vector" else RANKED
    parts = [part.strip() for part in raw.split(",")]
    if not all(part.isdecimal() and len(part) < 9 and 0 < int(part) <= most for part in parts):
        raise CommandError(
            f"--k takes whole numbers from 1 to {most} separated by commas for the strategy {strategy}, not “{raw}”."
        )
    return [int(part) for part in parts]


async def _scores(
    asked: list[evaluation.Question], row: Evaluation, parameters: dict[str, Any]
) -> list[evaluation.Score]:
    scores = []
    async with open_clients() as clients:
        async for score in evaluation.evaluate(asked, clients, evaluation=row, parameters=parameters):
            scores.append(score)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{len(scores)} of {len(asked)}")
    return scores


def _text(report: dict[str, Any]) -> str:
    candidates = "  ".join(f"{name} {value:.3f}" for name, value in report["candidates"].items())
    selection = "  ".join(f"{name} {value:.3f}" for name, value in report["selection"].items())
    latency = "  ".join(f"{name} {value:.0f} ms" for name, value in report["latency_ms"].items())
    head = f"{report['n']} questions, strategy {report['strategy']}"
    return f"{head}\ncandidates  {candidates}\nselection   {selection}\nlatency     {latency}"
