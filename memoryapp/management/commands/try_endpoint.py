"""``manage.py try_endpoint``: what the connected endpoints can do."""

from argparse import ArgumentParser
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import CommandError

from memoryapp.management.arguments import MemoryCommand
from memoryapp.runs.clients import table, try_endpoints


class Command(MemoryCommand):
    help = (
        "Ask the connected endpoints eight small questions (tool call forced and free, schema, streaming, reasoning, "
        "usage, images, embeddings) and print what they can do, with the words of each refusal."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--embeddings", action="store_true", help="ask only the embedding endpoint")

    def handle(self, *, embeddings: bool, **options: Any) -> None:
        trial = async_to_sync(try_endpoints)(chat=not embeddings)
        places = ((trial.host, trial.model), (trial.embedding_host, trial.embedding_model))
        lines = [*(f"{model} at {host}" for host, model in places if host), *table(trial.findings)]
        self.answer(trial.document(), *lines, as_json=options["json"])
        if trial.failure:
            raise CommandError(trial.failure)
        if not trial.findings:
            setting = "EMBEDDING_BASE_URL" if embeddings else "LLM_BASE_URL or EMBEDDING_BASE_URL"
            raise CommandError(f"No endpoint is connected, so there is nothing to try: set {setting}.")
        if all(finding.can == "no" for finding in trial.findings):
            raise CommandError("The endpoint can do nothing of what was asked.")
