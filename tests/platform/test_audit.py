"""The audit log: every door writes into it, nothing can be changed in it, and a change of its chain is found."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import Model, QuerySet
from django.test import Client
from django.utils import timezone

from memoryapp import erasure
from memoryapp.engine.events import RunFinished, to_payload
from memoryapp.models import (
    AuditEntry,
    ChatUser,
    Deed,
    Door,
    Erasure,
    Operator,
    Run,
    RunEvent,
    Webhook,
    WebhookDelivery,
)
from memoryapp.platform.audit import chain, entries
from memoryapp.platform.statements import execute
from memoryapp.platform.webhooks import announcing
from tests.conftest import signed_in, talk
from tests.doors.api.every_endpoint import asked, endpoints
from tests.platform.every_address import SECRET, WORD, every_row, routes
from tests.support.api_client import Program, token_for

# Endpoints that wait for a run, which nothing executes here; all begin by finding the memory as the others do.
STARTING = ("/recall", "/qa", "/stream", "/completions", "/misses", "/fork")
# Pages that show rows of several memories at once, or of the installation.
OF_SEVERAL = ("golden_set", "night", "evaluation", "token", "webhook", "operator", "embedding", "prompt")


@pytest.fixture
def log(settings: Any) -> Iterator[None]:
    settings.AUDIT_LOG, settings.AUDIT_DAYS = True, 30
    entries._lately.clear()
    yield
    entries._lately.clear()


@pytest.fixture
def full_disk(transactional_db: None) -> Iterator[None]:
    """Nothing can be written into the log."""
    execute("ALTER TABLE memoryapp_auditentry ADD CONSTRAINT full_disk CHECK (id < 0) NOT VALID")
    yield
    execute("ALTER TABLE memoryapp_auditentry DROP CONSTRAINT full_disk")


@pytest.fixture
def memory(anna: ChatUser) -> dict[str, Model]:
    return every_row(anna)


def written(deed: str = "read", owner: int | None = None, **days: int) -> AuditEntry:
    """An entry; with ``ago`` as old as that many days."""
    at = timezone.now() - timedelta(days=days.get("ago", 0))
    return AuditEntry.objects.create(who="ada", door="page", deed=deed, owner_number=owner, what="topic 1", at=at)


def told() -> QuerySet[AuditEntry]:
    """What was done with memories, in its order."""
    return AuditEntry.objects.exclude(deed__startswith="sign").order_by("pk")


def by_superuser(statement: str) -> None:
    """Changes rows past the triggers, as only whoever owns the server can."""
    execute("SET LOCAL session_replication_role = replica")
    execute(statement)
    execute("SET LOCAL session_replication_role = origin")


# Every door.


@pytest.mark.slow
def test_each_page_that_shows_a_memory_leaves_an_entry_with_its_owner(
    log: None, memory: dict[str, Model], as_admin: Client
) -> None:
    anna = memory["chatuser"].pk
    counted = 0
    for route in routes(memory):
        entries._lately.clear()
        before = AuditEntry.objects.count()
        answer = as_admin.get(route.path)
        text = b"".join(answer).decode(errors="replace")
        # The frame around one's own account names the memory that was looked at last.
        if (
            route.name in ("account", "password")
            or answer.status_code != 200
            or (WORD not in text and SECRET not in text)
        ):
            continue
        counted += 1
        found = list(AuditEntry.objects.order_by("pk")[before:])
        assert found, f"{route.path} is not in the log"
        owners = {entry.owner_number for entry in found}
        is_of_several = route.is_anybodys or route.name.startswith(OF_SEVERAL) or "admin" in route.path
        assert anna in owners or (owners == {None} and is_of_several), route.path
        assert {entry.who for entry in found} == {"ada"}
    assert counted > 50
    told = " ".join(AuditEntry.objects.values_list("what", flat=True))
    assert WORD not in told
    assert SECRET not in told


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_each_endpoint_leaves_an_entry_with_its_owner(log: None, anna: ChatUser) -> None:
    topic = talk(anna, ("Cake", ["Which cake?", "The plum one."]))[0]
    run = Run.objects.create(owner=anna, query="cake", strategy="vector", state=Run.State.FINISHED)
    payload = to_payload(ended := RunFinished((), (), "", ""))
    RunEvent.objects.create(owner=anna, run=run, seq=1, kind=ended.kind, at=timezone.now(), payload=payload)
    program = Program(token_for(anna))
    for endpoint in endpoints("anna", topic.pk, run.pk):
        if endpoint[1].endswith(STARTING):
            continue
        before = AuditEntry.objects.count()
        answer = asked(program, endpoint)
        if answer.status_code >= 300 or endpoint[1] in ("/v1/users", "/v1/models", "/v1/audit"):
            continue
        found = list(AuditEntry.objects.order_by("pk")[before:])
        assert [(entry.owner_number, entry.address) for entry in found] == [(anna.pk, "127.0.0.1")], endpoint
        assert endpoint[0] != "get" or found[0].deed in (Deed.READ, Deed.EXPORT), endpoint
    told = [f"{entry.who} {entry.what}" for entry in AuditEntry.objects.all()]
    assert f"GET /v1/topics/<id> {topic.pk}" in " ".join(told)
    assert not any("anna" in each or SECRET in each for each in told)


@pytest.mark.django_db(transaction=True)
def test_a_list_of_all_memories_is_an_entry_without_an_owner(log: None, anna: ChatUser) -> None:
    Program(token_for(anna)).get("/v1/users")
    entry = AuditEntry.objects.get()
    assert (entry.owner_number, entry.door, entry.deed) == (None, Door.HTTP, Deed.READ)


@pytest.mark.django_db(transaction=True)
def test_what_is_refused_leaves_no_entry_of_that_memory(
    log: None, anna: ChatUser, boris: ChatUser, as_stranger: Client
) -> None:
    assert as_stranger.get(f"/memory/{anna.pk}/topics/").status_code == 404
    assert Program(token_for(boris)).get("/v1/users/anna/topics").status_code == 404
    assert not AuditEntry.objects.filter(owner_number=anna.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_without_the_setting_nothing_is_written(anna: ChatUser, as_admin: Client) -> None:
    as_admin.get(f"/memory/{anna.pk}/topics/")
    Program(token_for(anna)).get("/v1/users/anna/topics")
    call_command("export_user", "anna", "-", stdout=StringIO())
    Client().post("/login/", {"username": "ada", "password": "wrong"})
    assert not AuditEntry.objects.exists()


def test_the_parts_that_a_page_asks_for_count_once(log: None, anna: ChatUser, as_admin: Client) -> None:
    topic = talk(anna, ("Cake", ["Which cake?", "The plum one."]))[0]
    for _ in range(3):
        as_admin.get(f"/topics/{topic.pk}/")
        as_admin.get(f"/topics/{topic.pk}/peek/", headers={"HX-Request": "true"})
    assert [(entry.what, entry.owner_number) for entry in told()] == [(f"topic {topic.pk}", anna.pk)]


def test_a_part_asked_for_alone_counts(log: None, anna: ChatUser, as_admin: Client) -> None:
    topic = talk(anna, ("Cake", ["Which cake?", "The plum one."]))[0]
    as_admin.get(f"/topics/{topic.pk}/peek/", headers={"HX-Request": "true"})
    assert AuditEntry.objects.filter(owner_number=anna.pk).count() == 1


@pytest.mark.parametrize(
    ("method", "path", "deed"),
    [
        ("get", "topics/?format=csv", Deed.EXPORT),
        ("get", "export/", Deed.EXPORT),
        ("post", "ask/", Deed.ASK),
        ("post", "erase/", Deed.ERASE),
        ("get", "erase/", Deed.READ),
        ("post", "settings/", Deed.CHANGE),
    ],
)
def test_an_entry_says_what_was_done(
    log: None, anna: ChatUser, as_admin: Client, method: str, path: str, deed: Deed
) -> None:
    b"".join(getattr(as_admin, method)(f"/memory/{anna.pk}/{path}"))
    assert list(told().values_list("deed", "owner_number")) == [(deed, anna.pk)]


def test_commands_are_in_the_log(log: None, anna: ChatUser, capsys: Any) -> None:
    call_command("export_user", "anna", "-")
    call_command("erase_user", "anna", "--yes", stdout=StringIO())
    found = AuditEntry.objects.order_by("pk").values_list("door", "what", "deed", "owner_number")
    assert list(found) == [("command", "export_user", "export", anna.pk), ("command", "erase_user", "erase", anna.pk)]


def test_signing_in_and_out_is_in_the_log_and_a_mistyped_password_is_not(log: None, admin: Operator) -> None:
    client = Client(REMOTE_ADDR="192.0.2.7")
    client.post("/login/", {"username": "hunter2", "password": "x"})
    client.post("/login/", {"username": "ada", "password": "wrong"})
    client.post("/login/", {"username": "ada", "password": "a-long-enough-word"})
    client.post("/logout/")
    found = AuditEntry.objects.filter(deed__startswith="sign").order_by("pk").values_list("deed", "who", "address")
    assert list(found) == [
        ("sign_in_failed", "", "192.0.2.7"),
        ("sign_in_failed", "ada", "192.0.2.7"),
        ("sign_in", "ada", "192.0.2.7"),
        ("sign_out", "ada", "192.0.2.7"),
    ]


@pytest.mark.django_db(transaction=True)
def test_without_its_entry_a_change_does_not_happen_and_a_read_does(
    log: None, full_disk: None, anna: ChatUser, as_admin: Client
) -> None:
    program = Program(token_for(anna))
    program.client.raise_request_exception = False
    assert program.get("/v1/users/anna/facts").status_code == 200
    assert program.post("/v1/facts", {"user": "anna", "content": "Plays the oboe"}).status_code >= 500
    assert not anna.fact_set.exists()
    as_admin.raise_request_exception = False
    assert as_admin.get(f"/memory/{anna.pk}/facts/").status_code == 200
    assert as_admin.post(f"/memory/{anna.pk}/erase/", {"name": "anna"}).status_code >= 500
    assert not Erasure.objects.exists()


# The chain.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memoryapp_auditentry SET who = 'eve'",
        "UPDATE memoryapp_auditentry SET seal = 'x', place = 1, deed = 'ask'",
        "DELETE FROM memoryapp_auditentry",
        "TRUNCATE memoryapp_auditentry",
        "INSERT INTO memoryapp_auditentry (who, door, deed, what, seal) VALUES ('', 'page', 'read', '', 'x')",
    ],
)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_the_database_refuses_to_change_the_log(db: None, statement: str, is_sealed: bool) -> None:
    written()
    if is_sealed:
        chain.seal_due()
    with pytest.raises(DatabaseError, match="audit log"), transaction.atomic():
        execute(statement)


def test_a_sealed_entry_follows_the_one_before(db: None) -> None:
    written(), written("ask"), written("export")
    assert chain.seal_due() == 3
    written()
    assert chain.seal_due() == 1
    rows = list(chain.sealed())
    assert [row.place for row in rows] == [1, 2, 3, 4]
    assert [row.former for row in rows] == [chain.START, *(row.seal for row in rows[:-1])]
    assert list(chain.faults()) == []
    out = StringIO()
    call_command("verify_audit", expect=f"4:{rows[-1].seal}", stdout=out)
    assert out.getvalue() == f"4:{rows[-1].seal}\n"


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE memoryapp_auditentry SET who = 'eve' WHERE place = 2", (2, "changed")),
        ("UPDATE memoryapp_auditentry SET at = at - interval '1 s' WHERE place = 3", (3, "changed")),
        ("DELETE FROM memoryapp_auditentry WHERE place = 2", (3, "missing")),
        ("DELETE FROM memoryapp_auditentry WHERE place = 1", (2, "start")),
        ("UPDATE memoryapp_auditentry SET former = repeat('0', 64) WHERE place = 3", (3, "former")),
    ],
)
def test_a_change_by_whoever_owns_the_database_is_found(
    settings: Any, db: None, statement: str, fault: tuple[int, str]
) -> None:
    settings.AUDIT_DAYS = 0
    for _ in range(4):
        written()
    chain.seal_due()
    by_superuser(statement)
    assert fault in list(chain.faults())
    with pytest.raises(CommandError):
        call_command("verify_audit", stdout=StringIO())


def test_what_was_cut_off_at_the_end_is_missed_by_a_seal_noted_elsewhere(db: None) -> None:
    written(), written()
    chain.seal_due()
    last = chain.sealed().last()
    assert last
    by_superuser("DELETE FROM memoryapp_auditentry WHERE place = 2")
    call_command("verify_audit", stdout=StringIO())
    with pytest.raises(CommandError):
        call_command("verify_audit", expect=f"2:{last.seal}", stdout=StringIO())


def test_old_entries_go_and_the_chain_stays_whole(settings: Any, db: None) -> None:
    settings.AUDIT_DAYS = 30
    for ago in (40, 35, 31, 10, 0):
        written(ago=ago)
    assert chain.prune() == 0, "what is not sealed stays"
    chain.seal_due()
    assert chain.prune() == 3
    assert [row.place for row in chain.sealed()] == [4, 5]
    written()
    chain.seal_due()
    assert list(chain.faults()) == []
    settings.AUDIT_DAYS = 0
    assert chain.prune() == 0


def test_a_webhook_is_sent_each_sealed_batch(anna: ChatUser) -> None:
    Webhook.objects.create(name="w", address="http://127.0.0.1:9/", kinds=["audit.sealed"], nonce="n", made_by="ada")
    written(owner=anna.pk), written("ask")
    chain.seal_due()
    data = json.loads(announcing.body_of(WebhookDelivery.objects.get()))["data"]
    assert [entry["deed"] for entry in data["entries"]] == ["read", "ask"]
    for entry in data["entries"]:
        former, seal = entry.pop("former"), entry.pop("seal")
        assert chain.seal_of(former, entry) == seal


@pytest.mark.django_db(transaction=True)
def test_an_erasure_leaves_who_and_when_and_no_content(log: None, memory: dict[str, Model], as_admin: Client) -> None:
    anna = ChatUser.objects.get(pk=memory["chatuser"].pk)
    as_admin.get(f"/topics/{memory['topic'].pk}/")
    Program(token_for(anna)).get(f"/v1/users/{anna.name}/topics")
    chain.seal_due()
    before = list(AuditEntry.objects.values_list("at", "who", "owner_number", "seal"))
    receipt = erasure.finish(erasure.begin_user(anna, "ada"))
    assert receipt.ended_at
    assert list(AuditEntry.objects.values_list("at", "who", "owner_number", "seal")) == before
    assert list(chain.faults()) == []
    text = "".join(chain.lines(chain.sealed()))
    assert WORD not in text
    assert SECRET not in text
    page = as_admin.get("/audit/").content.decode()
    assert f"erased, number {receipt.owner_number}" in page


# The page and the endpoint.


def test_the_page_is_found_by_who_whose_deed_and_door(
    log: None, anna: ChatUser, boris: ChatUser, as_admin: Client
) -> None:
    written(owner=anna.pk), written("export", owner=boris.pk)
    for query, expected in {
        "": {1, 2}, "q=ada": {1, 2}, "q=nobody": set(), "user=anna": {1}, f"user={boris.pk}": {2},
        "deed=export": {2}, "door=mcp": set(), f"day={timezone.now():%Y-%m-%d}": {1, 2},
    }.items():  # fmt: skip
        chosen = {each.pk for each in as_admin.get(f"/audit/?{query}").context["page"].rows if each.what == "topic 1"}
        numbers = dict(
            enumerate(AuditEntry.objects.filter(what="topic 1").order_by("pk").values_list("pk", flat=True), 1)
        )
        assert chosen == {numbers[place] for place in expected}, query
    file = as_admin.get("/audit/?format=json")
    assert {"anna", "ada"} & {row["who"] for row in json.loads(file.content)}
    assert AuditEntry.objects.filter(what="audit", deed=Deed.EXPORT).exists()


def test_a_curator_may_not_see_it(curator: Operator) -> None:
    assert signed_in(curator).get("/audit/").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_programs_read_sealed_entries_as_lines(log: None, anna: ChatUser, boris: ChatUser) -> None:
    written(owner=anna.pk), written(owner=boris.pk)
    chain.seal_due()
    everyone, of_anna = (Program(token_for(*owners, scopes=("audit",))) for owners in ((), (anna,)))
    lines = [json.loads(line) for line in everyone.get("/v1/audit").content.splitlines()]
    assert [(line["place"], line["user"]) for line in lines] == [(1, anna.pk), (2, boris.pk)]
    assert len(everyone.get("/v1/audit?after=1&limit=5").content.splitlines()) == 1
    assert [json.loads(line)["user"] for line in of_anna.get("/v1/audit").content.splitlines()] == [anna.pk]
    assert Program(token_for(anna, scopes=("read",))).get("/v1/audit").status_code == 403


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_hundred_requests_at_once_all_stand_in_it(log: None, anna: ChatUser) -> None:
    token = token_for(anna)

    def ask(_: int) -> int:
        try:
            return int(Program(token).get("/v1/users/anna/topics").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(200))) == {200}
    chain.seal_due()
    assert chain.sealed().filter(owner_number=anna.pk).count() == 200
    assert list(chain.faults()) == []
