"""``judged_questions --user NAME``: questions with good answers, as golden questions for ``evaluate``."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from memoryapp.insight.evaluation import judgements
from memoryapp.management.arguments import named_user, utf8
from memoryapp.models.audit import Deed


class Command(BaseCommand):
    help = "Prints the questions whose answers people found good, with the messages cited, as questions to evaluate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", type=utf8, required=True, metavar="NAME", help="the chat user")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        questions = judgements.questions(named_user(user, "judged_questions", Deed.EXPORT))
        if options["json"]:
            self.stdout.write(json.dumps(list(questions), ensure_ascii=False))
            return
        for question in questions:
            self.stdout.write(json.dumps(question, ensure_ascii=False))
