"""The run page and its socket show the same rows through the same partials; its parts and small pages."""

import json
import re
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import OperationalError
from django.test import Client

from memoryapp.engine.candidates import Candidate, UnderstoodQuery
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
    ToolCall,
)
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.kind import Totals
from memoryapp.engine.memory import Where
from memoryapp.engine.strategies.cuts import Cuts
from memoryapp.insight.evaluation import filter_lab
from memoryapp.models import ChatUser, EmbeddingProfile, Message, Operator, Passage, Run, Topic
from memoryapp.runs import followers
from memoryapp.runs.followers import StoredEvent
from memoryapp.runs.notices import announce
from memoryapp.search.profiles import serving_profile
from rerankui.runs import fragments
from rerankui.runs.consumers import RunConsumer
from rerankui.runs.fragments import Seen
from rerankui.runs.page.answer_view import marked_text
from rerankui.runs.page.result import Segment, rank_lines
from rerankui.runs.page.waterfall import axis
from tests.conftest import BEGAN, candidate, talk
from tests.runs.stored_events import every_event, found_in, store, store_as_columns
from tests.support.browsing import flat
from tests.support.clock import PATIENCE


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("vLLM crash", ["vLLM dies with <b>OOM</b>", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))


@pytest.fixture
def events(topics: list[Topic]) -> list[Event]:
    return every_event(topics[0], topics[1], Message.objects.in_order()[0])


@pytest.fixture
def run(anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, query="vllm?", strategy="flash")


def test_the_first_frame_is_the_section_of_the_page(run: Run, events: list[Event], as_viewer: Client) -> None:
    store(run, events)
    first = fragments.frame(run.pk, seen=Seen(), language="en")
    page = as_viewer.get(f"/runs/{run.pk}/").content.decode()
    assert first.finished
    assert first.html.replace(' hx-swap-oob="outerHTML"', "").strip() in page


def test_a_run_that_asked_no_model_speaks_of_no_turns_tokens_or_dollars(
    run: Run, events: list[Event], as_viewer: Client
) -> None:
    address = f"/runs/{run.pk}/"
    kinds = {event.kind: event for event in events}
    started = replace(kinds["run_started"], model="", strategy="vector")
    typed = replace(kinds["query_enriched"], model="", seconds=0.0, input_tokens=0, output_tokens=0, cost_usd=0.0)
    chosen = replace(kinds["run_finished"], totals=Totals(seconds=0.4))
    store(run, [started, typed, kinds["candidates_found"]])
    head = flat(as_viewer.get(address).content.decode()).split('class="lanes"')[0]
    assert "$0.0000" not in head
    store(run, [chosen], after=3)
    head = flat(as_viewer.get(address).content.decode()).split('class="lanes"')[0]
    assert "<span>no model asked</span>" in head
    assert "tok" not in head.split('class="run-numbers"')[1].split("run-actions")[0]
    assert "stage-enrich" not in head


def test_frames_bring_exactly_the_events_the_viewer_lacks(run: Run, events: list[Event]) -> None:
    store(run, events[:3])
    first = fragments.frame(run.pk, seen=Seen(), language="en")
    assert (first.seen.last, first.finished) == (3, False)
    assert fragments.frame(run.pk, seen=Seen(3), language="en").html == ""
    store(run, events[3:], after=3)
    rest = fragments.frame(run.pk, seen=Seen(3), language="en")
    seqs = [int(seq) for seq in re.findall(r'id="event-(\d+)"', rest.html)]
    assert (sorted(seqs), rest.finished) == (list(range(4, 12)), True)


