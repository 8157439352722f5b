"""The API of the whole program, as `up` starts it: a token, messages, a question, its stream, a change."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memoryapp.platform.embedded import paths
from tests.embedded.cluster_use import connect
from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, Stack

DAYS = [
    ("How do I set up vLLM on the H100? It runs out of memory.", "Lower gpu_memory_utilization to 0.85."),
    ("Which cake for Masha's birthday?", "A honey cake keeps for two days."),
    ("Колено болит после бега, это мениск?", "Покой, лёд и приём у ортопеда."),
]
MESSAGES = [
    {"id": f"m{day}-{place}", "role": role, "author": role, "ts": f"2026-03-{day:02}T10:{place:02}:00Z", "text": text}
    for day, texts in enumerate(DAYS, start=1)
    for place, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
]
QUESTION = {"user": "anna", "query": "Why did vLLM run out of memory on the H100?"}

USE_OF_A_GENERATED_CLIENT = """
import sys
from memory_client import AuthenticatedClient
from memory_client.api.curation import undo_edit
from memory_client.api.messages import add_messages
from memory_client.api.recall import recall
from memory_client.api.topics import get_topic
from memory_client.models import MessagesBody, RecallBody

client = AuthenticatedClient(sys.argv[1], token=sys.argv[2], timeout=60)
said = {"user": "carl", "messages": [{"role": "user", "content": "My bicycle is green."}]}
assert add_messages.sync(client=client, body=MessagesBody.from_dict(said)).added == 1
found = recall.sync(client=client, body=RecallBody(user="anna", query="vLLM runs out of memory", include=["messages"]))
first = found.topics[0]
assert "vLLM" in first.messages[0].text and first.message_count == len(first.messages), first
assert get_topic.sync(first.id, client=client).id == first.id
assert undo_edit.sync_detailed("999999999", client=client).status_code == 404
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("api")
    started = Stack(folder / "data", "--no-demo", API_RATE="1000000/m", API_MAX_RUNS="10000")
    yield started
    # Without a chat model the chat endpoint is out of service, as its description says.
    complaints = [each for each in started.complaints() if "Service Unavailable: /v1/chat/completions" not in each]
    assert started.stop() == 0
    assert complaints == []


@pytest.fixture(scope="module")
def program(stack: Stack) -> Iterator[httpx.Client]:
    token = stack.json("create_token", "a program", "--scope", "recall,ingest,read,curate")["token"]
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=stack.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def streamed(client: httpx.Client, method: str, path: str, **asked: Any) -> tuple[str, list[tuple[str, int, Any]]]:
    """Returns the run's address, and the events in their order of arrival."""
    found = []
    with client.stream(method, path, **asked) as answer:
        assert answer.status_code == 200
        for block in "".join(answer.iter_text()).split("\n\n"):
            event = re.fullmatch(r"event: (\w+)\nid: (\d+)\ndata: (.+)", block)
            if event:
                found.append((event[1], int(event[2]), json.loads(event[3])))
    return answer.headers["Content-Location"], found


def test_a_program_talks_to_a_memory_from_the_first_message_to_the_last_event(
    stack: Stack, program: httpx.Client
) -> None:
    body = {"user": "anna", "messages": MESSAGES}
    assert program.post("/v1/messages", json=body).json() == {"added": 6, "skipped": 0, "rejected": []}
    assert program.post("/v1/messages", json=body).json()["skipped"] == 6
    assert stack.json("archive", "--now")["messages"] == 6
    document = program.post("/v1/recall", json=QUESTION).json()
    assert "Lower gpu_memory_utilization" in document["context"]
    assert document["url"] == f"{stack.url}/runs/{document['run']}/"
    run, events = streamed(program, "POST", "/v1/recall/stream", json=QUESTION)
    assert events[-1][0] == "run_finished"
    lines = [json.loads(line) for line in program.get(f"{run}/events").text.splitlines()]
    assert [(line["kind"], line["seq"], line["payload"]) for line in lines] == events
    resumed = streamed(program, "GET", f"{run}/stream", headers={"last-event-id": "2"})[1]
    assert resumed == events[2:]
    topics = program.get("/v1/users/anna/topics").json()["topics"]
    chosen = program.get(f"/v1/topics/{document['topics'][0]['id']}").json()
    assert chosen["id"] in [topic["id"] for topic in topics]
    assert "vLLM" in chosen["topics"][0]["messages"][0]["text"]
    assert json.loads(stack.command("check_memory", "--json").stdout)["violations"] == []


