"""What one person waits for, and what each sweep takes when it finds nothing to do; in seconds."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from io import StringIO

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import archive
from memoryapp.intake.cutters import Segmenter
from memoryapp.intake.messages import add_messages
from memoryapp.memory.sessions import limits
from memoryapp.models import Access, ChatUser, Operator, Role, Topic
from memoryapp.platform.embedded import statics
from memoryapp.platform.llm import clients
from memoryapp.search.profiles import serving
from memoryapp.upkeep import tasks
from tools.bench import memory, stage
from tools.bench.memory import queries
from tools.bench.stage import BenchStage
from tools.bench.table import quantile

NAME = "load"
TIMES = 9


def seed(topics: int) -> int:
    """Makes the memory that is multiplied; returns its id."""
    profile, owner = serving(), ChatUser.objects.create(name=NAME)
    for first in range(0, topics, memory.AT_ONCE):
        memory.put(owner, range(first, min(first + memory.AT_ONCE, topics)))
    memory.put_vectors(owner, profile)
    Topic.objects.of(owner).update(facts_extracted=True)
    statics.collect()
    for name, role in (("admin", Role.ADMIN), ("viewer", Role.VIEWER)):
        Operator.objects.create(user=User.objects.create_user(f"load-{name}"), role=role)
    return owner.pk


def measured(users: int) -> Iterator[tuple[str, float]]:
    """Yields what was measured by name, for one person among ``users``; the last of them is erased at the end."""
    owner = ChatUser.objects.get(name=f"{NAME}-1")
    Access.objects.get_or_create(operator=Operator.objects.get(user__username="load-viewer"), owner=owner)
    yield "recall", async_to_sync(_recalls)(owner)
    for who in ("viewer", "admin"):
        client = Client(headers={"host": "localhost"})
        client.force_login(User.objects.get(username=f"load-{who}"))
        topic = Topic.objects.of(owner).live().values_list("pk", flat=True).first()
        own = f"/memory/{owner.pk}/"
        for address in (
            "/",
            own,
            f"{own}topics/",
            f"{own}messages/",
            f"/topics/{topic}/",
            f"{own}history/",
            "/runs/",
            f"{own}pipeline/",
            "/find/?q=bado",
        ):
            name = address.replace(own, "/memory/…/").replace(str(topic), "…")
            yield f"{who} {name}", _median(partial(_page, client, address))
    for address in ("/quality/", "/pipeline/"):
        yield f"admin {address}", _median(partial(_page, client, address), 3)
    yield "40 messages stored", _once(lambda: _say(owner, users))
    cuts = Segmenter(owner, clients.offline_embedder())
    yield "archive of a session", _once(lambda: archive(owner, cuts, limits(owner), now=True))
    yield "check_memory --user", _once(lambda: call_command("check_memory", user=owner.name, stdout=StringIO()))
    for name in tasks.__all__:
        yield f"sweep {name}", _median(getattr(tasks, name), 3)
    last = ChatUser.objects.filter(name__startswith=f"{NAME}-").order_by("pk").last()
    if last:
        yield "erase_user", _once(lambda: call_command("erase_user", last.name, yes=True, stdout=StringIO()))


async def _recalls(owner: ChatUser) -> float:
    on = BenchStage(owner, "", tuple(queries(100)))
    async with stage.embedded_clients() as opened:
        return quantile(
            [await stage.execute_run((await stage.create_run(on, number)).pk, opened) for number in range(TIMES)], 0.5
        )


def _page(client: Client, address: str) -> None:
    answer = client.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")


def _say(owner: ChatUser, salt: int) -> None:
    began = timezone.now() - timedelta(hours=2)
    add_messages(
        owner,
        [
            MessageRecord(
                user="",
                external_id=f"load-{salt}-{number}",
                role="assistant" if number % 2 else "user",
                author="bot" if number % 2 else "Ada",
                sent_at=began + timedelta(seconds=number),
                text=f"Words {number} of a talk about cakes, boats and a garden.",
            )
            for number in range(40)
        ],
    )


def _once(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _median(work: Callable[[], object], times: int = TIMES) -> float:
    return quantile([_once(work) for _ in range(times + 1)][1:], 0.5)
