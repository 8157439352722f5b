"""Texts before they are rendered: differences, unfinished JSON, Markdown."""

import json
import re
import time

import pytest
from django.utils.html import escape
from hypothesis import given
from hypothesis import strategies as st

from rerankui.text.differences import DifferenceRow, begins_as_json, difference, indented
from rerankui.text.markdown import line, to_html, to_text
from tests.examples import table


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


# JSON that is shown while it is being written.


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1]), st.data())
def test_what_is_shown_of_a_beginning_stays_where_it_is(value: object, indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert indented(text) == json.dumps(value, ensure_ascii=False, indent=2)
    cut = data.draw(st.integers(0, len(text)))
    assert indented(text).startswith(indented(text[:cut]))


def test_prose_is_no_json() -> None:
    assert begins_as_json('{"topics": [')
    assert begins_as_json(" [4")
    assert not begins_as_json("[Topic:1] fits")
    assert not begins_as_json("{curly}")


# Markdown of chats: rendered on a page, removed in a single line, never trusted.


@pytest.mark.parametrize(("text", "bare"), table("markdown"))
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


@pytest.mark.parametrize("address", table("refused_links"))
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
    [
        *("|", "|\n", "|-\n", "|\n|-\n", "| - |\n|", "*", "**", "`", "#", "[", "](", "[a](https://", "- "),
        *("```", " ", "*a", "# "),
    ],
)
def test_hostile_rows_of_marks_are_read_in_linear_work(mark: str) -> None:
    assert to_text(mark * 100_000) is not None
    assert to_html(mark * 100_000)
