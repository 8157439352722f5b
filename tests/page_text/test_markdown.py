"""Markdown of chats: rendered on a page, removed in a single line, never trusted."""

from __future__ import annotations

import re

import pytest
from django.utils.html import escape

from rerankui.text.markdown import line, to_html, to_text


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
    assert to_text(text) == bare


def test_a_line_has_neither_marks_nor_breaks() -> None:
    assert line("# Plan\n\n- **one**\n- two") == "Plan • one • two"


def test_marks_are_shown_as_they_are_meant_and_the_rest_is_escaped() -> None:
    html = to_html("## <b>Plan</b>\n- **one** *two* `<i>`\n  1. first\n- ~~three~~\n\n> quoted\n\nC:\\[a] &lt; a_b_c")
    assert "<p><strong>&lt;b&gt;Plan&lt;/b&gt;</strong></p>" in html
    assert "<ul><li><strong>one</strong> <em>two</em> <code>&lt;i&gt;</code><ol><li>first</li></ol></li>" in html
    assert "<li><s>three</s></li></ul><blockquote><p>quoted</p></blockquote>" in html
    assert html.endswith("<p>C:\\[a] &amp;lt; a_b_c</p>")


def test_lines_stay_lines() -> None:
    assert to_html("one\ntwo\n\n    three\n---") == "<p>one\ntwo</p><p>three</p><hr>"
    assert to_html("one\n\n[1]: https://e.com") == "<p>one</p><p>[1]: https://e.com</p>"


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("[x](https://e.com/?a=1&b=2)", '<a href="https://e.com/?a=1&amp;b=2" rel="noopener nofollow">x</a>'),
        ("<mailto:a@e.com>", '<a href="mailto:a@e.com" rel="noopener nofollow">mailto:a@e.com</a>'),
        ("![a <cat>](http://e.com/a.png)", '<a href="http://e.com/a.png" rel="noopener nofollow">a &lt;cat&gt;</a>'),
        ("![](http://e.com/a.png)", '<a href="http://e.com/a.png" rel="noopener nofollow">http://e.com/a.png</a>'),
    ],
)
def test_a_link_leads_out_and_an_image_is_one(text: str, link: str) -> None:
    assert to_html(text) == f"<p>{link}</p>"


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//e.com",
        "/runs/",
        "vbscript:x",
    ],
)
def test_a_link_to_anything_else_is_text(address: str) -> None:
    html = to_html(f"[x]({address}) ![y]({address}) <{address}>")
    assert not {"<a", "<img", "href", "src"} & set(re.findall(r"<\w+|\bhref=|\bsrc=", html))
    assert escape(address) in html


def test_attributes_cannot_be_broken_out_of() -> None:
    html = to_html('[x](https://e.com/\'onclick=1 "a\' onclick=b") <https://e.com/"onclick=1> <img src=x onerror=1>')
    tags = re.findall(r"<[^<>]*>", html)
    assert [re.sub(r'="[^"]*"', "", tag) for tag in tags] == [
        "<p>",
        "<a href title rel>",
        "</a>",
        "<a href rel>",
        "</a>",
        "</p>",
    ]


def test_a_table_is_one_with_its_cells_escaped() -> None:
    html = to_html("Runs:\n\n| week | run / walk |\n|---|---|\n| 1 | <b>2</b> `min` |\n| 2 |\n\nRest.")
    assert "<tr><th>week</th><th>run / walk</th></tr>" in html
    assert "<tr><td>1</td><td>&lt;b&gt;2&lt;/b&gt; <code>min</code></td></tr><tr><td>2</td><td></td></tr>" in html
    assert "|" not in html
    assert html.endswith("</div><p>Rest.</p>")


def test_what_is_very_long_goes_on_as_it_was_written() -> None:
    text = f"**a**\n{'word ' * 4_000}\n**b** <i>"
    html = to_html(text)
    assert html.startswith("<p><strong>a</strong>")
    assert html.endswith("**b** &lt;i&gt;</p>")
    assert to_text(text).endswith("**b** <i>")


@pytest.mark.slow
@pytest.mark.parametrize(
    "mark",
    ["|", "|\n", "|-\n", "| - |\n|", "*", "**", "`", "#", "[", "](", "[a](https://", "- ", "```", " ", "*a", "# "],
)
def test_hostile_rows_of_marks_are_read_in_linear_work(mark: str) -> None:
    assert to_text(mark * 100_000) is not None
    assert to_html(mark * 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["|", "|\n", "|-\n", "| - |\n|", "|\n|-\n"])
def test_hostile_rows_of_tables_are_read_in_linear_work(row: str) -> None:
    assert to_text(row * 50_000) is not None
    assert to_html(row * 50_000)