def test_marks_fold_to_the_state_of_each_candidate(topics: list[Topic], events: list[Event]) -> None:
    one, two = (f"Topic:{topic.pk}" for topic in topics)
    folded: dict[str, str] = {}
    seen = []
    for event in events:
        folded |= event.marks()
        seen.append(dict(folded))
    assert seen[5] == {}
    assert seen[6] == {one: "requested", two: "requested"}
    assert seen[7] == {one: "read", two: "read"}
    assert seen[-1] == {one: "chosen", two: "dropped"}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param('{"ids": [' + "9" * 5000 + "]}", id="endless-number"),
        pytest.param("[" * 5000, id="endless-depth"),
        pytest.param("no json", id="no-json"),
    ],
)
def test_no_answer_of_a_model_breaks_its_page(run: Run, as_viewer: Client, arguments: str) -> None:
    call = ToolCall("c1", "get_topics_content", arguments)
    store(
        run, [RunStarted("flash", "q", {}, "1", "m", "p"), ModelReplied(1, arguments, "", (call,), 1, 1, 0.0, 0.1, "m")]
    )
    assert as_viewer.get(f"/runs/{run.pk}/").status_code == 200


def test_a_step_shows_the_run_as_it_was(run: Run, events: list[Event], as_viewer: Client) -> None:
    store(run, events)
    page = flat(as_viewer.get(f"/runs/{run.pk}/?step=3").content.decode())
    assert "is-chosen" not in page.split('id="lane-turns"')[0].split('id="lane-candidates"')[1]
    assert re.search(r'id="event-11"[^>]*', page)
    assert 'data-step="3"' in page


def test_a_part_of_a_replay_is_as_it_was_at_its_step(
    run: Run, events: list[Event], topics: list[Topic], as_viewer: Client
) -> None:
    store(run, events)
    address = f"/runs/{run.pk}/topics/{topics[0].pk}/"
    end = flat(as_viewer.get(address).content.decode())
    reason = next(event.selected[0].reason for event in events if isinstance(event, RunFinished))
    assert "· chosen" in end
    assert reason in end
    for step, state in ((3, ""), (7, "requested"), (8, "read")):
        assert f'href="{address}?step={step}"' in as_viewer.get(f"/runs/{run.pk}/?step={step}").content.decode()
        then = flat(as_viewer.get(f"{address}?step={step}").content.decode())
        assert f'data-state="{state}"' in then
        assert "· chosen" not in then
        assert reason not in then


def test_what_a_fallback_leaves_was_put_aside_by_nobody(run: Run, events: list[Event], topics: list[Topic]) -> None:
    """A rerank that is out of time uses the first that the model asked for; it judged none of them."""
    one, two = (f"Topic:{topic.pk}" for topic in topics)
    *before, ended = events
    assert isinstance(ended, RunFinished)
    folded: dict[str, str] = {}
    for event in (*before, replace(ended, fallback="timeout", dropped=(two,))):
        folded |= event.marks()
    assert folded == {one: "instead", two: "read"}


def test_the_run_page_never_trusts_what_people_wrote(run: Run, events: list[Event], as_viewer: Client) -> None:
    run.query = "<script>alert(1)</script>"
    run.save()
    store(run, events)
    page = flat(as_viewer.get(f"/runs/{run.pk}/").content.decode())
    assert "<script>alert" not in page
    topic = next(event for event in events if isinstance(event, RunFinished)).selected[0].id.removeprefix("Topic:")
    peek = as_viewer.get(f"/runs/{run.pk}/topics/{topic}/", headers={"HX-Request": "true"}).content.decode()
    assert "<b>OOM" not in peek
    assert 'class="is-exact"' in peek


@pytest.mark.slow
def test_a_topic_that_was_ranked_below_is_counted_and_can_be_looked_at(
    run: Run, events: list[Event], as_viewer: Client
) -> None:
    place, found = found_in(events)
    first, second = found.candidates
    unshown = replace(second, cosine=0.25, shown=False, line="", terms={"oom": 2.0})
    events[place] = replace(found, candidates=(first, unshown))
    store(run, events)
    page = flat(as_viewer.get(f"/runs/{run.pk}/").content.decode())
    assert "+1 ranked below" in page
    assert page.count('<li class="candidate') == 1
    peek = as_viewer.get(f"/runs/{run.pk}/topics/{second.id.removeprefix('Topic:')}/")
    assert peek.status_code == 200
    assert peek.context["candidate"].cosine == 0.25
    assert peek.context["candidate"].terms == {"oom": 2.0}
    assert "message-found" not in peek.content.decode()


