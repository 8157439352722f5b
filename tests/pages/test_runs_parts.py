"""The parts of a run page: progress, the time axis, ranks, states, marked messages, and its small pages."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from django.test import Client

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.offline.scorer import MODEL
from memoryapp.models import ChatUser, Message, Run
from memoryapp.runs.followers import StoredEvent
from rerankui.runs.page import waterfall
from rerankui.runs.page.answer_view import marked_text
from rerankui.runs.page.outcomes import activity_after
from rerankui.runs.page.result import Segment, rank_lines
from rerankui.runs.page.waterfall import axis
from rerankui.runs.tags import cost
from tests.conftest import BEGAN, talk
from tests.runs.stored_events import every_event, store

STARTED = RunStarted("flash", "q", {}, "", "peer", "")
TURN = TurnStarted(2, "auto", "none", ())
REPLY = ModelReplied(2, "{}", "", (), 1, 1, 0.0, 0.5, "peer")


@pytest.fixture
def events(anna: ChatUser) -> list[Event]:
    return every_event(
        *talk(anna, ("vLLM", ["It dies", "Lower it"]), ("Cake", ["Which?"])), Message.objects.in_order()[0]
    )


@pytest.fixture
def run(anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, query="vllm?", strategy="flash")


def found(rank: int, *, vector_rank: int = 1, shown: bool = True) -> Candidate:
    return Candidate(f"Topic:{rank}", rank, vector_rank, 0.5, 1.0, 1.0, 0.6, "", 1, 1, "", "", shown)


def chosen(id: str, rank: int, vector_rank: int) -> Selected:
    return Selected(id, rank, "", 0.6, vector_rank)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (None, "Waiting for a process to begin this run…"),
        (STARTED, "Rewriting the query…"),
        (replace(STARTED, strategy="vector"), "Searching the memory…"),
        (QueryEnriched("q", "q", "", 0.1), "Searching the memory…"),
        (CandidatesFound((), 0, 0.1), "Asking the model…"),
        (TURN, "Turn 2: thinking"),
        (REPLY, "Checking the answer…"),
        (RunFinished((), (), "", ""), ""),
    ],
)
def test_each_event_begins_an_activity_that_has_a_name(event: Event | None, words: str) -> None:
    assert activity_after(event, 2).words == words


def test_the_axis_of_a_run_that_goes_on_reaches_until_now() -> None:
    stored = [
        StoredEvent(1, BEGAN, STARTED),
        StoredEvent(2, BEGAN + timedelta(seconds=1), QueryEnriched("q", "q", "", 0.75)),
    ]
    now = axis(stored, BEGAN + timedelta(seconds=5))
    assert (now.whole, now.going, now.going_width) == (5000, 1000, 4000)
    assert [(bar.stage, bar.start, bar.width) for bar in now.bars] == [("start", 0, 250), ("enrich", 250, 750)]
    over = [*stored, StoredEvent(3, BEGAN + timedelta(seconds=2), RunFinished((), (), "", ""))]
    assert axis(over, BEGAN + timedelta(seconds=5)).whole == 2000
    assert axis([], BEGAN).bars == ()


def test_time_between_two_stages_has_a_name_and_bars_never_overlap() -> None:
    over = RunFinished((), (), "", "")
    seconds = (0.0, 0.5, 2.5, 2.8, 3.0, 5.0, 5.6)
    found = CandidatesFound((), 0, 0.5)
    happened = (STARTED, found, REPLY, TopicsRead(2, "1", (), (), (), 0), TURN, replace(REPLY, seconds=1.5), over)
    stored = [
        StoredEvent(n, BEGAN + timedelta(seconds=at), event)
        for n, (at, event) in enumerate(zip(seconds, happened, strict=True), 1)
    ]
    bars = axis(stored, BEGAN).bars
    assert [bar.stage for bar in bars] == ["search", "wait", "turn", "read", "wait", "turn", "check"]
    assert all(bar.start + bar.width <= after.start for bar, after in pairwise(bars))
    assert {bar.stage: bar.room for bar in bars if not bar.is_gap}["turn"] == "narrow"


def test_rank_lines_lead_from_similarity_over_score_to_the_choice() -> None:
    lines = rank_lines(
        [(chosen("Topic:2", 1, 8), found(2, vector_rank=8)), (chosen("Topic:1", 2, 3), found(1, vector_rank=3))]
    )
    assert lines
    first, second = lines.lines
    assert (first.similarity, first.score, first.chosen) == (8, 2, 1)
    assert [a > b for a, b in zip(first.places, second.places, strict=True)] == [True, True, False]
    assert rank_lines([(chosen("Topic:2", 1, 8), found(2))]) is None
    assert rank_lines([(chosen("Topic:2", 1, 0), found(2)), (chosen("Topic:1", 2, 0), found(1))]) is None


def test_rows_hidden_between_two_others_are_mentioned_and_states_are_counted() -> None:
    rows = list(waterfall.rows([found(1), found(2, shown=False), found(3), found(4), found(9)]))
    assert [(row.candidate.rank, row.gap) for row in rows] == [(1, ""), (3, "2"), (4, ""), (9, "5–8")]
    counted = waterfall.counts([found(1), found(2), found(3, shown=False)], {"Topic:1": "chosen", "Topic:3": "read"})
    assert {count.name: count.count for count in counted if count.count} == {"chosen": 1, "none": 1}


def test_marks_stand_inside_the_tags_of_a_message() -> None:
    parts = (
        Segment("a **b", ""),
        Segment("old** <i>\n```\nco", "exact"),
        Segment("de\n```\n", ""),
        Segment("z\ue000", "altered"),
    )
    assert marked_text(parts) == (
        '<p>a <strong>b<mark class="is-exact">old</mark></strong><mark class="is-exact"> &lt;i&gt;</mark></p>'
        '<pre><code><mark class="is-exact">co</mark>de</code></pre><p><mark class="is-altered">z</mark></p>'
    )


def test_a_mark_leaves_a_list_code_and_a_table_what_they_are() -> None:
    parts = (
        Segment("- one\n", "exact"),
        Segment("- two\n\n", ""),
        Segment("```py\nx = 1\n```\n", "exact"),
        Segment("\n", ""),
        Segment("| a | b |\n|---|---|\n| c | d |", "altered"),
    )
    html = marked_text(parts)
    assert '<ul><li><mark class="is-exact">one</mark></li><li>two</li></ul>' in html
    assert '<pre><code><mark class="is-exact">x = 1</mark></code></pre>' in html
    assert '<td><mark class="is-altered">d</mark></td></tr></tbody></table></div>' in html


def test_a_mark_in_an_address_leaves_it_words() -> None:
    html = marked_text((Segment("[a](https://e", ""), Segment("x.com/) b", "exact"), Segment(" c", "altered")))
    assert "<a" not in html
    assert html.endswith('<mark class="is-exact">x.com/) b</mark> <mark class="is-altered">c</mark></p>')


def test_the_embedded_model_is_called_free_and_no_other_is() -> None:
    assert (cost(0.0, MODEL), cost(0.0, "peer"), cost(0.00412, "peer")) == ("free", "$0.0000", "$0.0041")


def test_a_page_without_a_socket_gets_what_it_lacks(
    run: Run,
    events: list[Event],
    as_viewer: Client,
) -> None:
    store(run, events[:4])
    assert 'data-seq="4"' in as_viewer.get(f"/runs/{run.pk}/frame/").content.decode()
    assert as_viewer.get(f"/runs/{run.pk}/frame/?last=4").status_code == 204
    store(run, events[4:], after=4)
    frame = as_viewer.get(f"/runs/{run.pk}/frame/?last=4").content.decode()
    assert 'id="event-3"' not in frame
    assert 'id="event-11"' in frame


@pytest.mark.slow
def test_a_run_that_lost_an_event_is_shown_all_the_same(run: Run, events: list[Event], as_viewer: Client) -> None:
    store(run, events[:3])
    store(run, events[5:], after=5)
    for address in ("", "?step=4", "?step=11", "below/"):
        assert as_viewer.get(f"/runs/{run.pk}/{address}").status_code == 200


def test_a_run_is_read_as_json_once_it_has_ended(
    run: Run,
    events: list[Event],
    as_viewer: Client,
) -> None:
    store(run, events[:4])
    assert as_viewer.get(f"/runs/{run.pk}/json/").status_code == 404
    store(run, events[4:], after=4)
    document = json.loads(as_viewer.get(f"/runs/{run.pk}/json/").content)
    assert (document["run"], document["user"], document["query"]) == (str(run.pk), "anna", "vllm?")
    assert document["topics"][0]["reason"] == "it says so"


def test_before_it_has_searched_a_run_has_nothing_below(run: Run, as_viewer: Client) -> None:
    assert as_viewer.get(f"/runs/{run.pk}/below/").status_code == 404


@pytest.mark.slow
def test_only_who_may_stop_is_offered_to(run: Run, events: list[Event], as_viewer: Client, as_debugger: Client) -> None:
    store(run, events[:4])
    page = f"/runs/{run.pk}/"
    assert 'id="stop-run"' not in as_viewer.get(page).content.decode()
    assert 'id="stop-run"' in as_debugger.get(page).content.decode()
    assert '<noscript><meta http-equiv="refresh"' in as_viewer.get(page).content.decode()
    store(run, events[4:], after=4)
    assert 'id="stop-run"' not in as_debugger.get(page).content.decode()
    assert "http-equiv" not in as_viewer.get(page).content.decode()


def test_a_candidate_tells_which_wording_of_the_query_found_it(
    events: list[Event], run: Run, as_debugger: Client
) -> None:
    searched = next(event for event in events if isinstance(event, CandidatesFound))
    first = replace(searched.candidates[0], found_by={"rewrite": 1})
    changed = replace(searched, candidates=(first, *searched.candidates[1:]))
    store(run, [changed if event is searched else event for event in events])
    page = as_debugger.get(f"/runs/{run.pk}/").content.decode()
    assert page.count("candidate-wording") == 1
    assert "as rewritten #1" in page
