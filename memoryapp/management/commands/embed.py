"""``embed [--yes]``: prints what the missing vectors of the configured model will cost; ``--yes`` makes them."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.utils.translation import gettext as _

from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.insight.browsing.profiles import EmbeddingForecast, forecast
from memoryapp.management.arguments import MemoryCommand
from memoryapp.management.commands.archive import FOREVER
from memoryapp.models import EmbeddingProfile, TopicVector
from memoryapp.platform import cells
from memoryapp.platform.llm import clients
from memoryapp.platform.work import ProgressLines
from memoryapp.search import profiles
from memoryapp.search.vectors import EMBED, embed_pending


class Command(MemoryCommand):
    help = "Says what the missing vectors of the embedding model will cost; with --yes they are made, and it serves."
    refusals = (EmbeddingError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="agree, and make the vectors now")
        parser.add_argument(
            "--topics-anew", action="store_true", help="also all vectors of topics, though there are some"
        )

    def handle(self, *args: Any, yes: bool, topics_anew: bool, **options: Any) -> None:
        first, row = profiles.serving(), profiles.configured()
        expected, made = forecast(row, topics_anew=topics_anew), 0
        if not options["json"]:
            if first != row:
                self.stdout.write(_("%(old)s serves; the settings ask for %(new)s.") % {"old": first, "new": row})
            self.stdout.write(_sentence(expected))
        if yes:
            made = self._embed(row, topics_anew)
        row.refresh_from_db()
        if options["json"]:
            self.answer(_report(row, expected, made), as_json=True)
        elif yes:
            done = {"made": made, "name": profiles.serving()}
            self.stdout.write(_("Vectors made: %(made)s. Searches compare in %(name)s.") % done)

    def _embed(self, row: EmbeddingProfile, topics_anew: bool) -> int:
        """Makes the vectors; returns their number."""
        lines = ProgressLines(self.stderr.write)
        watch = partial(lines.watch, None, EMBED)
        embedder = clients.embedder_of(profiles.profile_of(row))
        profiles.ask(row, "embed")
        made = 0
        for _number in cells.each():
            if topics_anew:
                TopicVector.objects.filter(profile=row).delete()
            made += async_to_sync(embed_pending)(embedder, wait=FOREVER, meanwhile=watch, worker="embed", report=lines)
        profiles.change_over()
        return made


def _sentence(expected: EmbeddingForecast | None) -> str:
    if expected is None:
        return _("No vector is missing.")
    values = {"texts": f"{expected.texts:,}", "tokens": f"{expected.tokens:,}", "cost": f"{expected.cost_usd or 0:.2f}"}
    if expected.cost_usd is None:
        form = _(
            "Texts without a vector: %(texts)s, about %(tokens)s tokens. EMBEDDING_PRICE does not say what they cost."
        )
    else:
        form = _("Texts without a vector: %(texts)s, about %(tokens)s tokens, $%(cost)s. With --yes they are made.")
    return form % values


def _report(row: EmbeddingProfile, expected: EmbeddingForecast | None, made: int) -> dict[str, object]:
    return {
        "profile": str(row),
        "is_serving": row.is_serving,
        "texts": expected.texts if expected else 0,
        "tokens": expected.tokens if expected else 0,
        "cost_usd": expected.cost_usd if expected else 0.0,
        "made": made,
    }
