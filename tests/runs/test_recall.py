"""The command ``recall``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from memoryapp.clients import offline_embedder
from memoryapp.management.commands import recall
from memoryapp.models import ChatUser, Run
from memoryapp.runs import lifecycle
from memoryapp.runs import waiting as waiting_for_runs
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


def test_the_command_line_prints_the_answer_in_words(memory: ChatUser, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("recall", "--user", "anna", "Which cake for a birthday?", "--strategy", "react")
    call_command(*asked)
    answer, topic, *_rest = capsys.readouterr().out.splitlines()
    assert "Honey cake keeps for days" in answer
    assert answer.endswith("[1]")
    assert topic.startswith("1. Topic:")
    call_command(*asked, "--json")
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["answer"]) == ("answered", answer)
    assert [cited["quote"] for cited in document["citations"]] == ["Honey cake keeps for days"]
    assert [topic["rank"] for topic in document["topics"]] == [1]


def test_an_answer_in_other_words_is_found_by_its_nearness(
    memory: ChatUser, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("recall", "--user", "anna", "What dessert stays fresh?", "--strategy", "plain", "--json")
    near = json.loads(capsys.readouterr().out)
    call_command("recall", "--user", "anna", "Who won the chess match?", "--strategy", "plain", "--json")
    far = json.loads(capsys.readouterr().out)
    assert (near["outcome"], far["outcome"]) == ("softened", "refused")
    assert "cake" in near["topics"][0]["excerpt"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--user", "nobody", "q"), "no chat user “nobody”. There are: anna"),
        (("--user", "anna", " "), "empty"),
        (("--user", "anna", "q", "--set", "speed"), "KEY=VALUE"),
        (("--user", "anna", "q", "--set", "max_topics=0"), "between"),
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
    monkeypatch.setattr(waiting_for_runs, "PATIENCE", 0.0)
    with pytest.raises(CommandError, match="Another process works on run"):
        call_command("recall", "--user", "anna", "H100?", "--set", "seconds=0.1", "--set", "turn_seconds=0.1")
