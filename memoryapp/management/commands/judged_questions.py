"""``judged_questions --user NAME``: questions with good answers, as golden questions for ``evaluate``."""

import json
from argparse import ArgumentParser
from typing import Any

from memoryapp.insight.evaluation import judgements
from memoryapp.management.arguments import MemoryCommand, named_user, utf8
from memoryapp.models.audit import Deed


class Command(MemoryCommand):
    help = "Prints the questions whose answers people found good, with the messages cited, as questions to evaluate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", type=utf8, required=True, metavar="NAME", help="the chat user")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        questions = list(judgements.questions(named_user(user, "judged_questions", Deed.EXPORT)))
        lines = (json.dumps(question, ensure_ascii=False) for question in questions)
        self.answer(questions, *lines, as_json=options["json"])
