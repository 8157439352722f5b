"""How values are written: times, sizes, texts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from django.utils import timezone, translation
from django.utils.formats import date_format

from memoryapp.browsing.similarities import Distribution, SimilarityShare
from memoryapp.engine.events import TopicsRead
from memoryapp.engine.notes import ENGLISH, Note
from rerankui.curation.change_words import actor_words
from rerankui.run.notes import WORDS, remarks
from rerankui.templatetags.embedding import similarities_chart
from rerankui.templatetags.memory import (
    ago,
    file_type,
    format_name,
    marked,
    money,
    opening,
    prose,
    remainder,
    role_name,
    snippet,
    thousands,
)
from rerankui.templatetags.runs import day_of, enrich_note
from rerankui.text.counts import grouped


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


def test_what_is_stored_as_a_code_is_told_in_words_and_what_is_unknown_as_it_is() -> None:
    assert [str(file_type(code)) for code in ("image", "voice", "pdf")] == ["picture", "voice message", "pdf"]
    assert [format_name(code) for code in ("jsonl", "chatgpt", "carrier pigeon")] == [
        "JSON Lines",
        "ChatGPT",
        "carrier pigeon",
    ]
    assert [actor_words(actor) for actor in ("archive", "ada")] == ["the program", "ada"]


@pytest.mark.parametrize(("day", "words"), [("2026-03-01", "1 Mar 2026"), ("2026-13-01", "2026-13-01"), ("", "")])
def test_a_day_the_model_was_told_is_read_by_people(day: str, words: str) -> None:
    assert day_of(day) == words


def test_an_enricher_that_failed_is_told_in_words_with_what_the_endpoint_said() -> None:
    words = "The enricher gave no answer, so the query is searched as typed."
    assert enrich_note("failed") == words
    assert enrich_note("failed: host: refused") == f"{words} host: refused"
    assert enrich_note("something: else") == "something: else"


def test_what_was_wrong_with_a_tool_call_is_told_in_the_language_of_the_reader() -> None:
    notes = (Note("not_candidates", {"ids": ["Topic:9", "Topic:8"]}), Note("cut", {"limit": 1000, "ids": ["Topic:1"]}))
    read = TopicsRead(1, "c", (), (), (), 0, notes=notes)
    assert remarks(read) == "Not among the candidates: Topic:9, Topic:8. Cut at 1000 characters: Topic:1."
    with translation.override("ru"):
        assert remarks(read) == "Нет среди кандидатов: Topic:9, Topic:8. Обрезаны до 1000 символов: Topic:1."
        assert remarks(replace(read, notes=(), note="No longer stored: Topic:1.")) == "No longer stored: Topic:1."
        assert remarks(replace(read, notes=(Note("moon_phase"),))) == "moon_phase"
    assert WORDS.keys() <= ENGLISH.keys()


def test_may_is_a_month_in_russian_too() -> None:
    with translation.override("ru"):
        assert date_format(date(2026, 5, 1), "N") == "Май"


@pytest.mark.parametrize(
    ("dollars", "english", "russian"),
    [(0.0031, "$0.0031", "$0,0031"), (0.000006, "<\u202f$0.0001", "<\u202f$0,0001"), (0, "$0.0000", "$0,0000")],
)
def test_money_has_four_digits_and_what_costs_less_is_not_called_nothing(
    dollars: float, english: str, russian: str
) -> None:
    assert money(dollars) == english
    with translation.override("ru"):
        assert money(dollars) == russian


def test_a_speaker_without_a_name_is_called_in_the_readers_language() -> None:
    with translation.override("ru"):
        assert role_name("assistant") == "ассистент"


def test_the_picture_of_similarities_has_the_readers_decimals() -> None:
    found = Distribution(pairs=8, columns=(SimilarityShare(0.025, 0.125),), proposed=None)
    with translation.override("ru"):
        drawn = similarities_chart(found, 0.3)
    assert "<title>от 0,025: 12,5 %</title>" in drawn
    assert "<span>-0,25</span><span>1,0</span>" in drawn
