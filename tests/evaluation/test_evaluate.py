"""The command ``evaluate``: real runs, their report, strategies side by side, the gate."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memoryapp.models import ChatUser, Evaluation, Message, PassageVector, Run
from tests.runs.test_recall import memory

__all__ = ["memory"]


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


def test_it_warns_where_vectors_are_missing(
    memory: ChatUser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = questions(tmp_path, ("anna", "birthday cake?", Message.objects.get(external_id="m2").external_id))
    call_command("evaluate", str(path))
    assert "vectors" not in capsys.readouterr().err
    PassageVector.objects.all().delete()
    call_command("evaluate", str(path))
    assert "lacks vectors of 0 topics and 2 passages" in capsys.readouterr().err


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


QUESTIONS: list[dict[str, Any]] = [
    {"qid": "memory", "question": "H100 memory?", "evidence": ["m0", "m1"]},
    {"qid": "cake", "question": "birthday cake?", "evidence": ["m2"]},
    {"qid": "ferry", "question": "When does the ferry to Helsinki leave?", "unanswerable": True},
    {"qid": "nonsense"},
]


@pytest.fixture
def asked(memory: ChatUser, tmp_path: Path) -> Path:
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)))
    return path


def evaluated(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    call_command("evaluate", str(path), "--user", "anna", "--json", *more)
    return json.loads(capsys.readouterr().out)


def test_strategies_side_by_side_are_asked_the_same_and_refer_to_the_first(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = evaluated(asked, capsys, "--strategy", "flash,vector")
    flash, vector = document["reports"]
    assert [row["qid"] for row in flash["questions"]] == [row["qid"] for row in vector["questions"]]
    assert (flash["n"], flash["unanswerable"]) == (3, 1)
    assert vector["refusals"] == {"unanswerable": 0.0, "answerable": 0.0}
    assert flash["citations"]["supported"] == 1.0
    assert vector["citations"]["precision"] < flash["citations"]["precision"]
    first, second = Evaluation.objects.order_by("pk")
    assert (first.reference, second.reference) == (None, first)
    assert {str(run.pk) for run in first.run_set.all()} == {row["run"] for row in flash["questions"]}


def test_each_of_several_strategies_gets_its_own_parameters(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--strategy", "filter,vector")
    evaluated(asked, capsys, *both, "--set", "threshold=0.2", "--set", "max_topics=3")
    first, second = Evaluation.objects.order_by("pk")
    assert (first.parameters, second.parameters) == ({"threshold": "0.2"}, {"max_topics": "3"})
    assert {run.parameters["max_topics"] for run in second.run_set.all()} == {3}
    with pytest.raises(CommandError, match="The strategy “filter” has no parameter “read_chars”"):
        evaluated(asked, capsys, *both, "--set", "read_chars=5000")


def test_the_table_names_lines_that_cannot_be_asked(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("evaluate", str(asked), "--user", "anna", "--strategy", "vector")
    printed = capsys.readouterr()
    assert "3 questions, 1 of them unanswerable" in printed.out
    assert "Line 4 cannot be asked: “evidence”" in printed.err


def test_the_gate_passes_a_report_as_good_and_stops_one_that_got_worse(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = evaluated(asked, capsys, "--strategy", "flash,vector")
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps(document))
    evaluated(asked, capsys, "--strategy", "vector", "--gate", str(stored))
    for row in document["reports"][1]["questions"]:
        row["refused"] = not row["answerable"]
    stored.write_text(json.dumps(document))
    with pytest.raises(CommandError, match="vector: refused_unanswerable changed by -1.000") as raised:
        evaluated(asked, capsys, "--strategy", "vector", "--gate", str(stored))
    assert raised.value.returncode == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no json", "no report of evaluate --json"),
        ("[]", "no report of evaluate --json"),
        ('{"strategy": "vector", "questions": [{}]}', "no report of evaluate --json"),
        ('{"strategy": "filter"}', "has no report of the strategy vector"),
    ],
)
def test_a_gate_that_is_no_report_is_refused_before_anything_is_asked(
    asked: Path, tmp_path: Path, text: str, sentence: str
) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(text)
    with pytest.raises(CommandError, match=sentence):
        call_command("evaluate", str(asked), "--user", "anna", "--strategy", "vector", "--gate", str(stored))
    assert not Run.objects.exists()


@pytest.mark.parametrize("margin", ["nan", "-1", "2", "much"])
def test_a_margin_that_would_let_everything_pass_is_refused(asked: Path, margin: str) -> None:
    with pytest.raises(CommandError, match="a number from 0 to 1 is needed"):
        call_command("evaluate", str(asked), "--user", "anna", "--margin", margin)
    assert not Run.objects.exists()


def test_a_gate_of_other_questions_is_refused(asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text('{"strategy": "vector", "questions": []}')
    with pytest.raises(CommandError, match="has none of these questions"):
        evaluated(asked, capsys, "--strategy", "vector", "--gate", str(stored))