def test_the_exchange_that_found_a_topic_is_marked_in_it(
    run: Run, events: list[Event], topics: list[Topic], as_viewer: Client
) -> None:
    place, found = found_in(events)
    first, second = found.candidates
    passage = Passage.objects.filter(messages__topicmessage__topic=topics[0]).distinct().get()
    events[place] = replace(found, candidates=(replace(first, passage_id=passage.pk), second))
    store(run, events)
    peek = as_viewer.get(f"/runs/{run.pk}/topics/{topics[0].pk}/").content.decode()
    found = list(passage.messages.in_order().values_list("pk", flat=True))
    assert peek.count("message-found") == len(found) == 2
    assert f'href="#found-{found[0]}"' in peek
    assert all(f'id="found-{message}"' in peek for message in found)
    assert "Found by the exchange" in peek


def test_a_topic_that_its_summary_found_is_not_credited_to_an_exchange(
    run: Run, events: list[Event], topics: list[Topic], as_viewer: Client
) -> None:
    place, found = found_in(events)
    first, second = found.candidates
    passage = Passage.objects.filter(messages__topicmessage__topic=topics[0]).distinct().get()
    by_summary = replace(first, passage_id=passage.pk, parts={"meaning": 3.0, "words": -0.1, "summary": 7.9})
    events[place] = replace(found, candidates=(by_summary, second))
    store(run, events)
    peek = as_viewer.get(f"/runs/{run.pk}/topics/{topics[0].pk}/").content.decode()
    assert "Found by its summary" in peek
    assert "Found by the exchange" not in peek


def test_a_run_whose_unshown_topics_were_stored_as_columns_reads_the_same(
    run: Run, events: list[Event], as_viewer: Client
) -> None:
    place, found = found_in(events)
    first, second = found.candidates
    events[place] = replace(found, candidates=(first, replace(second, shown=False, line="")))
    store(run, events)
    before = as_viewer.get(f"/runs/{run.pk}/below/").context["below"]
    store_as_columns(run)
    assert "+1 ranked below" in as_viewer.get(f"/runs/{run.pk}/").content.decode()
    assert as_viewer.get(f"/runs/{run.pk}/below/").context["below"] == before
    assert as_viewer.get(f"/runs/{run.pk}/topics/{second.id.removeprefix('Topic:')}/").status_code == 200


def test_a_topic_that_was_no_candidate_is_not_part_of_the_run(run: Run, events: list[Event], as_viewer: Client) -> None:
    store(run, events)
    assert as_viewer.get(f"/runs/{run.pk}/topics/999999/").status_code == 404


def test_a_run_of_no_events_yet_can_be_opened(run: Run, as_viewer: Client) -> None:
    page = as_viewer.get(f"/runs/{run.pk}/")
    assert page.status_code == 200
    assert "ws-connect" in page.content.decode()


def test_recall_by_hand_starts_a_run_and_leads_to_it(anna: ChatUser, as_debugger: Client) -> None:
    answer = as_debugger.post(
        f"/memory/{anna.pk}/recall/", {"query": " vllm? ", "strategy": "flash", "max_topics": "3"}
    )
    made = Run.objects.get()
    assert answer.headers["Location"] == f"/runs/{made.pk}/"
    assert (made.query, made.parameters["max_topics"], made.operator.get_username()) == ("vllm?", 3, "dora")  # type: ignore[union-attr]


