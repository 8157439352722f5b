"""The stage in which files of a memory are read, so that search finds them."""

from django.conf import settings
from django.db.models import Q

from memoryapp.celery import sweep
from memoryapp.intake import artifacts
from memoryapp.intake.artifacts import Describer
from memoryapp.models import Artifact
from memoryapp.platform.database import lane
from memoryapp.platform.llm import clients
from memoryapp.upkeep.pipeline.stage import MOST_FAULTS, Scope, Stage, StageFault, up_to_most, words_beside

# How many sweeps may read files at once, some of which a model describes.
LANES = 2

State = Artifact.State


@sweep(every=5.0)
def read_artifacts() -> None:
    """Makes artifacts of the files that were sent with queries, and reads those that are due."""
    artifacts.take_in()
    with lane("read_artifacts", LANES) as is_free:
        if is_free:
            model = Describer(settings.ARCHIVIST_TIMEOUT, settings.MEDIA_MAX_BYTES, clients.open_chat)
            artifacts.process_due(describer=model if settings.LLM_BASE_URL else None)


def _faults(scope: Scope) -> list[StageFault]:
    """Files that could not be read, for good or so far."""
    tried = Q(state=State.FAILED) | Q(state=State.PENDING, attempts__gt=0) & ~Q(fault="")
    rows = scope.of(Artifact.objects.filter(tried)).select_related("owner").order_by("-updated_at")[:MOST_FAULTS]
    return [StageFault(row.owner, row.updated_at, row.name, row.fault, row.fault_note, artifact=row.pk) for row in rows]


STAGE = Stage(
    "artifacts",
    words_beside(__file__),
    lambda scope: up_to_most(scope.of(Artifact.objects.filter(state__in=(State.PENDING, State.PROCESSING)))),
    artifacts.ARTIFACTS,
    lambda scope: scope.by_hour(scope.of(Artifact.objects.filter(read_at__gte=scope.day_ago)), "read_at"),
    _faults,
    shows_calls=False,
)
