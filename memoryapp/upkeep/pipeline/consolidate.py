"""The stage in which similar topics are suggested as one, and the merger judges them."""

import logging

from django.conf import settings

from memoryapp.celery import sweep
from memoryapp.curation import suggestions
from memoryapp.curation.suggestions import consolidation
from memoryapp.curation.suggestions.consolidation import CONSOLIDATE
from memoryapp.engine.agents import merger
from memoryapp.engine.agents.ask import UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.models import ChatUser
from memoryapp.platform import database, work
from memoryapp.platform.database import enough_after
from memoryapp.platform.llm import clients
from memoryapp.platform.logs import cause
from memoryapp.upkeep.pipeline.stage import Stage, up_to_most, words_beside

SECONDS = 60.0

logger = logging.getLogger(__name__)


@sweep(every=60.0)
def suggest_due() -> None:
    """Suggests merges and splits of topics that were not compared yet."""
    work.do_for_each(suggestions.with_unchecked(), CONSOLIDATE, suggestions.suggest, enough_after(SECONDS))


@sweep(every=15.0)
def consolidate_due() -> None:
    """Has the merger judge suggested merges, a batch for each chat user; without a chat model people judge alone."""
    if not settings.LLM_BASE_URL:
        return
    with database.exclusive("consolidation", 0) as is_alone:
        if is_alone:
            work.do_for_each(consolidation.due(), CONSOLIDATE, _consolidate, enough_after(SECONDS))


def _consolidate(owner: ChatUser) -> None:
    """Judges for one chat user."""
    try:
        consolidation.consolidate(owner, clients.open_chat)
    except LLMError as error:
        logger.warning("Merges of chat user %s are not judged yet: %s", owner.pk, cause(error))
    except UnreadableAnswer:
        logger.warning("A merge of chat user %s is not judged: nobody can read the model's answer.", owner.pk)


STAGE = Stage(
    "consolidate",
    words_beside(__file__),
    lambda scope: up_to_most(scope.of(consolidation.unjudged())),
    CONSOLIDATE,
    lambda scope: scope.calls_by_hour(merger.AGENT.name),
)
