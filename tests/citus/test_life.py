"""The whole program on a cluster, as an operator runs it: memories live in cells on several machines, one of which is
killed, and another added, while people ask.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from memoryapp.engine.cells import within
from memoryapp.models import ChatUser
from memoryapp.platform.sights import schema
from tests.citus.cluster import Cluster
from tests.citus.installation import CELLS, Installation, chat, connected
from tests.platform.every_address import every_row
from tests.platform.test_cells import statuses
from tests.processes.test_rolling_restart import Node
from tests.support.clock import PATIENCE
from tests.support.stack import PASSWORD, wait_for

DAYS = [
    ("How do I set up vLLM on the H100? It runs out of memory.", "Lower gpu_memory_utilization to 0.85."),
    ("Which cake for Masha's birthday?", "A honey cake keeps for two days."),
    ("Колено болит после бега, это мениск?", "Покой, лёд и приём у ортопеда."),
]
QUERY = "Why did vLLM run out of memory on the H100?"
STRATEGIES = ("flash", "filter", "react", "vector")
# The measurement of the docs has 500 of these.
REQUESTS = int(os.environ.get("ROLLING_REQUESTS", "60"))
AWAY = "cannot be reached at the moment"


@pytest.fixture(scope="module")
def program(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    started = Installation(cluster, tmp_path_factory.mktemp("life"))
    yield started
    assert started.stop() == 0


def remembered(program: Installation, name: str) -> list[int]:
    """Imports, archives and embeds the chat of this memory; returns its topics' numbers by time."""
    file = program.folder.parent / f"{name}.jsonl"
    file.write_text(chat(name, DAYS))
    program.do("import_chat", str(file))
    program.do("archive", "--user", name, "--now")
    program.do("embed", "--yes")
    listed = program.ask("GET", f"/v1/users/{name}/topics")["topics"]
    return sorted(int(each["id"].partition(":")[2]) for each in listed)


def first_of(answer: dict[str, Any]) -> str:
    assert not answer.get("fallback"), answer
    return str(answer["topics"][0]["id"])


def test_a_memory_lives_in_either_cell(program: Installation) -> None:
    names = ["anna", "boris", "clara"]
    for name in names:
        vllm, cake, knee = remembered(program, name)
        for strategy in STRATEGIES:
            body = {"user": name, "query": QUERY, "strategy": strategy}
            assert first_of(program.ask("POST", "/v1/recall", body)) == f"Topic:{vllm}"
        assert program.ask("POST", "/v1/qa", {"user": name, "query": "Which cake for the birthday?"})["outcome"]
        curated(program, name, vllm, cake, knee)
        watched_over(program, name)
    assert {program.cell_of(name) for name in names} == {1, 2, 3}
    assert {program.machine_of(name) for name in names} == {1, 2}
    program.do("check_memory")
    program.do("erase_user", "anna", "--yes")
    program.do("check_memory")
    assert program.ask("GET", "/v1/users/boris/topics")["topics"]
    assert program.complaints() == []


def curated(program: Installation, name: str, vllm: int, cake: int, knee: int) -> None:
    merged = program.ask("POST", "/v1/topics/merge", {"user": name, "topics": [vllm, cake]})
    program.ask("POST", f"/v1/edits/{merged['edit']}/undo", {})
    program.ask("PATCH", f"/v1/topics/{knee}", {"summary": "A knee"})
    program.ask("POST", f"/v1/topics/{cake}/split", {"at": ["m2-1"]})
    fact = program.ask(
        "POST", "/v1/facts", {"user": name, "content": f"{name} keeps seventeen oboes beside the tiled stove"}
    )["fact"]["id"]
    program.ask("PATCH", f"/v1/facts/{fact}", {"content": f"{name} keeps eighteen oboes beside the tiled stove"})
    pinned = program.ask("POST", "/v1/decisions", {"user": name, "id": f"Fact:{fact}", "recall": "pinned"})
    program.ask("POST", f"/v1/decisions/{pinned['change']}/undo", {})
    said = {"id": "x1", "role": "user", "content": "My card is 4111 1111 1111 1111."}
    program.ask("POST", "/v1/messages", {"user": name, "messages": [said]})
    program.ask("DELETE", f"/v1/messages/x1?user={name}")


