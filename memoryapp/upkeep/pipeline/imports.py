"""The stage of imports: files that people gave to the page of imports."""

from django.db.models import QuerySet, Sum

from memoryapp.celery import sweep
from memoryapp.intake.imports import IMPORT
from memoryapp.intake.transfer import files
from memoryapp.models import ImportBatch, ImportFile
from memoryapp.platform import work
from memoryapp.platform.database import StagePaused, is_outage, log_fault
from memoryapp.upkeep.pipeline.stage import MOST_FAULTS, Scope, Stage, StageFault, up_to_most, words_beside


@sweep(every=2.0)
def import_waiting() -> None:
    """Rehearses and imports the files that people uploaded on the page of imports."""
    for row in files.unfinished().select_related("owner"):
        if row.state == ImportFile.State.IMPORTING and work.is_paused(IMPORT, row.owner):
            continue
        try:
            files.work_on(row)
        except StagePaused:
            continue
        except Exception as error:
            # One file must not stop the import of the others.
            if is_outage(error):
                raise
            log_fault("File %s is not imported.", row.pk)
            files.fail(row)


@sweep(every=3600.0)
def clear_import_files() -> None:
    """Deletes uploaded files that nobody needs any more."""
    files.clear()


def _waiting(scope: Scope) -> int:
    """Files that were uploaded and not imported; some wait for a person's decision."""
    ended = (ImportFile.State.DONE, ImportFile.State.FAILED)
    return up_to_most(scope.of(ImportFile.objects.exclude(state__in=ended)))


def _hours(scope: Scope) -> list[int]:
    batches = scope.of(ImportBatch.objects.filter(started_at__gte=scope.day_ago))
    return scope.by_hour(batches, "started_at", Sum("added"))


def _refused(scope: Scope) -> QuerySet[ImportFile]:
    return ImportFile.objects.filter(state=ImportFile.State.FAILED, at__gte=scope.day_ago)


def _faults(scope: Scope) -> list[StageFault]:
    rows = scope.of(_refused(scope)).select_related("owner").order_by("-at")[:MOST_FAULTS]
    return [StageFault(row.owner, row.at, why=_why(row), file=row.pk) for row in rows]


def _why(row: ImportFile) -> str:
    """Most reasons name the file themselves."""
    return row.fault if row.source in row.fault else f"{row.source}: {row.fault}"


def _shown_already(scope: Scope) -> list[tuple[int, str]]:
    """An import that had begun may also have a row of work."""
    return list(_refused(scope).order_by().values_list("owner", "source"))


STAGE = Stage("import", words_beside(__file__), _waiting, IMPORT, _hours, _faults, _shown_already)
