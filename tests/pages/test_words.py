"""The formats of values: times, sizes, texts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from django.utils import timezone, translation
from django.utils.formats import date_format

from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.events import ModelReplied, QueryEnriched, TopicsRead
from memoryapp.engine.notes import ENGLISH, Note
from memoryapp.insight.browsing.profiles import Distribution, SimilarityShare
from memoryapp.insight.browsing.usage import Day
from memoryapp.upkeep.pipeline import STAGES
from rerankui.curation.change_form import actor_words, failure_words
from rerankui.imports.tags import format_name, place
from rerankui.pipeline.tags import fault_words, hours_chart, waits
from rerankui.runs.page.outcomes import FOR_PEOPLE, error_words, remarks
from rerankui.runs.page.result import details
from rerankui.runs.tags import day_of, enrich_note
from rerankui.templatetags.embedding import similarities_chart
from rerankui.templatetags.memory import (
    ago,
    days_chart,
    marked,
    money,
    months_chart,
    opening,
    remainder,
    role_name,
    snippet,
    thousands,
)
from rerankui.text.markdown import to_html as prose
from rerankui.text.words import file_type, grouped, part_name, part_words


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


def test_a_stored_code_is_shown_in_words_and_an_unknown_one_as_it_is() -> None:
    assert [str(file_type(code)) for code in ("image", "voice", "pdf")] == ["picture", "voice message", "pdf"]
    assert [format_name(code) for code in ("jsonl", "chatgpt", "carrier pigeon")] == [
        "JSON Lines",
        "ChatGPT",
        "carrier pigeon",
    ]
    assert [actor_words(actor) for actor in ("archive", "ada")] == ["the program", "ada"]


@pytest.mark.parametrize(("day", "words"), [("2026-03-01", "1 Mar 2026"), ("2026-13-01", "2026-13-01"), ("", "")])
def test_a_day_in_a_prompt_is_shown_to_people(day: str, words: str) -> None:
    assert day_of(day) == words


def test_a_failed_enricher_is_shown_in_words_with_the_endpoints_message() -> None:
    failed = QueryEnriched("vLLM?", "vLLM?", "failed: host: <no>", 0.1)
    words = "The enricher gave no answer, so the query is searched as typed."
    assert enrich_note(replace(failed, note="failed")) == words
    assert enrich_note(failed) == f"{words} <q>host: &lt;no&gt;</q>"
    assert enrich_note(replace(failed, note="something: else")) == "something: else"
    with translation.override("ru"):
        for cause, status, why in (("llm_error", 503, "ошибка модели, 503"), ("turn_timeout", 0, "нет ответа вовремя")):
            words = enrich_note(replace(failed, cause=cause, status=status))
            assert words == f"Обогатитель не ответил ({why}): поиск идёт по запросу как есть. <q>host: &lt;no&gt;</q>"


def test_a_fault_of_a_tool_call_is_shown_in_the_readers_language() -> None:
    notes = (Note("not_candidates", {"ids": ["Topic:9", "Topic:8"]}), Note("cut", {"limit": 1000, "ids": ["Topic:1"]}))
    read = TopicsRead(1, "c", (), (), (), 0, notes=notes)
    assert remarks(read) == "Not among the candidates: Topic:9, Topic:8. Cut at 1000 characters: Topic:1."
    with translation.override("ru"):
        assert remarks(read) == "Нет среди кандидатов: Topic:9, Topic:8. Обрезаны до 1000 символов: Topic:1."
        assert remarks(replace(read, notes=(), note="No longer stored: Topic:1.")) == "No longer stored: Topic:1."
        assert remarks(replace(read, notes=(Note("moon_phase"),))) == "moon_phase"
    assert FOR_PEOPLE.keys() <= ENGLISH.keys()


def test_a_place_in_a_file_is_shown_in_the_readers_language() -> None:
    places = (7, "line 3, message 1", "line 3.messages[0]", "[2].mapping[message 4]", "[0], message 2", "history[5]")
    assert [place(each) for each in places] == ["line 7", *places[1:]]
    with translation.override("ru"):
        assert [place(each) for each in places[:3]] == ["строка 7", "строка 3, сообщение 1", "строка 3.messages[0]"]
        assert place("history[5]") == "history[5]"


def test_months_in_a_chart_are_written_as_each_language_writes_them_within_a_line() -> None:
    months = [(date(2026, month, 1), 3) for month in (3, 4, 5)]
    assert '<p class="months-ends"><span>March 2026 – May 2026</span></p>' in months_chart(months, 1)
    with translation.override("ru"):
        chart = months_chart(months, 1)
        assert '<p class="months-ends"><span>мар 2026 – май 2026</span></p>' in chart
        assert "<title>Март 2026: 3 сообщения</title>" in chart
        assert "<title>5 марта: " in days_chart([Day(date(2026, 3, 5), 1)])
        assert "9 мая, 14:00" in hours_chart([1], datetime(2026, 5, 9, 14, tzinfo=UTC), "")


def test_a_fault_of_background_work_is_shown_in_words() -> None:
    note = {"code": "endpoint_429", "values": {"host": "models.example", "status": 429, "quoted": ""}}
    assert fault_words("models.example is limiting requests", note) == (
        "models.example is limiting requests; wait, or raise the limit there (429)."
    )
    assert [fault_words(text) for text in ("", "no such table", "Away.")] == ["", "no such table.", "Away."]
    with translation.override("ru"):
        assert fault_words("", note).startswith("models.example ограничивает число запросов")
        assert fault_words("The model's answer cannot be read as facts and people.").startswith("Ответ модели")
        assert fault_words("It failed.", {"code": "moon_phase", "values": {}}) == "moon_phase"


def test_what_waits_in_a_stage_is_written_by_its_number() -> None:
    assert [waits(STAGES["import"].words, n) for n in (0, 1, 2)] == ["files", "file", "files"]
    with translation.override("ru"):
        assert [waits(STAGES["import"].words, n) for n in (0, 1, 2, 5)] == ["файлов", "файл", "файла", "файлов"]


@pytest.mark.parametrize(
    ("id", "name", "line", "english", "russian"),
    [
        (
            "Person:5",
            "Петров",
            "[Person:5] (0.65) Петров (@petrov) (aka Петя, Pete) [Work_Inner] | 2 mentions | an | old friend",
            "@petrov · also called Петя, Pete · close colleagues · 2 mentions · an · old friend",
            "@petrov · другие имена: Петя, Pete · близкие коллеги · 2 упоминания · an · old friend",
        ),
        ("Person:5", "Ann [x]", "[Person:5] (0.65) Ann x | 1 mentions", "1 mention", "1 упоминание"),
        ("Person:5", "Ann", "[Person:5] (0.65) Ann (who?", "(who?", "(who?"),
        ("Person:5", "Ann", "", "", ""),
        (
            "Artifact:3",
            "api.pdf",
            '[Artifact:3] (in this conversation) pdf: "api.pdf" | rest | Entities: OAuth2 | (not analysed yet)',
            "pdf · rest · entities: OAuth2 · not analysed yet",
            "pdf · rest · сущности: OAuth2 · ещё не разобрано",
        ),
    ],
)
def test_what_search_found_of_a_person_or_a_file_is_not_shown_as_the_models_line(
    id: str, name: str, line: str, english: str, russian: str
) -> None:
    item = ItemCandidate(id, 1, 1, 0.5, 2.0, 1.0, 0.65, name, line, True)
    assert details(item) == english
    with translation.override("ru"):
        assert details(item) == russian


def test_the_reason_for_a_missing_answer_is_shown_in_the_readers_language() -> None:
    note = Note("endpoint_failing", {"host": "models.example", "status": 503, "quoted": ""})
    reply = ModelReplied(
        1, "", "", (), 0, 0, 0.0, 1.0, "m", error="models.example cannot answer now (503).", notes=(note,)
    )
    failed = ProposalError("The model made no proposal: models.example cannot answer now (503).", note)
    with translation.override("ru"):
        assert error_words(reply) == "models.example сейчас не может ответить (503)."
        assert error_words(replace(reply, notes=())) == "models.example cannot answer now (503)."
        assert failure_words(failed) == "Модель ничего не предложила: models.example сейчас не может ответить (503)."
        assert failure_words(ProposalError("Anything.")) == "Anything."


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


def test_codes_in_the_report_of_a_tool_are_put_in_words_and_texts_are_not() -> None:
    report = {
        "by": "nobody",
        "why": "no_model",
        "reasons": ["short", "date"],
        "queries": ["short"],
        "coverage_est": 0.5,
    }
    assert [f"{part_name(name)}: {part_words(value, name)}" for name, value in report.items()] == [
        "by: no model",
        "because: none is connected",
        "because: a short question · names a day",
        "queries: short",
        "coverage: 0.50",
    ]
    assert (part_name("rain_mm"), part_words(3, "rain_mm")) == ("rain_mm", "3"), "as another program calls it"