def watched_over(program: Installation, name: str) -> None:
    """Expiry, misses, evaluation, and the memory under another name."""
    program.ask("POST", "/v1/expiry/rehearsal", {"user": name, "noun": "run", "days": 30})
    miss = program.ask("POST", "/v1/misses", {"user": name, "question": "What of my knee?"})
    assert program.ask("GET", f"/v1/misses/{miss['id']}")["question"] == "What of my knee?"
    golden, exported = program.folder.parent / "golden.jsonl", program.folder.parent / f"{name}.export"
    question = {"user": name, "qid": "q1", "question": "Which cake?", "evidence": ["m2-0", "m2-1"]}
    golden.write_text(json.dumps(question))
    assert json.loads(program.do("evaluate", str(golden), "--strategy", "flash", "--json"))
    program.do("export_user", name, str(exported))
    program.do("import_chat", str(exported), "--user", f"{name}-again")
    again = program.ask("GET", f"/v1/users/{name}-again/topics")["topics"]
    assert len(again) == len(program.ask("GET", f"/v1/users/{name}/topics")["topics"])


def test_a_memory_moves_to_another_machine(program: Installation) -> None:
    vllm, *_others = remembered(program, "carl")
    before = program.machine_of("carl")
    program.do("move_memory", "carl", str(elsewhere(program, before)))
    assert program.machine_of("carl") != before
    program.do("check_memory", "--user", "carl")
    assert first_of(program.ask("POST", "/v1/recall", {"user": "carl", "query": QUERY})) == f"Topic:{vllm}"


def elsewhere(program: Installation, machine: int) -> int:
    """A cell that lies on another machine."""
    return next(number for number in range(1, CELLS + 1) if program.cluster.where(schema(number)) != machine)


