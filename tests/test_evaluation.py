"""The figures of an evaluation, on runs made by hand and on a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from memoryapp import evaluation, runs
from memoryapp.clients import Clients, offline_embedder, open_clients
from memoryapp.evaluation import Score
from memoryapp.management.commands import recall
from memoryapp.models import ChatUser, Evaluation, Message, Run
from memoryapp.vectors import embed_pending
from tests.conftest import talk


def score(**given: Any) -> Score:
    figures = {"category": "", "evidence": 2, "ranked": (1, 0, 1), "selected": 2, "hits": 1, "evidence_topics": 2}
    return Score(**{**figures, "seconds": 0.1, **given})


def test_recall_counts_evidence_messages_and_precision_counts_topics() -> None:
    one = score()
    assert (one.recall_at(1), one.recall_at(2), one.recall_at(3)) == (0.5, 0.5, 1.0)
    assert (one.precision, one.recall, one.f1) == (0.5, 0.5, 0.5)
    assert one.reciprocal_rank == 1.0


def test_an_empty_selection_scores_nothing_and_is_counted() -> None:
    figures = evaluation.report([score(selected=0, hits=0), score()], strategy="flash", cuts=[1])
    assert figures["selection"]["empty"] == 0.5
    assert figures["selection"]["f1"] == 0.25


def test_evidence_found_nowhere_has_no_rank() -> None:
    lost = score(ranked=(0, 0, 0))
    assert (lost.reciprocal_rank, lost.recall_at(3)) == (0.0, 0.0)


def test_categories_and_latencies_are_told_apart() -> None:
    slow = [score(category="a", seconds=n / 10) for n in range(1, 11)]
    figures = evaluation.report([*slow, score(category="b", seconds=0.5)], strategy="flash", cuts=[5])
    assert figures["by_category"]["a"]["n"] == 10
    assert figures["latency_ms"] == {"p50": 500.0, "p95": 950.0}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        pytest.param("no json", "Line 2", id="not-json"),
        pytest.param('{"user": "anna"}', "question", id="field-missing"),
        pytest.param('{"user": "anna", "question": "?", "evidence": []}', "evidence", id="no-evidence"),
        pytest.param('["anna"]', "Line 2", id="not-an-object"),
        pytest.param('{"user": "anna", "question": " ", "evidence": ["m1"]}', "“question”", id="empty-question"),
        pytest.param('{"user": "anna", "question": 7, "evidence": ["m1"]}', "“question”", id="a-number-asked"),
        pytest.param('{"user": ["anna"], "question": "?", "evidence": ["m1"]}', "“user”", id="a-list-of-users"),
        pytest.param('{"user": "an\\u0000na", "question": "?", "evidence": ["m1"]}', "“user”", id="unstorable"),
        pytest.param('{"user": "anna", "question": "?", "evidence": "m1"}', "“evidence”", id="evidence-in-no-list"),
        pytest.param('{"user": "anna", "question": "?", "evidence": [1]}', "“evidence”", id="evidence-by-number"),
        pytest.param(
            '{"user": "anna", "question": "?", "evidence": ["m1"], "category": 3}', "“category”", id="category"
        ),
        pytest.param("[" * 100_000, "Line 2", id="bottomless"),
        pytest.param("9" * 5_000, "Line 2", id="endless-number"),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line: str, word: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(f'{{"user": "anna", "question": "?", "evidence": ["m1"]}}\n{line}\n')
    with pytest.raises(evaluation.QuestionsError, match=word) as raised:
        evaluation.read_questions(path)
    assert "Line 2" in str(raised.value)


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


def questions(folder: Path, *asked: tuple[str, str, str]) -> Path:
    path = folder / "questions.jsonl"
    lines = ({"user": user, "qid": text, "question": text, "evidence": [message]} for user, text, message in asked)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.mark.parametrize("strategy", ["flash", "vector"])
def test_a_real_evaluation_keeps_its_runs_apart_from_those_by_hand(
    memory: ChatUser, tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    first, cake = (Message.objects.get(external_id=name) for name in ("m0", "m2"))
    path = questions(
        tmp_path, ("anna", "H100 memory?", first.external_id), ("anna", "birthday cake?", cake.external_id)
    )
    call_command("evaluate", str(path), "--strategy", strategy, "--json")
    figures = json.loads(capsys.readouterr().out)
    assert figures["n"] == 2
    assert figures["candidates"]["recall@5"] == 1.0
    assert figures["candidates"]["mrr"] == 1.0
    assert figures["selection"]["recall"] == 1.0
    assert Evaluation.objects.get().report == figures
    assert (Run.objects.count(), Run.objects.by_hand().count()) == (2, 0)


@pytest.mark.parametrize(
    ("user", "message", "sentence"),
    [("nobody", "m0", "no chat user “nobody”"), ("anna", "m99", "lacks the evidence message “m99”")],
)
def test_questions_about_what_is_not_there_end_with_a_sentence(
    memory: ChatUser, tmp_path: Path, user: str, message: str, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("evaluate", str(questions(tmp_path, (user, "?", message))))


@pytest.mark.parametrize(
    ("strategy", "cuts", "most"), [("vector", "5,51", 50), ("flash", "201", 200), ("flash", "0", 200)]
)
def test_recall_cannot_be_cut_where_no_run_records_the_order(
    memory: ChatUser, tmp_path: Path, strategy: str, cuts: str, most: int
) -> None:
    path = questions(tmp_path, ("anna", "?", "m0"))
    with pytest.raises(CommandError, match=f"from 1 to {most} .* strategy {strategy}"):
        call_command("evaluate", str(path), "--strategy", strategy, "--k", cuts)
    assert not Evaluation.objects.exists()


def test_recall_from_the_command_line_prints_one_document(memory: ChatUser, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("recall", "--user", "anna", "H100 out of memory", "--json", "--set", "max_topics=1")
    told = json.loads(capsys.readouterr().out)
    assert told["fallback"] is None
    assert [topic["rank"] for topic in told["topics"]] == [1]
    assert "Lower gpu_memory_utilization" in told["context"]
    assert told["usage"]["turns"] == 2


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
    """Another process that claims a run before the one that made it can."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
        self.execute = runs.execute

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
    monkeypatch.setattr(runs, "execute", Elsewhere(ends=True))
    call_command("recall", "--user", "anna", "H100 out of memory", "--json")
    assert json.loads(capsys.readouterr().out)["topics"]


def test_a_run_that_another_process_never_ends_is_told_in_a_sentence(
    memory: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "execute", Elsewhere(ends=False))
    monkeypatch.setattr(recall, "PATIENCE", 0.0)
    with pytest.raises(CommandError, match="Another process works on run"):
        call_command("recall", "--user", "anna", "H100?", "--set", "seconds=0.1", "--set", "turn_seconds=0.1")