def test_a_recall_by_hand_is_bounded_and_hands_over_passages(anna: ChatUser, as_debugger: Client) -> None:
    asked = {"since": "2026-03-02", "until": "2026-03-05", "channel": "Sport", "author": "Вера"}
    sent = {"query": "vllm?", "strategy": "vector", "context": "passages", **asked}
    assert as_debugger.post(f"/memory/{anna.pk}/recall/", sent).status_code == 302
    stored = Run.objects.get().parameters
    assert {name: stored[name] for name in asked} == asked
    assert stored["context"] == "passages"


def test_cuts_and_presets_of_the_filter_are_chosen_for_a_recall(anna: ChatUser, as_debugger: Client) -> None:
    serving = serving_profile()
    profile = EmbeddingProfile.objects.create(
        provider=serving.provider, model=serving.model, dimensions=serving.dimensions, threshold=0.1
    )
    filter_lab.save(profile, "Mine", Cuts(7, 0.11, 0.22, 0.33, 4), "dora")
    address = f"/memory/{anna.pk}/recall/"
    assert '<option value="Mine">Mine</option>' in as_debugger.get(address).content.decode()
    sent = {"query": "vllm?", "strategy": "filter", "preset": "Mine", "threshold": "0.25"}
    assert as_debugger.post(address, sent).status_code == 302
    stored = Run.objects.get().parameters
    assert {name: stored[name] for name in asdict(Cuts())} == asdict(Cuts(7, 0.11, 0.25, 0.33, 4))
    assert stored["context"] == "passages"
    refused = as_debugger.post(address, {**sent, "strategy": "flash"})
    assert refused.status_code == 422
    assert "The strategy “flash” has no parameter “final_top_k”" in refused.content.decode()
    linked = as_debugger.get(f"{address}?strategy=filter&threshold=0.44").content.decode()
    assert 'value="0.44"' in linked
    assert re.search(r'name="strategy" value="filter" +checked', re.sub(r"\s+", " ", linked))


def test_a_run_of_the_filter_shows_the_cosines_it_decides_by_in_its_words(
    anna: ChatUser, topics: list[Topic], as_viewer: Client
) -> None:
    one, two = (f"Topic:{topic.pk}" for topic in topics)
    run = Run.objects.create(owner=anna, query="vllm?", strategy="filter", state="finished")
    found = (
        replace(candidate(topics[0], 1), cosine=0.176, vector_rank=2),
        replace(candidate(topics[1], 2), cosine=0.25, vector_rank=1),
    )
    cut = [Filtered(stage, (), 2, 0.1) for stage in ("initial", "gap", "top_k")]
    ended = RunFinished((Selected(two, 1, "", 0.25, 1),), (), "")
    store(run, [CandidatesFound(found, 2, 0.1), cut[0], Filtered("threshold", (one,), 1, 0.18), *cut[1:], ended])
    page = flat(as_viewer.get(f"/runs/{run.pk}/").content.decode())
    rows = page.split('<ol class="candidates">')[1].split("</ol>")[0].split("<li")[1:]
    assert [row.split('<span class="num">')[1].split("<")[0] for row in rows] == ["0.250", "0.176"]
    states = [row.split('candidate-state"')[1].split(">")[1].split("<")[0] for row in rows]
    assert states == ["chosen", "below the threshold"]
    russian = flat(as_viewer.get(f"/runs/{run.pk}/", headers={"Accept-Language": "ru"}).content.decode())
    assert ">ниже порога<" in russian.split('<ol class="candidates">')[1]


