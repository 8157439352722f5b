"""``manage.py evaluate``: runs labelled questions through strategies, compares their figures, and applies a gate."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import CommandError

from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.engine.strategies.strategy import AnyStrategy
from memoryapp.insight.evaluation import comparison
from memoryapp.insight.evaluation.comparison import regression_lines, table
from memoryapp.insight.evaluation.passes import evaluate, warnings
from memoryapp.insight.evaluation.questions import LabelledQuestion, QuestionsError, read_questions
from memoryapp.insight.evaluation.scores import QuestionScore, report
from memoryapp.management.arguments import MemoryCommand, settings_given, utf8
from memoryapp.models import Evaluation
from memoryapp.runs.clients import open_clients
from memoryapp.runs.parameters import ParameterError, of_each, strategy_named

REGRESSED = 1


class Command(MemoryCommand):
    help = "Run labelled questions through strategies and report how well each finds, chooses, cites and refuses."
    refusals = (ParameterError, QuestionsError)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("questions", type=Path, help="JSON Lines: user, qid, question, evidence or unanswerable")
        parser.add_argument("--strategy", default=DEFAULT.name, help=f"one or more of {', '.join(STRATEGIES)}")
        parser.add_argument("--user", type=utf8, default="", help="whose memory, where a question does not say")
        parser.add_argument("--k", default="5,10,50", help="where to cut recall, separated by commas")
        parser.add_argument(
            "--set", type=utf8, action="append", default=[], metavar="KEY=VALUE", help="a parameter of the runs"
        )
        parser.add_argument(
            "--gate",
            type=Path,
            metavar="REPORT",
            help=f"a document of --json to compare with; exit code {REGRESSED} where a figure got worse",
        )
        parser.add_argument(
            "--margin", type=_share, default=comparison.MARGIN, help="the gate: by how much a mean may fall"
        )

    def handle(self, *, questions: Path, strategy: str, k: str, **options: Any) -> None:
        parameters = settings_given(options["set"])
        names = list(dict.fromkeys(name.strip() for name in strategy.split(",")))
        stored = _stored(options["gate"], names) if options["gate"] else {}
        strategies = [strategy_named(name) for name in names]
        cuts = _cuts(k, strategies)
        of_strategy = of_each(parameters, strategies)
        read = read_questions(questions, options["user"])
        for warning in warnings(read.asked):
            self.stderr.write(warning)
        rows = _rows(questions.name, names, of_strategy)
        scores = async_to_sync(_scores)(read.asked, rows)
        for fault in read.faults:
            self.stderr.write(fault)
        for row, of_row in zip(rows, scores, strict=True):
            row.report = report(of_row, strategy=row.strategy, cuts=cuts)
            row.save(update_fields=["report"])
        reports = [row.report for row in rows]
        document = reports[0] if len(reports) == 1 else {"reports": reports}
        self.answer(document, table(reports), as_json=options["json"])
        self._pass_gate(reports, stored, options["margin"])

    def _pass_gate(self, reports: Sequence[dict[str, Any]], known: Mapping[str, dict[str, Any]], margin: float) -> None:
        """Raises CommandError if a figure got worse than in the stored report of the same strategy."""
        lines = []
        for each in reports:
            if before := known.get(each["strategy"]):
                if not comparison.pairs(before, each):
                    raise CommandError(f"The stored report of {each['strategy']} has none of these questions.")
                lines += regression_lines(each["strategy"], comparison.regressions(before, each, margin))
        if lines:
            raise CommandError("\n".join(lines), returncode=REGRESSED)


def _share(argument: str) -> float:
    """Returns a number from 0 to 1. NaN is refused, because the gate would let everything pass."""
    try:
        share = float(argument)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ArgumentTypeError(f"a number from 0 to 1 is needed, not {argument!r}")
    return share


def _rows(source: str, names: Sequence[str], parameters: Sequence[dict[str, Any]]) -> list[Evaluation]:
    """Stores a row for each strategy with its parameters; the others refer to the first."""
    rows: list[Evaluation] = []
    for name, own in zip(names, parameters, strict=True):
        reference = rows[0] if rows else None
        rows.append(Evaluation.objects.create(source=source, strategy=name, parameters=own, reference=reference))
    return rows


def _stored(path: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the stored reports by strategy. Raises CommandError if one of ``names`` has none."""
    try:
        document = json.loads(path.read_text("utf-8"))
        reports = {each["strategy"]: each for each in document.get("reports", [document])}
        for each in reports.values():
            comparison.differences(each, each)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(
            f"{path} is no report of evaluate --json; write one with: evaluate … --json > FILE"
        ) from error
    missing = [name for name in names if name not in reports]
    if missing:
        raise CommandError(f"{path} has no report of the strategy {missing[0]}.")
    return reports


def _cuts(raw: str, strategies: Sequence[AnyStrategy]) -> list[int]:
    """The ranks at which recall is cut. Beyond those that a run records, it would be understated: refused."""
    strategy = min(strategies, key=lambda each: each.ranking.most)
    most = strategy.ranking.most
    parts = [part.strip() for part in raw.split(",")]
    if not all(part.isdecimal() and len(part) < 9 and 0 < int(part) <= most for part in parts):
        raise CommandError(
            f"--k takes whole numbers from 1 to {most} separated by commas for the strategy {strategy.name},"
            f" not “{raw}”."
        )
    return [int(part) for part in parts]


async def _scores(asked: Sequence[LabelledQuestion], rows: Sequence[Evaluation]) -> list[list[QuestionScore]]:
    """Returns the scores of each strategy. Each question goes through all of them, each time with another one first:
    otherwise the caches that one fills would make the next look fast."""
    scores: list[list[QuestionScore]] = [[] for _row in rows]
    async with open_clients() as clients:
        asking = [evaluate(asked, clients, evaluation=row, parameters=row.parameters) for row in rows]
        for number in range(len(asked)):
            for turn in range(len(rows)):
                place = (number + turn) % len(rows)
                scores[place].append(await anext(asking[place]))
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number + 1} of {len(asked)}")
        for each in asking:
            await each.aclose()
    return scores