def test_a_program_merges_two_topics_and_takes_it_back(stack: Stack, program: httpx.Client) -> None:
    def topics() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = program.get("/v1/users/bea/topics").json()["topics"]
        return found

    program.post("/v1/messages", json={"user": "bea", "messages": MESSAGES})
    stack.json("archive", "--now", "--user", "bea")
    run = program.post("/v1/recall", json={**QUESTION, "user": "bea"}).json()
    before = topics()
    chosen = run["topics"][0]["id"]
    other = next(topic["id"] for topic in before if topic["id"] != chosen)
    wish = {"user": "bea", "topics": [chosen, other], "reason": "a trial"}
    tried = program.post("/v1/topics/merge", params={"dry_run": 1}, json=wish).json()
    assert [row["run"] for row in tried["effect"]["runs"]] == [run["run"]]
    assert tried["effect"]["runs"][0]["before"]["rank"] == 1
    assert topics() == before
    made = program.post("/v1/topics/merge", json=wish).json()
    assert made["topics"][0] == {**tried["topics"][0], "id": made["topics"][0]["id"]}
    followed = program.get(f"/v1/topics/{other}").json()
    assert (followed["retired"], followed["topics"][0]["id"]) == (True, made["topics"][0]["id"])
    again = program.post("/v1/topics/merge", json=wish)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "stale")
    assert program.post(f"/v1/edits/{made['edit']}/undo").json()["retired"] == [made["topics"][0]["id"]]
    assert topics() == before
    edits = program.get("/v1/edits", params={"user": "bea"}).json()["edits"]
    assert [(edit["kind"], edit["actor"]) for edit in edits[-2:]] == [
        ("merge", "token a program"),
        ("undo", "token a program"),
    ]
    assert json.loads(stack.command("check_memory", "--json").stdout)["violations"] == []


def test_a_generated_client_stores_asks_and_undoes(
    stack: Stack, program: httpx.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The client is made by openapi-python-client from the description, as a user of it would."""
    folder = tmp_path_factory.mktemp("generated")
    made = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{stack.url}/v1/openapi.json"),
            *("--meta", "none", "--output-path", str(folder / "memory_client")),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "removal of" not in made.stdout
    used = subprocess.run(
        [sys.executable, "-c", USE_OF_A_GENERATED_CLIENT, stack.url, program.headers["authorization"].split()[1]],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert used.returncode == 0, used.stdout + used.stderr


def test_a_client_that_hangs_up_leaves_a_run_that_ends(stack: Stack, program: httpx.Client) -> None:
    with program.stream("POST", "/v1/recall/stream", json=QUESTION) as answer:
        run = answer.headers["Content-Location"]
        next(answer.iter_text())
    assert streamed(program, "GET", f"{run}/stream")[1][-1][0] == "run_finished"


def test_a_body_that_is_too_large_is_refused_by_the_real_server(program: httpx.Client) -> None:
    refused = program.post("/v1/messages", content=b'{"user": "' + b"a" * (11 * 1024 * 1024) + b'"}')
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")


def test_a_socket_that_waits_for_its_session_longer_than_daphne_would_is_answered(stack: Stack) -> None:
    lines = (
        "GET /ws/runs/00000000-0000-4000-8000-000000000000/ HTTP/1.1",
        f"Host: 127.0.0.1:{stack.port}",
        f"Origin: {stack.url}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Cookie: sessionid=abcdefabcdefabcdefabcdefabcdefab",
    )
    address = ("127.0.0.1", stack.port)
    with connect(paths.cluster(stack.folder)) as database, socket.create_connection(address, PATIENCE) as client:
        database.execute("BEGIN")
        database.execute("LOCK TABLE memoryapp_loginsession IN ACCESS EXCLUSIVE MODE")
        client.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        # By default daphne drops a connection after 5 s, and checks every 2 s; hundreds at once wait that long.
        database.execute("SELECT pg_sleep(8)")
        database.execute("COMMIT")
        assert client.recv(1024).startswith(b"HTTP/1.1 ")


def test_the_endpoints_do_what_their_description_says(
    program: httpx.Client, stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Sends a few requests to every endpoint, the same each time; a longer search is started by hand. It is the last
    test, because one endpoint erases chat users."""
    token = program.headers["authorization"]
    tried = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CHECKOUT / "tests" / "schemathesis.toml")),
            *("run", f"{stack.url}/v1/openapi.json", "--header", f"Authorization: {token}"),
            *("--generation-deterministic", "--max-examples", "5", "--no-color"),
        ],
        cwd=tmp_path_factory.mktemp("schemathesis"),
        capture_output=True,
        text=True,
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
