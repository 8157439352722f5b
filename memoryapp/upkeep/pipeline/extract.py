"""The stage in which the archivist reads topics for facts and people."""

import logging
from collections.abc import Callable

from django.conf import settings

from memoryapp.celery import sweep
from memoryapp.curation import extraction
from memoryapp.curation.extraction import EXTRACT
from memoryapp.engine.agents import archivist
from memoryapp.models import ChatUser
from memoryapp.platform import work
from memoryapp.platform.database import enough_after
from memoryapp.platform.llm import clients
from memoryapp.platform.logs import cause
from memoryapp.search import profiles
from memoryapp.upkeep.pipeline.stage import MOST_FAULTS, Scope, Stage, StageFault, up_to_most, words_beside

SECONDS = 60.0

logger = logging.getLogger(__name__)


@sweep(every=60.0)
def extract_due() -> None:
    """Extracts facts and people from topics until the next sweep is due, if a chat model is connected."""
    if not settings.LLM_BASE_URL:
        return
    model = extraction.Model(settings.ARCHIVIST_TIMEOUT, clients.open_chat)
    is_enough = enough_after(SECONDS)
    work.do_for_each(extraction.with_due(), EXTRACT, lambda owner: _extract(owner, model, is_enough), is_enough)


def _extract(owner: ChatUser, model: extraction.Model, is_enough: Callable[[], bool]) -> None:
    """Extracts facts and people from one chat user's topics."""
    try:
        embedder = clients.embedder_of(profiles.serving_profile())
        extraction.extract(owner, model, embedder, until=is_enough)
    except extraction.ModelFailed as error:
        logger.warning("Topics of chat user %s are not read for facts yet: %s", owner.pk, cause(error))


def _faults(scope: Scope) -> list[StageFault]:
    """Topics that wait for a person, because nobody could read the answers about them."""
    rows = scope.of(extraction.failed())[:MOST_FAULTS]
    return [StageFault(row.owner, row.at, why=row.fault, topic=row.topic_id) for row in rows]


STAGE = Stage(
    "extract",
    words_beside(__file__),
    lambda scope: up_to_most(scope.of(extraction.unread())),
    EXTRACT,
    lambda scope: scope.calls_by_hour(archivist.AGENT.name),
    _faults,
)