def test_a_run_says_what_it_was_bounded_by(run: Run, as_viewer: Client) -> None:
    where = Where("2026-03-02", "2026-03-05", ("Sport",), ("Вера",))
    store(run, [CandidatesFound((), 0, 0.1, understood=UnderstoodQuery(where=where))])
    page = as_viewer.get(f"/runs/{run.pk}/").content.decode()
    assert "Only messages from March 2, 2026 to March 5, 2026." in page
    assert "Only messages of these chats: Sport" in page
    assert "Only messages by these authors: Вера" in page


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param({"query": "q", "strategy": "flash", "since": "soon"}, id="no-day"),
        pytest.param({"query": "q", "strategy": "flash", "since": "2026-03-02", "until": "2026-03-01"}, id="no-span"),
        pytest.param({"query": "", "strategy": "flash"}, id="empty-query"),
        pytest.param({"query": "q" * 5000, "strategy": "flash"}, id="too-long"),
        pytest.param({"query": "q", "strategy": "psychic"}, id="no-such-strategy"),
        pytest.param({"query": "q", "strategy": "flash", "max_topics": "0"}, id="out-of-range"),
    ],
)
def test_an_invalid_recall_is_explained_beside_its_field(
    anna: ChatUser, as_debugger: Client, sent: dict[str, str]
) -> None:
    answer = as_debugger.post(f"/memory/{anna.pk}/recall/", sent)
    assert answer.status_code == 422
    assert "field-error" in answer.content.decode()
    assert not Run.objects.exists()


def test_the_list_of_runs_costs_the_same_for_three_and_for_thirty(
    anna: ChatUser, as_viewer: Client, django_assert_max_num_queries: Any
) -> None:
    for wanted in (3, 30):
        Run.objects.bulk_create(Run(owner=anna, query=f"q{n}", strategy="flash") for n in range(wanted))
        # Eight of them count the values that the list can be narrowed to, one reads the saved views.
        with django_assert_max_num_queries(19):
            page = flat(as_viewer.get("/runs/").content.decode())
    assert page.count('id="run-row-') == 33


