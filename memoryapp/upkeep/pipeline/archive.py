"""The stage in which sessions become topics."""

import logging

from django.conf import settings

from memoryapp.celery import sweep
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.intake import archiving
from memoryapp.intake.archiving import IngestionError
from memoryapp.intake.cutters import cutter
from memoryapp.memory.sessions import limits
from memoryapp.models import ChatUser, EditedTopic, Message, TopicEdit
from memoryapp.platform import work
from memoryapp.platform.database import enough_after, lane
from memoryapp.platform.llm import clients
from memoryapp.platform.logs import cause
from memoryapp.search import profiles
from memoryapp.upkeep.pipeline.stage import Scope, Stage, up_to_most, words_beside

# How many sweeps of sessions may run at once.
DUE_LANES = 2
# How long a sweep goes on, and how long it stays with one chat user while others wait.
SECONDS, TURN_SECONDS = 60.0, 5.0

logger = logging.getLogger(__name__)


@sweep(every=60.0)
def archive_due() -> None:
    """Archives the sessions that no message can join any more."""
    with lane("archive_due", DUE_LANES) as is_free:
        if is_free:
            work.do_for_each(archiving.with_active_sessions(), work.ARCHIVE, _archive, enough_after(SECONDS))


@sweep(every=3.0)
def archive_asked() -> None:
    """Archives at once what a person requested; ``archive_due`` would do it within a minute."""
    with lane("archive_asked", 1) as is_free:
        if is_free:
            work.do_for_each(work.asked_to_archive(), work.ARCHIVE, _archive, enough_after(SECONDS))


def _archive(owner: ChatUser) -> None:
    """Archives one chat user's sessions, as many as a turn allows."""
    try:
        embedder = clients.embedder_of(profiles.serving_profile())
        cut = cutter(owner, embedder, clients.open_chat if settings.LLM_BASE_URL else None)
        archiving.archive(owner, cut, limits(owner), until=enough_after(TURN_SECONDS))
    except (EmbeddingError, IngestionError) as error:
        logger.warning("Sessions of chat user %s are not archived yet: %s", owner.pk, cause(error))


def _hours(scope: Scope) -> list[int]:
    edits = scope.of(TopicEdit.objects.filter(at__gte=scope.day_ago, kind=TopicEdit.Kind.ARCHIVE))
    return scope.by_hour(EditedTopic.objects.filter(side=EditedTopic.Side.IN, edit__in=edits), "edit__at")


STAGE = Stage(
    "archive",
    words_beside(__file__),
    lambda scope: up_to_most(scope.of(Message.objects.active())),
    work.ARCHIVE,
    _hours,
)
