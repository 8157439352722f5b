"""The commands ``recall`` and ``fork``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from memoryapp.management.commands import recall
from memoryapp.models import ChatUser, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk


@pytest.fixture
def memory(transactional_db: None) -> ChatUser:
    anna = ChatUser.objects.create(name="anna")
    talk(
        anna,
        ("vLLM on H100", ["vLLM on the H100 is out of memory", "Lower gpu_memory_utilization"]),
        ("Honey cake", ["Which cake for a birthday?", "Honey cake keeps for days"]),
    )
    async_to_sync(embed_pending)(offline_embedder())
    return anna


def test_recall_from_the_command_line_prints_one_document(memory: ChatUser, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("recall", "--user", "anna", "H100 out of memory", "--json", "--set", "max_topics=1")
    document = json.loads(capsys.readouterr().out)
    assert document["fallback"] is None
    assert [topic["rank"] for topic in document["topics"]] == [1]
    assert "Lower gpu_memory_utilization" in document["context"]
    assert document["usage"]["turns"] == 2


def test_the_command_line_prints_the_nearest_passages_where_no_model_answers(
    memory: ChatUser, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("recall", "--user", "anna", "Which cake for a birthday?", "--strategy", "react")
    call_command(*asked)
    lines = capsys.readouterr().out.splitlines()
    assert any("Honey cake keeps for days" in line for line in lines)
    call_command(*asked, "--json")
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["answer"], document["verified"]) == ("passages", "", None)
    assert "Honey cake keeps for days" in document["citations"][0]["quote"]
    assert document["topics"][0]["rank"] == 1


def test_a_passage_in_other_words_is_found_by_nearness(memory: ChatUser, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("recall", "--user", "anna", "What dessert stays fresh?", "--strategy", "plain", "--json")
    near = json.loads(capsys.readouterr().out)
    assert (near["outcome"], near["answer"]) == ("passages", "")
    assert "cake" in near["citations"][0]["quote"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--user", "nobody", "q"), "no chat user “nobody”. There are: anna"),
        (("--user", "anna", " "), "empty"),
        (("--user", "anna", "q", "--set", "speed"), "KEY=VALUE"),
        (("--user", "anna", "q", "--set", "max_topics=0"), "between"),
        (("--user", "anna", "q", "--set", "threshold=0.5"), "The strategy “flash” has no parameter “threshold”"),
        (("--user", "anna", "q", "--strategy", "psychic"), "psychic"),
    ],
)
def test_a_recall_that_cannot_be_ends_with_a_sentence(
    memory: ChatUser, arguments: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("recall", *arguments)
    assert not Run.objects.exists()


def test_a_run_from_the_command_line_is_not_left_waiting_while_its_clients_open(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Clients]:
        async with open_clients() as clients:
            waiting.append(await Run.objects.acount())
            yield clients

    monkeypatch.setattr(recall, "open_clients", opened)
    call_command("recall", "--user", "anna", "H100 out of memory")
    assert (waiting, Run.objects.count()) == ([0], 1)


class Elsewhere:
    """Another process, which claims a run before the one that created it can."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
        self.execute = lifecycle.execute

    async def __call__(self, run_id: UUID, clients: Clients) -> None:
        await Run.objects.filter(pk=run_id).aupdate(state=Run.State.RUNNING)
        if self.ends:
            self.working = asyncio.create_task(self.work(run_id))

    async def work(self, run_id: UUID) -> None:
        await Run.objects.filter(pk=run_id).aupdate(state=Run.State.PENDING)
        async with open_clients() as clients:
            await self.execute(run_id, clients)


def test_a_run_that_another_process_claimed_is_waited_for(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle, "execute", Elsewhere(ends=True))
    call_command("recall", "--user", "anna", "H100 out of memory", "--json")
    assert json.loads(capsys.readouterr().out)["topics"]


def test_a_run_that_another_process_never_ends_is_reported_in_a_sentence(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "execute", Elsewhere(ends=False))
    monkeypatch.setattr(lifecycle, "PATIENCE", 0.0)
    with pytest.raises(CommandError, match="Another process works on run"):
        call_command("recall", "--user", "anna", "H100?", "--set", "seconds=0.1", "--set", "turn_seconds=0.1")


def test_a_fork_from_the_command_line_prints_what_differs_and_what_it_may_cost(
    memory: ChatUser, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("recall", "--user", "anna", "H100 out of memory", "--json")
    parent = json.loads(capsys.readouterr().out)
    call_command("fork", parent["run"], "--turn", "2", "--set", "max_topics=1", "--set", "context=passages", "--json")
    printed = capsys.readouterr()
    fork = json.loads(printed.out)
    changes = {"parameters": {"max_topics": 1, "context": "passages"}}
    assert (fork["parent"], fork["turn"], fork["changes"]) == (parent["run"], 2, changes)
    assert [topic["id"] for topic in fork["topics"]] == [parent["topics"][0]["id"]]
    assert "took 1 turns" in printed.err
    call_command("fork", fork["run"])
    assert fork["topics"][0]["id"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nothing",), "There is no run “nothing”"),
        (("{run}", "--turn", "7"), "cannot be forked at turn 7"),
        (("{run}", "--set", "speed=3"), "cannot change “speed”"),
        (("{run}", "--set", "without=Topic:999999"), "not among the candidates"),
        (("{run}", "--set", "max_topics=many"), "must be a number"),
    ],
)
def test_a_fork_that_cannot_be_is_a_sentence(
    memory: ChatUser, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    call_command("recall", "--user", "anna", "H100 out of memory", "--json")
    run = json.loads(capsys.readouterr().out)["run"]
    with pytest.raises(CommandError, match=sentence):
        call_command("fork", *(argument.format(run=run) for argument in arguments))
    assert Run.objects.count() == 1
