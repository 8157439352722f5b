"""People and memories that tests share. Anna's memory is the one looked at; the stranger is an operator who may see
Boris's and nothing of hers."""

import gc
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from asgiref.sync import sync_to_async
from channels.layers import channel_layers
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.contenttypes.management import create_contenttypes
from django.db import connection, connections
from django.db.backends.postgresql.operations import DatabaseOperations
from django.db.models.signals import post_migrate
from django.test import Client, TransactionTestCase, override_settings
from django.utils import translation
from execnet import XSpec

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.importers import MessageRecord
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import Access, ChatUser, Fact, Message, Operator, Role, Topic
from memoryapp.platform.embedded.command_line import throwaway_environment
from memoryapp.platform.embedded.lease import throwaway
from memoryapp.platform.embedded.statics import collect
from memoryapp.runs.clients import Clients, open_clients
from tests import database, gate
from tests.support import memory_limit
from tests.support.chromium import CHROMIUM
from tests.support.clock import PATIENCE

# How long examples take to make up tells of the machine's load, not of the program.
SLOW_MACHINES = [hypothesis.HealthCheck.too_slow]
# Nor has an example a deadline, and the same code is tried with the same examples; ``searching`` makes up new ones.
SAME_EXAMPLES = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": SLOW_MACHINES}
hypothesis.settings.register_profile("whole", **SAME_EXAMPLES)
hypothesis.settings.register_profile("gate", max_examples=30, **SAME_EXAMPLES)
hypothesis.settings.register_profile("quick", max_examples=5, **SAME_EXAMPLES)
hypothesis.settings.register_profile("searching", deadline=None, derandomize=False, suppress_health_check=SLOW_MACHINES)
hypothesis.settings.load_profile("whole")

BEGAN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


# What the tests of a folder need more than a database; `manage.py test --quick` leaves these out.
FOLDERS = {"browser": "browser", "citus": "peers", "embedded": "processes", "peers": "peers", "processes": "processes"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(gate.OPTION, action="store_true", help="leave out suites whose subject is as released")


def pytest_configure(config: pytest.Config) -> None:
    """Before output is captured, so that the end of a process that grows too large is seen."""
    memory_limit.watch(os.dup(sys.stderr.fileno()))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freezes everything collected, so that the garbage collector does not examine it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests by their folder, and leaves out those that take many minutes unless their mark is requested."""
    without_browser = pytest.mark.skipif(not CHROMIUM, reason="no chromium was found on this machine")
    for item in items:
        if mark := FOLDERS.get(item.path.parent.name):
            item.add_marker(mark)
        if item.path.parent.name != "api" and _commits(item):
            item.add_marker("commits")
        if item.get_closest_marker("browser"):
            item.add_marker(without_browser)
    # Those mostly wait for processes, so that a worker with nothing else would leave its core alone at the end.
    items.sort(key=lambda item: item.path.parent.name != "embedded")
    long = [item for item in items if item.get_closest_marker("thorough")]
    for item in long:
        item.add_marker(pytest.mark.timeout(0))
    if "thorough" not in config.option.markexpr:
        _leave_out(config, items, long)
    if config.getoption(gate.OPTION):
        _leave_out(config, items, gate.left_out(items))


def _leave_out(config: pytest.Config, items: list[pytest.Item], out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=out)
    unwanted = set(out)
    items[:] = [item for item in items if item not in unwanted]


def _commits(item: pytest.Item) -> bool:
    """Whether the test's transactions are real ones, so that the tables have to be emptied after it."""
    marker = item.get_closest_marker("django_db")
    asked = {"transactional_db", "live_server"} & {*getattr(item, "fixturenames", ())}
    return bool(asked) or bool(marker and marker.kwargs.get("transaction"))


def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Each worker has a database server and a data folder to itself; the first one has those of the command."""
    servers = ExitStack()
    config.add_cleanup(servers.close)
    for spec in specs[1:]:
        spec.env.update(throwaway_environment(servers.enter_context(throwaway())))


@pytest.fixture(scope="session")
def dumps(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the migrated database's dump, kept for the next run where pytest keeps anything."""
    cache = getattr(pytestconfig, "cache", None)
    return cache.mkdir("database") if cache else tmp_path_factory.mktemp("database")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, dumps: Path) -> None:
    """Comes before the database is made: all migrations take as long as the tests of some files."""
    database.restore(dumps)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, dumps: Path) -> Iterator[None]:
    """What Django writes of the models by itself stays when tables are emptied, so it isn't looked for each time."""
    database.keep(dumps)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DatabaseOperations, "sql_flush", database.emptying)
        patched.setattr(TransactionTestCase, "_should_reload_connections", database.keep_connections)
        yield


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The database goes with its server, so no connection of a killed process can keep it from being dropped."""
    return True


@pytest.fixture(autouse=True, scope="session")
def settings_of_tests() -> Iterator[None]:
    """Sets them once: each change calls its receivers, which costs more before each of five thousand tests."""
    with override_settings(
        # A password is to be slow to guess, which every test that makes an operator would pay for.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher", *settings.PASSWORD_HASHERS],
        # Each client builds its middleware anew, and whitenoise would first look at all files that were collected.
        WHITENOISE_AUTOREFRESH=True,
        # Lets a run take longer on a busy machine than people would wait; a test that ends a run early sets its limits.
        RERANKER_TIMEOUT=PATIENCE,
        RERANKER_TURN_TIMEOUT=PATIENCE,
        # The real channel layer keeps its connections for the life of a process, longer than a test's event loop. The
        # tests that start the whole program use it.
        CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}},
    ):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings_xdist_suffix() -> None:
    """The database keeps its name, by which the processes that tests start find it: its server is the worker's own."""


