"""The stage of erasures, which name nobody."""

from datetime import timedelta
from functools import partial

from django.utils.translation import gettext_lazy

from memoryapp import erasure
from memoryapp.celery import sweep
from memoryapp.erasure import scanner
from memoryapp.models import Erasure
from memoryapp.models.work import WorkKind
from memoryapp.platform import work
from memoryapp.platform.database import each_alone, lane, log_and_continue
from memoryapp.upkeep.pipeline.stage import Stage, up_to_most, words_beside

ERASE = WorkKind("erase", gettext_lazy("Erasing"))


@sweep(every=10.0, of_all=True)
def erase_due() -> None:
    """Continues erasures that have not ended, because a process was killed or left them to the worker."""
    if work.is_paused(ERASE):
        return
    each_alone(erasure.due(), "Erasure %s has not ended yet.", partial(erasure.finish, wait=timedelta(0)))


@sweep(every=5.0, of_all=True)
def verify_asked() -> None:
    """Compares receipts of whole memories with what others hold, and verifies receipts on request. Both read the whole
    database, so no erasure waits for it."""
    with lane("verify_asked", 1) as is_free:
        each_alone(erasure.uncompared() if is_free else (), "Erasure %s is not compared yet.", erasure.compare)
        asked = Erasure.objects.filter(verify_asked_at__isnull=False, ended_at__isnull=False).order_by("pk")
        for receipt in asked.exclude(pk__in=erasure.uncompared().values("pk")) if is_free else ():
            message = "Erasure %s is not checked; somebody has to ask again."
            with log_and_continue(message, receipt.pk, partial(_give_up, receipt)):
                scanner.verify(receipt)


def _give_up(receipt: Erasure, error: Exception) -> None:
    Erasure.objects.filter(pk=receipt.pk).update(verify_asked_at=None)


STAGE = Stage(
    "erase",
    words_beside(__file__),
    lambda scope: up_to_most(Erasure.objects.filter(ended_at__isnull=True)),
    ERASE,
    lambda scope: scope.by_hour(Erasure.objects.filter(ended_at__gte=scope.day_ago), "ended_at"),
    names_nobody=True,
)
