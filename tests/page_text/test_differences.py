"""Two texts side by side: each changed line beside its old version, changed words marked, unchanged lines folded."""

from __future__ import annotations

import time

import pytest

from rerankui.text.differences import DifferenceRow, difference


def shape(old: str, new: str) -> list[str]:
    return [row.kind for row in difference(old, new).rows]


def marked(row: DifferenceRow) -> tuple[list[str], list[str]]:
    """Returns the changed words of both sides."""
    sides = ([] if line is None else [s.text for s in line.spans if s.is_changed] for line in (row.old, row.new))
    first, second = sides
    return first, second


def test_the_same_text_has_no_difference() -> None:
    assert not difference("a\nb", "a\nb")


def test_a_rewritten_line_marks_only_the_words_that_changed() -> None:
    row = difference("Choose at most ten topics.", "Choose at most five good topics.").rows[0]
    assert row.kind == "changed"
    assert marked(row) == (["ten"], ["five good"])


def test_nothing_of_either_text_is_lost() -> None:
    old, new = "one\n\n  two, three\nfour\nsix", "zero\none\n  two; three\n\nsix seven"
    rows = difference(old, new).rows
    for side, text in (("old", old), ("new", new)):
        lines = [getattr(row, side) for row in rows if getattr(row, side)]
        assert "\n".join("".join(span.text for span in line.spans) for line in lines) == text
        assert [line.number for line in lines] == list(range(1, text.count("\n") + 2))


def test_a_line_put_before_a_rewritten_one_does_not_tear_them_apart() -> None:
    old = "Load them all with one call."
    new = "First think.\nLoad them all with one single call."
    assert shape(old, new) == ["added", "changed"]


def test_lines_that_have_no_word_in_common_are_not_called_a_rewrite() -> None:
    assert shape("Load everything.", "Answer with nothing") == ["removed", "added"]


def test_same_lines_far_from_a_change_are_folded() -> None:
    old = "\n".join(f"line {number}" for number in range(20))
    rows = difference(old, old.replace("line 10", "line ten")).rows
    assert [row.kind for row in rows] == ["fold", *["same"] * 3, "changed", *["same"] * 3, "fold"]
    assert [row.folded for row in rows if row.kind == "fold"] == [7, 6]


def test_a_rewrite_counts_as_one_line_gone_and_one_come() -> None:
    found = difference("a b c d\nx", "a b c e\nx\ny")
    assert (found.removed, found.added) == (1, 2)


@pytest.mark.slow
def test_hostile_texts_take_no_long_time() -> None:
    began = time.process_time()
    difference("\n" * 40_000, "a\n" * 20_000)
    difference(" ".join(map(str, range(9_000))), " ".join(map(str, range(1, 9_001))))
    difference("\n".join(f"w{n} b c" for n in range(30)), "\n".join(f"v{n} b c" for n in range(30)))
    assert time.process_time() - began < 5
