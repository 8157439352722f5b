"""Pictures of runs: the river, unusual times, each with its table, and the axis of the split canvas."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import CandidatesFound, Event, RunFinished, RunStarted, Selected
from memoryapp.engine.kinds.kind import ContextPart
from memoryapp.insight.browsing.usage import RunTimes, recall_figures, stage_times
from memoryapp.models import AgentCall, ChatUser, Message, Role, Run, Topic
from rerankui.runs.charts import river, spreads, stage_strips
from rerankui.runs.page.waterfall import played_run
from rerankui.text.time_axis import LABEL_ROOM, TICK_ROOM, WIDTH, axis
from tests.conftest import operator, signed_in, talk
from tests.runs.stored_events import every_event, store


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))


@pytest.fixture
def events(topics: list[Topic]) -> list[Event]:
    return every_event(topics[0], topics[1], Message.objects.in_order()[0])


def finished(owner: ChatUser, events: list[Event], seconds: float = 1.0, query: str = "vllm?") -> Run:
    made = Run.objects.create(owner=owner, query=query, strategy="flash")
    store(made, events)
    Run.objects.filter(pk=made.pk).update(state=Run.State.FINISHED, seconds=seconds)
    made.refresh_from_db()
    return made


def ranked(number: int, vector_rank: int, *, shown: bool = True) -> Candidate:
    return Candidate(
        f"Topic:{number}", number, vector_rank, 1 / vector_rank, 0.0, 1.0, 0.5, "2026-03-01", 2, 40, "", "", shown
    )


@given(st.permutations(range(1, 9)), st.lists(st.integers(1, 8), unique=True), st.integers(1, 8))
def test_each_stage_holds_each_topic_that_reached_it_once(order: list[int], chosen: list[int], shown: int) -> None:
    found = [ranked(number, order[number - 1], shown=number <= shown) for number in range(1, 9)]
    selected = tuple(Selected(f"Topic:{number}", place, "", 0.5, 1) for place, number in enumerate(chosen, start=1))
    events = [
        RunStarted("vector", "?", {}, "", "", ""),
        CandidatesFound(tuple(found), 8, 0.1),
        RunFinished(selected, (), ""),
    ]
    drawn = river(events, "".join(f"[{each.id}] 2026\n" for each in selected), [])
    assert drawn is not None
    assert {line.id for line in drawn["rows"]} == {f"Topic:{n}" for n in {*range(1, shown + 1), *chosen}}
    assert drawn["below"] == 8 - len(drawn["rows"])
    for place, stage in enumerate(drawn["stages"]):
        heights = [y for line in drawn["lines"] for x, y in line.points if x == stage["x"]]
        assert len(heights) == len(set(heights)) == stage["count"]
        assert sum(line.ranks[place] is not None for line in drawn["rows"]) == stage["count"]
    assert {line.id for line in drawn["lines"] if line.is_kept} == {each.id for each in selected}
    assert all(line.ranks[-1] is not None for line in drawn["lines"] if line.is_kept)


def test_what_was_chosen_and_handed_over_without_a_message_is_not_in_the_context() -> None:
    events = [CandidatesFound((ranked(1, 1), ranked(2, 2)), 2, 0.1)]
    selected = tuple(Selected(f"Topic:{number}", number, "", 0.5, 1) for number in (1, 2))
    heads = "[Topic:1] 2026-03-01 Cake | 0 of 5 messages\n\n[Topic:2] 2026-03-01 Knee | 2 of 5 messages\nme: a knee"
    drawn = river([*events, RunFinished(selected, (), "")], heads, ["Topic:2"])
    assert drawn is not None
    assert [stage["name"] for stage in drawn["stages"]] == ["meaning", "search", "chosen", "context", "used"]
    assert [(line.id, line.ranks[3:]) for line in drawn["rows"]] == [("Topic:1", [None, None]), ("Topic:2", [1, 1])]


def test_scores_that_tell_nothing_apart_are_not_drawn_and_no_topic_is_lost() -> None:
    found = [ranked(number, number) for number in range(1, 31)]
    found += [replace(ranked(31, 31), cosine=float("nan"))]
    (drawn,) = spreads(found, {"Topic:3": "chosen", "Topic:5": "dropped"})
    assert drawn["name"] == "cosine"
    assert sum(bar["count"] for bar in drawn["bars"]) == sum(group["count"] for group in drawn["groups"]) == 30
    assert [(group["name"], group["count"]) for group in drawn["groups"]] == [
        ("chosen", 1),
        ("dropped", 1),
        ("shown", 28),
    ]


def test_a_run_that_takes_far_longer_than_usual_stands_out_and_ordinary_ones_do_not() -> None:
    usual = [RunTimes(Run(query="?"), {"search": 0.1 + n / 500, "whole": 1 + n / 50}) for n in range(40)]
    slow = RunTimes(Run(query="slow"), {"search": 0.12, "whole": 30.0})
    drawn = stage_strips([*usual, slow])
    assert drawn is not None
    by_name = {strip["name"]: strip for strip in drawn["strips"]}
    assert [point.run for point in by_name["whole"]["outliers"]] == [slow.run]
    assert not by_name["search"]["outliers"]
    assert by_name["search"]["count"] == by_name["whole"]["count"] == 41
    assert stage_strips([]) is None
    alone = stage_strips([slow])
    assert alone is not None
    assert [strip["median"] for strip in alone["strips"]] == [0.12, 30.0]


def test_the_seconds_of_stages_add_up_to_the_run(anna: ChatUser, events: list[Event]) -> None:
    finished(anna, events, seconds=1.5)
    (times,) = stage_times(Run.objects.all())
    assert times.seconds["enrich"] == pytest.approx(0.1)
    assert times.seconds["search"] == pytest.approx(0.02)
    stages = sum(seconds for stage, seconds in times.seconds.items() if stage != "whole")
    assert stages == pytest.approx(times.seconds["whole"]) == 1.5


def test_the_overview_plays_a_run_and_no_fork_of_it(anna: ChatUser, events: list[Event]) -> None:
    """What a fork replays took no time, so it would play a search of 0 ms."""
    run, fork = finished(anna, events), finished(anna, events)
    Run.objects.update(selected_count=1, fallback="")
    Run.objects.filter(pk=fork.pk).update(parent=run)
    played = played_run(anna)
    assert played is not None
    assert played["run"] == run


def test_the_pictures_of_a_run_are_its_own(
    as_viewer: Client, as_stranger: Client, anna: ChatUser, topics: list[Topic], events: list[Event]
) -> None:
    run = finished(anna, events)
    page = as_viewer.get(f"/runs/{run.pk}/charts/").content.decode()
    assert f'<a class="chip" href="/topics/{topics[0].pk}/">Topic:{topics[0].pk}</a>' in page
    assert "river-line ink-matrix-chosen is-kept" in page
    assert as_stranger.get(f"/runs/{run.pk}/charts/").status_code == 404
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    assert as_viewer.get(f"/runs/{run.pk}/charts/").status_code == 404


def test_times_and_costs_show_only_what_one_may_see_with_a_constant_number_of_queries(
    as_viewer: Client, as_stranger: Client, anna: ChatUser, events: list[Event]
) -> None:
    for _run in range(10):
        finished(anna, events)
    AgentCall.objects.create(owner=anna, agent="splitter", cost_usd=0.25)
    with CaptureQueriesContext(connection) as few:
        as_viewer.get("/runs/times/")
    slow = finished(anna, events, seconds=90.0, query="the slow one")
    AgentCall.objects.filter().update(at=timezone.now() - timedelta(days=1))
    with CaptureQueriesContext(connection) as more:
        page = as_viewer.get("/runs/times/").content.decode()
    assert len(more) == len(few)
    assert f'href="/runs/{slow.pk}/"' in page
    assert "$0.25" in page
    assert f'href="/runs/{slow.pk}/"' not in as_viewer.get("/runs/times/", {"q": "vllm"}).content.decode()
    hidden = as_stranger.get("/runs/times/").content.decode()
    assert str(slow.pk) not in hidden
    assert "$0.25" not in hidden


# The axis of the split canvas: in order, within its width, and with visible pauses.


BEGAN = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
GAPS = st.lists(st.integers(0, 3 * 365 * 24 * 3600).map(lambda seconds: timedelta(seconds=seconds)), max_size=300)


def moments(*gaps: timedelta) -> list[datetime]:
    return [BEGAN + sum(gaps[:count], timedelta(0)) for count in range(len(gaps) + 1)]


@given(GAPS)
def test_messages_stand_in_order_beside_each_other_over_the_whole_width(gaps: list[timedelta]) -> None:
    places = axis(moments(*gaps)).places
    assert len(places) == len(gaps) + 1
    assert places[0].start == 0
    assert places[-1].end == pytest.approx(WIDTH)
    assert all(earlier.end == later.start for earlier, later in pairwise(places))
    assert all(place.start <= place.border <= place.bar < place.end for place in places)


@given(GAPS)
def test_words_never_stand_on_each_other(gaps: list[timedelta]) -> None:
    drawn = axis(moments(*gaps))
    assert all(later.at - earlier.at >= LABEL_ROOM for earlier, later in pairwise(drawn.pauses))
    assert all(later.at - earlier.at >= TICK_ROOM for earlier, later in pairwise(drawn.ticks))


# What recalls hand over and cost, on the page of times and costs: share of memory, tokens, dollars, p95.


def recall(owner: ChatUser, *parts: ContextPart, seconds: float, cost: float) -> None:
    topics = list(Topic.objects.of(owner))
    events = every_event(topics[0], topics[1], Message.objects.in_order()[0])
    ended = [replace(each, context=parts) if isinstance(each, RunFinished) else each for each in events]
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash")
    store(run, ended)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, seconds=seconds, cost_usd=cost)


def test_figures_of_recalls_are_medians_of_contexts_and_means_of_costs(anna: ChatUser) -> None:
    talk(anna, ("vLLM crash", ["x" * 300, "y" * 300]), ("Cake", ["Which cake?", "Honey" * 77]))
    whole = sum(Topic.objects.of(anna).values_list("size_chars", flat=True))
    profile = ContextPart(name="profile", chars=80, tokens=20, items=1, text="p")
    for chars, seconds, cost in ((whole // 10, 1.0, 0.01), (whole // 5, 2.0, 0.03), (whole // 2, 9.0, 0.05)):
        topics = ContextPart(name="topics", chars=chars, tokens=chars // 4, items=1, text="")
        recall(anna, profile, topics, seconds=seconds, cost=cost)
    found = recall_figures(stage_times(Run.objects.select_related("owner")))
    assert found is not None
    assert found.memory_percent == pytest.approx(20, abs=0.2)
    assert found.memory_tokens == whole // 5 // 4
    assert found.context_tokens == whole // 5 // 4 + 20
    assert found.cost_usd == pytest.approx(0.03)
    assert 2 < found.p95_seconds <= 9


def test_the_page_shows_them_and_says_nothing_without_runs(anna: ChatUser) -> None:
    client = signed_in(operator("vera", Role.VIEWER, anna))
    assert "figures-head" not in client.get(reverse("run_times")).content.decode()
    assert recall_figures([]) is None
    talk(anna, ("vLLM crash", ["OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))
    recall(anna, seconds=1.0, cost=0.0)
    page = client.get(reverse("run_times")).content.decode()
    assert "figures-head" in page
    assert "Share of the memory" not in page
