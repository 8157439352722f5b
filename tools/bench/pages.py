"""Compares the page of a finished run with a page that lists nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memoryapp.models import Access, Operator, Role, Run
from memoryapp.platform.embedded import statics
from tools.bench.memory import NAME
from tools.bench.stage import BenchStage
from tools.bench.table import BenchRow, quantile

PAGES = 10


def rows(stage: BenchStage) -> Iterator[BenchRow]:
    """Requests both pages as an operator who may look at no other memory."""
    statics.collect()
    run = Run.objects.of(stage.owner).filter(strategy="flash", state=Run.State.FINISHED).first()
    if run is None:
        return
    with _viewer(stage) as client:
        empty = _median(client, reverse("artifacts", args=[stage.owner.pk]))
        shown = _median(client, reverse("run", args=[run.pk]))
    yield BenchRow("page of a run: p50", shown * 1e3, "page that lists nothing", empty * 1e3, "ms")


@contextmanager
def _viewer(stage: BenchStage) -> Iterator[Client]:
    forget_viewer()
    operator = Operator.objects.create(user=User.objects.create_user(NAME), role=Role.VIEWER)
    Access.objects.create(operator=operator, owner=stage.owner)
    client = Client(headers={"host": "localhost"})
    client.force_login(operator.user)
    try:
        yield client
    finally:
        client.logout()
        forget_viewer()


def forget_viewer() -> None:
    """Deletes the account that this bench, or one that was killed, created."""
    User.objects.filter(username=NAME).delete()


def _median(client: Client, address: str) -> float:
    return quantile([_seconds(client, address) for _ in range(PAGES + 1)][1:], 0.5)


def _seconds(client: Client, address: str) -> float:
    began = time.perf_counter()
    answer = client.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    return time.perf_counter() - began
