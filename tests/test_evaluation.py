"""The figures of an evaluation, on runs made by hand and on a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from memoryapp import evaluation
from memoryapp.clients import offline_embedder
from memoryapp.evaluation import Score
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
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line: str, word: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(f'{{"user": "anna", "question": "?", "evidence": ["m1"]}}\n{line}\n')
    with pytest.raises(evaluation.QuestionsError, match=word):
        evaluation.read_questions(path)


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
