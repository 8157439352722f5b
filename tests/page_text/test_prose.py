"""Markdown of chats: rendered on a page, removed in a single line, never trusted."""

from __future__ import annotations

import pytest

from rerankui.text.prose import line, shown, unmarked


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("**Plan**\n\n## Days\n- one\n* two", "Plan\n\nDays\n• one\n• two"),
        ("`vllm serve` and *now*", "vllm serve and now"),
        ("```python\nx = 1\n```\nthen", "x = 1\nthen"),
        ("see [the page](https://example.com/a) now", "see the page now"),
        ("2 * 3 * 4, a_b_c, #5, 1. first, 5 - 3", "2 * 3 * 4, a_b_c, #5, 1. first, 5 - 3"),
        ("**open", "**open"),
        ("Runs:\n\n| week | **run** |\n|---|:-:|\n| 1 | 2 min |\n\nRest.", "Runs:\n\nweek · run\n1 · 2 min\n\nRest."),
        ("| no table\n| a | b |", "| no table\n| a | b |"),
    ],
)
def test_marks_are_taken_off_and_words_stay(text: str, bare: str) -> None:
    assert unmarked(text) == bare


def test_a_line_has_neither_marks_nor_breaks() -> None:
    assert line("# Plan\n\n- **one**\n- two") == "Plan • one • two"


def test_marks_are_shown_as_they_are_meant_and_the_rest_is_escaped() -> None:
    html = shown("## <b>Plan</b>\n- **one** *two* `<i>`\n[x](https://e.com/?a=1&b=2) [y](javascript:alert(1))")
    assert "<strong>&lt;b&gt;Plan&lt;/b&gt;</strong>" in html
    assert "• <strong>one</strong> <em>two</em> <code>&lt;i&gt;</code>" in html
    assert "x (https://e.com/?a=1&amp;b=2)" in html
    assert "<a" not in html


def test_a_table_is_one_with_its_cells_escaped() -> None:
    html = shown("Runs:\n\n| week | run / walk |\n|---|---|\n| 1 | <b>2</b> `min` |\n| 2 |\n\nRest.")
    assert "<tr><th>week</th><th>run / walk</th></tr>" in html
    assert "<tr><td>1</td><td>&lt;b&gt;2&lt;/b&gt; <code>min</code></td></tr><tr><td>2</td></tr>" in html
    assert "|" not in html
    assert html.endswith("</div>\nRest.")


@pytest.mark.slow
@pytest.mark.parametrize(
    "mark",
    ["|", "|\n", "|-\n", "| - |\n|", "*", "**", "`", "#", "[", "](", "[a](https://", "- ", "```", " ", "*a", "# "],
)
def test_hostile_rows_of_marks_are_read_in_linear_work(mark: str) -> None:
    assert unmarked(mark * 100_000) is not None
    assert shown(mark * 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["|", "|\n", "|-\n", "| - |\n|", "|\n|-\n"])
def test_hostile_rows_of_tables_are_read_in_linear_work(row: str) -> None:
    assert unmarked(row * 50_000) is not None
    assert shown(row * 50_000)
