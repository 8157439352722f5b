"""``manage.py why_not``: why a stored run did not choose a topic, a message, or what some words say."""

from argparse import ArgumentParser

from memoryapp.doors.api.access import values_of
from memoryapp.doors.api.shapes.runs import WhyNotAnswer
from memoryapp.insight.explain import WhyNotError, why_not
from memoryapp.management.arguments import MemoryCommand, run_named, utf8


class Command(MemoryCommand):
    help = (
        "Ask a run why it did not choose something: prints one sentence with the stage that lost it, and changes that"
        " were tried and would have kept it. No chat model is asked."
    )
    refusals = (WhyNotError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=utf8, help="the id of the run")
        asked = parser.add_mutually_exclusive_group(required=True)
        asked.add_argument("--topic", type=utf8, default="", help="an id, such as Topic:42, Person:3 or Artifact:7")
        asked.add_argument("--message", type=utf8, default="", help="the id of a message")
        asked.add_argument("--text", type=utf8, default="", help="a message, a fact, a name, or words of a topic")

    def handle(self, *, run: str, topic: str, message: str, text: str, **options: bool) -> None:
        found = why_not(run_named(run, "why_not"), topic=topic, message=message, text=text)
        tried = [f"  {each.change}: {each.result}" for each in found.counterfactuals]
        document = values_of(WhyNotAnswer.model_validate(found))
        self.answer(document, f"{found.stage}: {found.sentence}", *tried, as_json=options["json"])
