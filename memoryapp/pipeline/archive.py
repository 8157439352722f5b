"""The stage in which sessions become topics."""

from __future__ import annotations

import logging

from django.conf import settings
from django.utils.translation import gettext_lazy, npgettext_lazy, pgettext_lazy

from memoryapp import work
from memoryapp.celery import sweep
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.ingestion import archiving
from memoryapp.ingestion.cutters import cutter
from memoryapp.ingestion.topics import IngestionError
from memoryapp.llm import clients
from memoryapp.models import ChatUser, EditedTopic, Message, TopicEdit
from memoryapp.operations.advisory_locks import lane
from memoryapp.operations.logs import cause
from memoryapp.operations.outages import others_go_on
from memoryapp.pipeline.stage import Scope, Stage, StageWords, up_to_most
from memoryapp.search import profiles
from memoryapp.sessions.active import limits

# How many sweeps of sessions may run at once.
DUE_LANES = 2

logger = logging.getLogger(__name__)


@sweep(every=60.0)
def archive_due() -> None:
    """Archives the sessions that no message can join any more."""
    with lane("archive_due", DUE_LANES) as is_free:
        owners = archiving.with_active_sessions() if is_free else ChatUser.objects.none()
        for owner in list(work.unpaused(owners, work.ARCHIVE)):
            _archive(owner, _embedder())


@sweep(every=3.0)
def archive_asked() -> None:
    """Archives at once what a person requested; ``archive_due`` would do it within a minute."""
    with lane("archive_asked", 1) as is_free:
        for owner in list(work.unpaused(work.asked_to_archive(), work.ARCHIVE)) if is_free else ():
            _archive(owner, _embedder())


def _embedder() -> Embedder:
    """Returns the embedder of the serving profile."""
    return clients.embedder_of(profiles.serving_profile())


def _archive(owner: ChatUser, embedder: Embedder) -> None:
    """Archives one chat user's sessions."""
    with others_go_on("Sessions of chat user %s are not archived yet.", owner.pk):
        try:
            open_chat = clients.open_chat if settings.LLM_BASE_URL else None
            archiving.archive(owner, cutter(owner, embedder, open_chat), limits(owner))
        except (EmbeddingError, IngestionError) as error:
            logger.warning("Sessions of chat user %s are not archived yet: %s", owner.pk, cause(error))


def _hours(scope: Scope) -> list[int]:
    edits = scope.of(TopicEdit.objects.filter(at__gte=scope.day_ago, kind=TopicEdit.Kind.ARCHIVE))
    return scope.by_hour(EditedTopic.objects.filter(side=EditedTopic.Side.IN, edit__in=edits), "edit__at")


STAGE = Stage(
    "archive",
    StageWords(
        pgettext_lazy("stage", "Archive"),
        "scissors",
        npgettext_lazy("waiting", "message in no topic", "messages in no topic", "n"),
        gettext_lazy("topics made by hour"),
        "SPLITTER_MODEL",
        gettext_lazy("%(model)s at %(host)s cuts sessions; where it fails, the embedded segmenter does."),
        gettext_lazy("No chat model is connected: the embedded segmenter cuts sessions."),
    ),
    lambda scope: up_to_most(scope.of(Message.objects.active())),
    work.ARCHIVE,
    _hours,
)