def record(number: int, text: str, *, role: str = "user", at: datetime | None = None) -> MessageRecord:
    """A message as an importer reads it; one minute after another."""
    author = {"user": "Anna", "assistant": "bot"}.get(role, role)
    sent_at = at or BEGAN + timedelta(minutes=number)
    return MessageRecord(user="", external_id=f"m{number}", role=role, author=author, sent_at=sent_at, text=text)


def talk(owner: ChatUser, *topics: tuple[str, list[str]]) -> list[Topic]:
    """Archived topics, each a summary over texts said in turn by the user and the assistant."""
    number = Message.objects.of(owner).count()
    made = []
    for day, (summary, texts) in enumerate(topics):
        at = BEGAN + timedelta(days=day, minutes=number)
        records = [
            record(number + place, text, role="assistant" if place % 2 else "user", at=at + timedelta(minutes=place))
            for place, text in enumerate(texts)
        ]
        number += len(texts)
        add_messages(owner, records)
        ids = Message.objects.of(owner).filter(external_id__in=[r.external_id for r in records]).in_order()
        made += put_topics(owner, [TopicDraft(summary, tuple(ids.values_list("pk", flat=True)))], actor="test")
    return made


def fact_of(owner: ChatUser, content: str, topic: Topic | None = None, **fields: Any) -> Fact:
    """A fact, of a kind that no test looks at unless ``fields`` say it."""
    usual = {"relation": "has", "category": "x", "type": "status", "importance": 5, "created_at": BEGAN}
    return Fact.objects.create(owner=owner, content=content, topic=topic, **{**usual, **fields})


def candidate(topic: Topic, rank: int = 1) -> Candidate:
    """The topic as search found it, at this rank."""
    return Candidate(
        id=f"Topic:{topic.pk}",
        rank=rank,
        vector_rank=3 - rank,
        cosine=0.5,
        bm25=2.0,
        fused=1.5,
        score=0.8,
        date="2026-03-02",
        message_count=2,
        size_chars=60,
        summary=topic.summary,
        line=f"[Topic:{topic.pk}] (0.80)",
        shown=True,
    )


def contents(*texts: str) -> tuple[MessageContent, ...]:
    """Messages as the engine sees them, numbered from 1, said in turn."""
    return tuple(
        MessageContent(number, "user" if number % 2 else "assistant", "Anna", BEGAN + timedelta(minutes=number), text)
        for number, text in enumerate(texts, start=1)
    )


@contextmanager
def lawless() -> Iterator[None]:
    """Permits writes that the database would refuse, by a superuser, as after a disk failure."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = origin")


@pytest.fixture
def anna(db: None) -> ChatUser:
    return ChatUser.objects.create(name="anna", display_name="Анна")


@pytest.fixture
def boris(db: None) -> ChatUser:
    return ChatUser.objects.create(name="boris", display_name="Boris")


def operator(name: str, role: Role, *owners: ChatUser) -> Operator:
    made = Operator.objects.create(user=User.objects.create_user(name, password="a-long-enough-word"), role=role)
    Access.objects.bulk_create(Access(operator=made, owner=owner) for owner in owners)
    return made


@pytest.fixture
def admin(db: None) -> Operator:
    return operator("ada", Role.ADMIN)


@pytest.fixture
def debugger(anna: ChatUser) -> Operator:
    return operator("dora", Role.DEBUGGER, anna)


@pytest.fixture
def curator(anna: ChatUser) -> Operator:
    return operator("cora", Role.CURATOR, anna)


@pytest.fixture
def viewer(anna: ChatUser) -> Operator:
    return operator("vera", Role.VIEWER, anna)


@pytest.fixture
def stranger(boris: ChatUser) -> Operator:
    return operator("stan", Role.CURATOR, boris)


def signed_in(operator: Operator) -> Client:
    client = Client()
    client.force_login(operator.user)
    return client


@pytest.fixture
def as_admin(admin: Operator) -> Client:
    return signed_in(admin)


@pytest.fixture
def as_curator(curator: Operator) -> Client:
    return signed_in(curator)


@pytest.fixture
def as_debugger(debugger: Operator) -> Client:
    return signed_in(debugger)


@pytest.fixture
def as_viewer(viewer: Operator) -> Client:
    return signed_in(viewer)


@pytest.fixture
def as_stranger(stranger: Operator) -> Client:
    return signed_in(stranger)


@pytest.fixture(autouse=True, scope="session")
def collected_statics() -> None:
    """Pages name their files as production does, by the manifest of what was collected."""
    collect()


@pytest.fixture(autouse=True)
def nothing_left_to_the_next() -> Iterator[None]:
    """Resets what a test leaves in its process: a language of the thread, and notices that nobody received."""
    channel_layers.backends.clear()
    yield
    channel_layers.backends.clear()
    translation.deactivate()


@pytest.fixture
async def thread_closed() -> AsyncIterator[None]:
    """For tests in an event loop: the rows are reached in asgiref's thread, whose connection nobody else closes. One
    that is open before has lost its server if an earlier test killed that."""
    await sync_to_async(connections.close_all)()
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """Three topics, one for each evening; the second is between the others in time. Their messages are m0 to m7."""
    return talk(
        anna,
        ("Tea", ["Which tea?", "Green.", "Why green?", "It wakes you."]),
        ("Cats", ["How many?", "Three."]),
        ("More tea", ["And black tea?", "At five."]),
    )


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with open_clients() as opened:
        yield opened


@pytest.fixture
def as_root(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    return client
