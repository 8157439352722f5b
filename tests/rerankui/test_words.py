"""The formats of values: times, sizes, texts, as people read them."""

import re
from dataclasses import replace
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone, translation

from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.events import ModelReplied, QueryEnriched, TopicsRead
from memoryapp.engine.notes import ENGLISH, Note
from memoryapp.models import ChatUser, Erasure, Run
from rerankui.curation.change_form import failure_words
from rerankui.pipeline.tags import fault_words
from rerankui.runs.page.outcomes import FOR_PEOPLE, error_words, remarks
from rerankui.runs.tags import enrich_note
from rerankui.templatetags.memory import ago, marked, money, opening, remainder, snippet, thousands
from rerankui.text.markdown import to_html as prose
from rerankui.text.words import coming, part_name, part_words
from tests.conftest import talk
from tests.support.browsing import get


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


def test_code_and_bold_are_drawn_and_all_else_is_escaped() -> None:
    written = prose("Use `a<b`:\n```py\nx = 1 < 2\n```\n**bold** <b>no</b>")
    assert "<code>a&lt;b</code>" in written
    assert "<pre><code>x = 1 &lt; 2</code></pre>" in written
    assert "<strong>bold</strong> &lt;b&gt;no&lt;/b&gt;" in written


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


# Times as people read them: in their own time zone, and with the date where the time alone would mislead.


def test_a_time_of_today_stands_alone_and_that_of_another_day_has_its_date() -> None:
    noon = timezone.localtime().replace(hour=12, minute=5)
    assert coming(noon) == "12:05"
    tomorrow = noon + timedelta(days=1)
    assert coming(tomorrow) == f"{tomorrow.day} {tomorrow:%B %Y}, 12:05 UTC"


def test_today_is_the_readers() -> None:
    here = timezone.now().astimezone(ZoneInfo("Pacific/Kiritimati"))
    late = here.replace(hour=23, minute=30)
    with timezone.override(here.tzinfo):
        assert coming(late.astimezone(UTC)) == "23:30"
        assert str((late + timedelta(hours=1)).day) in coming(late.astimezone(UTC) + timedelta(hours=1))


# Small things that a reader relies on: words where codes were, and buttons that do what they say.


@pytest.fixture
def asked(anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, query="Which cake?", strategy="vector", parameters={"max_topics": 3})


def test_a_question_is_asked_again_with_its_strategy_and_its_parameters(
    asked: Run, as_admin: Client, as_viewer: Client
) -> None:
    page = get(as_admin, f"/runs/{asked.pk}/")
    form = re.search(r'<form id="ask-again" method="post" action="([^"]+)">(.*?)</form>', page, re.S)
    assert form
    sent = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2]))
    assert (sent["query"], sent["strategy"], sent["max_topics"]) == ("Which cake?", "vector", "3")
    as_admin.post(form[1], sent)
    again = Run.objects.exclude(pk=asked.pk).get()
    assert (again.query, again.strategy, again.parameters["max_topics"]) == ("Which cake?", "vector", 3)
    assert 'id="ask-again"' not in get(as_viewer, f"/runs/{asked.pk}/"), "a viewer asks nothing"


def test_the_buttons_of_the_question_keep_their_places(anna: ChatUser, as_admin: Client) -> None:
    talk(anna, ("Honey cake", ["Which cake keeps?", "A honey cake"]))
    for address in ("ask", "recall"):
        page = get(as_admin, f"/memory/{anna.pk}/{address}/")
        assert page.index(f'formaction="/memory/{anna.pk}/ask/"') < page.index(
            f'formaction="/memory/{anna.pk}/recall/"'
        )


def test_a_receipt_says_in_words_what_was_deleted(as_admin: Client) -> None:
    row = Erasure.objects.create(owner_number=1, actor="ada", counts={"memoryapp_message": 3, "gone_table": 1})
    page = get(as_admin, f"/erasures/{row.pk}/")
    shown = re.findall(r'<span class="grow" title="[^"]+">([^<]+)</span>', page)
    assert shown == ["gone_table", "Messages"]
