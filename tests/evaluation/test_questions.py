"""Files of labelled questions: what is read, and the message about what cannot be read."""

import json
from pathlib import Path

import pytest

from memoryapp.insight.evaluation.questions import LabelledQuestion, QuestionsError, read_questions
from tests.examples import table

GOOD = '{"user": "anna", "question": "?", "evidence": ["m1"]}'


def written(folder: Path, text: str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "word"),
    [
        *(pytest.param(*row, id=id) for id, row in table("bad_questions").items()),
        pytest.param("[" * 100_000, "recursion", id="bottomless"),
        pytest.param("9" * 5_000, "digits", id="endless-number"),
    ],
)
def test_a_line_that_is_no_question_is_named_and_the_others_are_asked(tmp_path: Path, line: str, word: str) -> None:
    read = read_questions(written(tmp_path, f"{GOOD}\n{line}\n"))
    assert [question.qid for question in read.asked] == ["1"]
    (fault,) = read.faults
    assert fault.startswith("Line 2 cannot be asked: ")
    assert word in fault


def test_a_file_without_a_good_line_is_refused_with_the_first_fault(tmp_path: Path) -> None:
    with pytest.raises(QuestionsError, match="holds no questions. Line 1 cannot be asked: it must be an object"):
        read_questions(written(tmp_path, "7\n[8]\n"))


@pytest.mark.parametrize("text", ["", "\n \n", "[]"])
def test_a_file_without_questions_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(QuestionsError, match="holds no questions"):
        read_questions(written(tmp_path, text))


def test_a_broken_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuestionsError, match="The list of questions is no JSON"):
        read_questions(written(tmp_path, "[{]"))


def test_a_folder_and_other_bytes_are_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe")
    for each, sentence in ((tmp_path, r"cannot be read: Is a directory\."), (path, "not UTF-8 text: save it as UTF-8")):
        with pytest.raises(QuestionsError, match=sentence):
            read_questions(each)


@pytest.mark.parametrize("as_list", [False, True], ids=["lines", "list"])
def test_what_may_be_left_out_is_filled_in(tmp_path: Path, as_list: bool) -> None:
    raw = [
        {"question": "Who?", "evidence": ["m1", "m2", "m1"], "expected_answer": "Lena"},
        {"id": 7, "user": "boris", "question": "Where?", "unanswerable": True, "category": "place"},
        {"qid": "c", "question": "When?", "evidence": ["m1"], "citations": ["m2"]},
    ]
    text = json.dumps(raw) if as_list else "\ufeff" + "\n\n".join(map(json.dumps, raw))
    read = read_questions(written(tmp_path, text), user="anna")
    assert read.faults == ()
    assert [(q.is_answerable, q.messages) for q in read.asked] == [
        (True, ("m1", "m2")),
        (False, ()),
        (True, ("m1", "m2")),
    ]
    assert read.asked == (
        LabelledQuestion("anna", "1", "Who?", "", ("m1", "m2"), ("m1", "m2")),
        LabelledQuestion("boris", "7", "Where?", "place", ()),
        LabelledQuestion("anna", "c", "When?", "", ("m1",), ("m2",)),
    )