async def connected(run_id: Any, user: Any) -> tuple[WebsocketCommunicator, bool]:
    communicator = WebsocketCommunicator(RunConsumer.as_asgi(), f"/ws/runs/{run_id}/")
    communicator.scope["user"] = user
    communicator.scope["url_route"] = {"args": (), "kwargs": {"pk": run_id}}
    accepted, _ = await communicator.connect(timeout=PATIENCE)
    return communicator, accepted


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_the_socket_sends_the_run_so_far_and_closes_at_its_end(
    run: Run, events: list[Event], viewer: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a notice wakes it."""
    monkeypatch.setattr(followers, "LOOK_AGAIN", 3600.0)
    await sync_to_async(store)(run, events[:3])
    socket, _ = await connected(run.pk, viewer.user)
    assert 'id="event-3"' in await socket.receive_from(timeout=PATIENCE)
    await sync_to_async(store)(run, events[3:], after=3)
    await announce(run.pk)
    assert 'id="event-11"' in await socket.receive_from(timeout=PATIENCE)
    assert await socket.receive_output(timeout=PATIENCE) == {"type": "websocket.close", "code": 1000}
    await socket.disconnect(timeout=PATIENCE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
async def test_a_database_out_of_reach_makes_the_page_connect_anew(
    run: Run, viewer: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket, _ = await connected(run.pk, viewer.user)

    def out_of_reach(*_arguments: Any, **_named: Any) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(fragments, "frame", out_of_reach)
    await announce(run.pk)
    frame = await socket.receive_output(timeout=PATIENCE)
    while frame["type"] == "websocket.send":
        frame = await socket.receive_output(timeout=PATIENCE)
    assert frame == {"type": "websocket.close", "code": 1011}
    await socket.disconnect(timeout=PATIENCE)


# The parts of a run page: progress, the time axis, ranks, states, marked messages, and its small pages.


STARTED = RunStarted("flash", "q", {}, "", "peer", "")


@pytest.fixture
def part_events(anna: ChatUser) -> list[Event]:
    return every_event(
        *talk(anna, ("vLLM", ["It dies", "Lower it"]), ("Cake", ["Which?"])), Message.objects.in_order()[0]
    )


def found(rank: int, *, vector_rank: int = 1, shown: bool = True) -> Candidate:
    return Candidate(f"Topic:{rank}", rank, vector_rank, 0.5, 1.0, 1.0, 0.6, "", 1, 1, "", "", shown)


def chosen(id: str, rank: int, vector_rank: int) -> Selected:
    return Selected(id, rank, "", 0.6, vector_rank)


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


def test_rank_lines_lead_from_similarity_over_score_to_the_choice() -> None:
    lines = rank_lines(
        [(chosen("Topic:2", 1, 8), found(2, vector_rank=8)), (chosen("Topic:1", 2, 3), found(1, vector_rank=3))]
    )
    assert lines
    first, second = lines["lines"]
    assert (first["similarity"], first["score"], first["chosen"]) == (8, 2, 1)
    assert [a > b for a, b in zip(first["places"], second["places"], strict=True)] == [True, True, False]
    assert rank_lines([(chosen("Topic:2", 1, 8), found(2))]) is None
    assert rank_lines([(chosen("Topic:2", 1, 0), found(2)), (chosen("Topic:1", 2, 0), found(1))]) is None


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


def test_a_page_without_a_socket_gets_what_it_lacks(run: Run, part_events: list[Event], as_viewer: Client) -> None:
    store(run, part_events[:4])
    assert 'data-seq="4"' in as_viewer.get(f"/runs/{run.pk}/frame/").content.decode()
    assert as_viewer.get(f"/runs/{run.pk}/frame/?last=4").status_code == 204
    store(run, part_events[4:], after=4)
    frame = as_viewer.get(f"/runs/{run.pk}/frame/?last=4").content.decode()
    assert 'id="event-3"' not in frame
    assert 'id="event-11"' in frame


@pytest.mark.slow
def test_a_run_that_lost_an_event_is_shown_all_the_same(run: Run, part_events: list[Event], as_viewer: Client) -> None:
    store(run, part_events[:3])
    store(run, part_events[5:], after=5)
    for address in ("", "?step=4", "?step=11", "below/"):
        assert as_viewer.get(f"/runs/{run.pk}/{address}").status_code == 200


def test_a_run_is_read_as_json_once_it_has_ended(run: Run, part_events: list[Event], as_viewer: Client) -> None:
    store(run, part_events[:4])
    assert as_viewer.get(f"/runs/{run.pk}/json/").status_code == 404
    store(run, part_events[4:], after=4)
    document = json.loads(as_viewer.get(f"/runs/{run.pk}/json/").content)
    assert (document["run"], document["user"], document["query"]) == (str(run.pk), "anna", "vllm?")
    assert document["topics"][0]["reason"] == "it says so"


@pytest.mark.slow
def test_only_who_may_stop_is_offered_to(
    run: Run, part_events: list[Event], as_viewer: Client, as_debugger: Client
) -> None:
    store(run, part_events[:4])
    page = f"/runs/{run.pk}/"
    assert 'id="stop-run"' not in as_viewer.get(page).content.decode()
    assert 'id="stop-run"' in as_debugger.get(page).content.decode()
    assert '<noscript><meta http-equiv="refresh"' in as_viewer.get(page).content.decode()
    store(run, part_events[4:], after=4)
    assert 'id="stop-run"' not in as_debugger.get(page).content.decode()
    assert "http-equiv" not in as_viewer.get(page).content.decode()


def test_a_candidate_tells_which_wording_of_the_query_found_it(
    part_events: list[Event], run: Run, as_debugger: Client
) -> None:
    searched = next(event for event in part_events if isinstance(event, CandidatesFound))
    first = replace(searched.candidates[0], found_by={"rewrite": 1})
    changed = replace(searched, candidates=(first, *searched.candidates[1:]))
    store(run, [changed if event is searched else event for event in part_events])
    page = as_debugger.get(f"/runs/{run.pk}/").content.decode()
    assert page.count("candidate-wording") == 1
    assert "as rewritten #1" in page
