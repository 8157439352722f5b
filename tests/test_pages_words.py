"""How values are written: times, sizes, texts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from rerankui.templatetags.memory import ago, grouped, marked, opening, prose, remainder, snippet, thousands


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(seconds=-5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5, minutes=59), "5 hours ago"),
        (timedelta(days=20), "2 weeks ago"),
        (timedelta(days=100), "3 months ago"),
        (timedelta(days=800), "2 years ago"),
    ],
)
def test_a_time_is_relative_with_the_moment_in_the_title(before: timedelta, words: str) -> None:
    moment = timezone.now() - before
    written = ago(moment)
    assert f">{words}</time>" in written
    assert moment.isoformat() in written
    assert " UTC" in written


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0"), (999, "999"), (1000, "1.0K"), (16_240, "16.2K"), (214_000, "214K"), (3_100_000, "3.1M")],
)
def test_sizes_can_be_compared_at_a_glance(number: int, words: str) -> None:
    assert thousands(number) == words


def test_numbers_are_grouped() -> None:
    assert grouped(1284) == "1,284"


def test_code_and_bold_are_drawn_and_all_else_is_escaped() -> None:
    written = prose("Use `a<b`:\n```py\nx = 1 < 2\n```\n**bold** <b>no</b>")
    assert "<code>a&lt;b</code>" in written
    assert "<pre><code>x = 1 &lt; 2</code></pre>" in written
    assert "<strong>bold</strong> &lt;b&gt;no&lt;/b&gt;" in written


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert prose("```\nx") == "<pre><code>x</code></pre>"


@pytest.mark.parametrize(
    "text",
    [
        "short",
        "word " * 1000,
        "x" * 5000,
        "para\n\n" * 800,
        "a " * 600 + "```\n" + "code\n" * 500 + "```",
        "```" + "y" * 4000,
    ],
)
def test_opening_and_remainder_make_the_whole(text: str) -> None:
    assert opening(text) + remainder(text) == text
    assert opening(text)


def test_what_was_searched_is_marked_and_escaped() -> None:
    assert marked("a <OOM> b", "<oom>") == "a <mark>&lt;OOM&gt;</mark> b"
    assert "<mark>needle</mark>" in snippet("hay " * 500 + "needle" + " hay" * 500, "needle")