def test_what_is_limited_to_a_project_is_refused(program: Installation) -> None:
    remembered(program, "dora")
    answer = program.client.post("/v1/recall", json={"user": "dora", "query": QUERY, "project": "work"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert "limited to projects" in answer.text


@pytest.fixture
def other(program: Installation, tmp_path: Path) -> Iterator[Node]:
    """A second web node of the installation."""
    names = ("DATABASE_URL", "CELLS", "SECRET_KEY")
    node = Node(tmp_path / "other", **{name: program.environment[name] for name in names})
    node.start()
    wait_for(node.is_ready)
    yield node
    node.stop()


def test_a_run_is_watched_on_another_node(program: Installation, other: Node) -> None:
    remembered(program, "eva")
    headers = dict(program.client.headers)
    with httpx.stream(
        "POST", f"{other.url}/v1/recall/stream", json={"user": "eva", "query": QUERY}, headers=headers, timeout=PATIENCE
    ) as asked:
        run = httpx.URL(asked.headers["Content-Location"]).path
        with program.client.stream("GET", f"{run}/stream") as watched:
            shown = [line for line in watched.iter_lines() if line.startswith("event:")]
        own = [line for line in asked.iter_lines() if line.startswith("event:")]
    assert shown == own
    assert shown


@pytest.mark.slow
def test_every_address_answers(
    program: Installation, cluster: Cluster, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock(), connected(cluster):
        fedor = ChatUser.objects.create(name="fedor")
        with within(fedor.cell):
            memory = every_row(fedor)
        found = statuses(memory, "fedor")
    assert {key: status for key, status in found.items() if status == 500} == {}


@pytest.fixture(scope="module")
def page(program: Installation) -> Iterator[httpx.Client]:
    """The browser of an admin."""
    program.make_operator("olga")
    with httpx.Client(base_url=program.url, timeout=PATIENCE, follow_redirects=True) as client:
        client.get("/login/")
        fields = {"username": "olga", "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        assert client.post("/login/", data=fields).status_code == 200
        assert client.get("/").url.path == "/"
        yield client


OF_ALL = ("/", "/runs/", "/pipeline/", "/quality/")


def test_a_dead_machine_takes_its_memories_alone(program: Installation, cluster: Cluster, page: httpx.Client) -> None:
    before = len(program.complaints())
    remembered(program, "gina")
    vllm, *_others = remembered(program, "hans")
    dead = program.machine_of("gina")
    if program.machine_of("hans") == dead:
        program.do("move_memory", "hans", str(elsewhere(program, dead)))
    [(number,)] = cluster.ask("SELECT id FROM memoryapp_chatuser WHERE name = 'gina'")
    assert page.get(f"/memory/{number}/topics/").status_code == 200
    cluster.kill(dead)
    refused = program.client.post("/v1/recall", json={"user": "gina", "query": QUERY})
    assert (refused.status_code, AWAY in refused.text) == (503, True)
    shown = page.get(f"/memory/{number}/topics/")
    assert (shown.status_code, AWAY in shown.text) == (503, True)
    for strategy in STRATEGIES:
        body = {"user": "hans", "query": QUERY, "strategy": strategy}
        assert first_of(program.ask("POST", "/v1/recall", body)) == f"Topic:{vllm}"
    changes(program, "hans")
    for path in OF_ALL:
        shown = page.get(path)
        assert (path, shown.status_code, AWAY in shown.text) == (path, 200, True)
    cluster.start(dead)
    assert first_of(program.ask("POST", "/v1/recall", {"user": "gina", "query": QUERY}))
    changes(program, "gina")
    for path in (f"/memory/{number}/topics/", *OF_ALL):
        shown = page.get(path)
        assert (path, shown.status_code, AWAY in shown.text) == (path, 200, False)
    assert program.complaints()[before:] == []


def changes(program: Installation, name: str) -> None:
    """It is edited, and what is said is archived by the worker."""
    before = program.ask("GET", f"/v1/users/{name}/topics")["topics"]
    number = before[0]["id"].partition(":")[2]
    program.ask("PATCH", f"/v1/topics/{number}", {"summary": "A knee, and what heals it"})
    said = [
        {"id": f"s{place}", "role": role, "content": "Oboes need reeds.", "ts": f"2026-04-01T10:0{place}:00Z"}
        for place, role in enumerate(("user", "assistant"))
    ]
    program.ask("POST", "/v1/messages", {"user": name, "messages": said})
    wait_for(lambda: len(program.ask("GET", f"/v1/users/{name}/topics")["topics"]) > len(before))


def test_recalls_go_on_while_a_machine_is_added(program: Installation, cluster: Cluster) -> None:
    wanted = {name: f"Topic:{remembered(program, name)[0]}" for name in ("igor", "jana", "kurt")}
    names = sorted(wanted)

    def asked(number: int) -> str:
        name = names[number % len(names)]
        answer = program.client.post("/v1/recall", json={"user": name, "query": QUERY})
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.text[:200]}"
        return "ok" if first_of(answer.json()) == wanted[name] else "wrong"

    before = {name: program.machine_of(name) for name in names}
    with ThreadPoolExecutor(4) as pool:
        recalls = [pool.submit(asked, number) for number in range(REQUESTS)]
        wait_for(lambda: any(recall.done() for recall in recalls))
        added = cluster.add()
        cluster.rebalance()
        last = [pool.submit(asked, number) for number in range(len(names))]
        ends = Counter(recall.result() for recall in [*recalls, *last])
    assert ends == {"ok": REQUESTS + len(names)}
    assert added in {program.machine_of(name) for name in names} - {*before.values()}
