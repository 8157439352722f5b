"""The inbox of a memory: what waits for a person, which are suggestions, findings, requests to forget, failures,
alarms, misses and messages that the guard holds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Value
from django.utils import timezone

from memoryapp import models
from memoryapp.curation import extraction
from memoryapp.memory import guard
from memoryapp.platform import work

# Counts stop here, so that the badge costs the same however much is waiting.
MOST = 1_000
# A failed import or archive counts for a day; what waits for a retry by a person, or was given up, counts until then.
RECENT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Waiting:
    suggestions: int = 0
    findings: int = 0
    failures: int = 0
    forgetting: int = 0
    alarms: int = 0
    misses: int = 0
    held: int = 0

    @property
    def total(self) -> int:
        return sum(astuple(self))


@dataclass(frozen=True, slots=True)
class FailedWork:
    """Work that failed and that a person can repeat or look at. ``stage`` is its stage of the pipeline and ``subject``
    what it was about; ``why`` is an English sentence, with a note where it has values. Exactly one of ``topic``,
    ``file`` and ``artifact`` is set, or none for work on a whole memory."""

    stage: str
    at: datetime
    subject: str
    why: str
    note: Mapping[str, Any] | None = None
    topic: int | None = None
    file: int | None = None
    artifact: int | None = None


def waiting_in(owner: models.ChatUser) -> Waiting:
    """The numbers of what waits, each up to ``MOST``; one query."""
    rows: Mapping[str, list[QuerySet[Any]]] = {
        "suggestions": [models.Suggestion.objects.filter(owner=owner, state=models.Suggestion.State.OPEN)],
        "findings": [models.Finding.objects.filter(owner=owner, state=models.Finding.State.WAITING)],
        "failures": [*_failed(owner)],
        "forgetting": [models.ForgetRequest.objects.filter(owner=owner)],
        "alarms": [models.GoldenAlarm.objects.filter(owner=owner)],
        "misses": [models.Miss.objects.filter(owner=owner, state=models.Miss.State.OPEN)],
        "held": [guard.held(owner)],
    }
    first, *others = [
        each.order_by().annotate(what_waits=Value(noun)).values_list("what_waits", flat=True)[:MOST]
        for noun, found in rows.items()
        for each in found
    ]
    counted = Counter(first.union(*others, all=True))
    return Waiting(*(min(counted[noun], MOST) for noun in rows))


def _failed(
    owner: models.ChatUser,
) -> tuple[QuerySet[models.UnreadTopic], QuerySet[models.ImportFile], QuerySet[models.Artifact], QuerySet[models.Work]]:
    recent = timezone.now() - RECENT
    return (
        extraction.failed(owner).select_related(None),
        models.ImportFile.objects.filter(owner=owner, state=models.ImportFile.State.FAILED, at__gte=recent),
        models.Artifact.objects.filter(owner=owner, state=models.Artifact.State.FAILED),
        models.Work.objects.filter(
            Q(kind=work.ARCHIVE, at__gte=recent) | Q(tries__gte=work.MOST_TRIES),
            owner=owner,
            state=models.Work.State.FAILED,
        ),
    )


def ask_to_forget(owner: models.ChatUser, names: Sequence[str], asked_by: str) -> list[str]:
    """Asks people to erase messages, which stay until then. Returns those of the ``names`` that no message has."""
    known = dict(models.Message.objects.of(owner).filter(external_id__in=names).values_list("external_id", "pk"))
    rows = [models.ForgetRequest(owner=owner, message_id=number, asked_by=asked_by) for number in known.values()]
    models.ForgetRequest.objects.bulk_create(rows, ignore_conflicts=True)
    return [name for name in names if name not in known]


def forgetting(owner: models.ChatUser) -> QuerySet[models.ForgetRequest]:
    """The messages that agents ask to have erased, the earliest request first."""
    return models.ForgetRequest.objects.filter(owner=owner).select_related("message").order_by("pk")


def alarms(owner: models.ChatUser) -> QuerySet[models.GoldenAlarm]:
    """Nights whose golden questions about this memory dropped, the latest first."""
    return models.GoldenAlarm.objects.filter(owner=owner).select_related("night__nightly").order_by("-pk")


def failures(owner: models.ChatUser, most: int) -> list[FailedWork]:
    """The latest failures, newest first, at most ``most`` of each kind."""
    topics, files, artifacts, works = _failed(owner)
    found = [
        *(
            FailedWork("extract", row.at, row.topic.summary, row.fault, topic=row.topic_id)
            for row in topics.select_related("topic")[:most]
        ),
        *(FailedWork("import", row.at, row.source, row.fault, file=row.pk) for row in files.order_by("-at")[:most]),
        *(
            FailedWork("artifacts", row.updated_at, row.name, row.fault, row.fault_note, artifact=row.pk)
            for row in artifacts.order_by("-updated_at")[:most]
        ),
        *(FailedWork(row.kind, row.at, "", row.fault, row.fault_note) for row in works.order_by("-at")[:most]),
    ]
    return sorted(found, key=lambda failure: failure.at, reverse=True)
