"""Work on many topics: done topic by topic by the worker, stopped, killed, refused by a model, and undone as one."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from memoryapp.curation import CurationError, bulk, plan_edit, put_in, swap
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.models import AgentCall, BulkTopic, BulkWork, ChatUser, PassageVector, Topic, TopicVector
from memoryapp.platform.llm import clients
from memoryapp.search import vectors
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.curation.merger_passes import Merger
from tests.support.browsing import get
from tests.support.splitting import SplittingChat

Kind, State = BulkWork.Kind, BulkTopic.State
SUMMARY = "A honey cake keeps two days; the knee rests for a week"
TEXTS = ["Which cake keeps?", "Honey", "How long?", "Two days", "My knee hurts", "Rest it", "For how long?", "A week"]


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, *((f"Talk {n}", TEXTS) for n in range(3)))


@pytest.fixture
def merger(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Merger:
    """Connects a model that writes summaries."""
    connected = Merger()
    connected.says = lambda _asked: f'{{"merged_summary": "{SUMMARY}{" and one" * (len(connected.asked) - 1)}"}}'
    settings.LLM_BASE_URL = "http://model.invalid"
    monkeypatch.setattr(clients, "open_chat", connected.open)
    return connected


def asked(owner: ChatUser, topics: list[Topic], kind: BulkWork.Kind = Kind.SUMMARISE) -> BulkWork:
    return bulk.ask(owner, [topic.pk for topic in topics], kind, "cora")


def states(work: BulkWork) -> list[str]:
    return list(work.rows.order_by("pk").values_list("state", flat=True))


def summaries(owner: ChatUser) -> list[str]:
    return sorted(Topic.objects.of(owner).live().values_list("summary", flat=True))


def rested(work: BulkWork) -> None:
    BulkWork.objects.filter(pk=work.pk).update(rests_until=None)


def test_summaries_are_written_again_and_one_undo_brings_the_old_ones_back(
    anna: ChatUser, topics: list[Topic], merger: Merger
) -> None:
    work = asked(anna, topics)
    tasks.carry_on_bulk()
    work.refresh_from_db()
    assert (work.state, states(work)) == (BulkWork.State.DONE, [State.DONE] * 3)
    assert summaries(anna) == [SUMMARY + " and one" * n for n in range(3)]
    assert AgentCall.objects.filter(asked_by="cora").count() == 3
    assert bulk.undo(work, actor="cora") == (3, 0)
    assert summaries(anna) == ["Talk 0", "Talk 1", "Talk 2"]


def test_what_people_made_and_what_is_gone_is_left_as_it_is(
    anna: ChatUser, topics: list[Topic], merger: Merger
) -> None:
    edit = swap(anna, plan_edit(anna, topics[0].pk, "By hand"), kind="edit", actor="dora")
    work = asked(anna, [*put_in(edit), *topics[1:]])
    swap(anna, plan_edit(anna, topics[1].pk, "Meanwhile"), kind="edit", actor="dora")
    tasks.carry_on_bulk()
    assert sorted(states(work)) == [State.DONE, State.UNCHANGED, State.UNCHANGED]
    assert summaries(anna) == [SUMMARY, "By hand", "Meanwhile"]
    assert len(merger.asked) == 1, "no model is asked about what stays"


def test_a_model_that_fails_is_asked_again_after_a_rest_and_then_only_that_topic_fails(
    anna: ChatUser, topics: list[Topic], merger: Merger
) -> None:
    work, answer = asked(anna, topics), merger.says
    merger.says = LLMError("The endpoint is away.")
    tasks.carry_on_bulk()
    tasks.carry_on_bulk()
    assert len(merger.asked) == 1, "it rests"
    assert summaries(anna) == ["Talk 0", "Talk 1", "Talk 2"]
    for _try in range(bulk.MOST_TRIES - 2):
        rested(work)
        tasks.carry_on_bulk()
    merger.before = lambda: setattr(merger, "says", LLMError("Away.") if len(merger.asked) <= 3 else answer)
    rested(work)
    tasks.carry_on_bulk()
    assert states(work) == [State.FAILED, State.DONE, State.DONE]
    assert "Away." in work.rows.get(state=State.FAILED).fault
    work.refresh_from_db()
    assert work.state == BulkWork.State.DONE


def test_a_killed_process_leaves_nothing_half_done_and_the_next_goes_on(
    anna: ChatUser, topics: list[Topic], merger: Merger, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = asked(anna, topics)
    make = bulk.curation.make

    def killed(*args: Any, **kwargs: Any) -> None:
        make(*args, **kwargs)
        raise SystemExit

    with monkeypatch.context() as dying:
        dying.setattr(bulk.curation, "make", killed)
        with pytest.raises(SystemExit):
            bulk.carry_on(work)
    assert states(work) == [State.WAITING] * 3
    assert summaries(anna) == ["Talk 0", "Talk 1", "Talk 2"]
    assert bulk.carry_on(work) == 3
    assert summaries(anna) == [SUMMARY + " and one" * n for n in range(1, 4)]


def test_a_stopped_work_begins_nothing_more(anna: ChatUser, topics: list[Topic], merger: Merger) -> None:
    work = asked(anna, topics)
    merger.before = lambda: bulk.stop(work) and None
    tasks.carry_on_bulk()
    assert states(work) == [State.DONE, State.WAITING, State.WAITING], "the one that was begun is kept"
    tasks.carry_on_bulk()
    assert len(merger.asked) == 1
    assert bulk.undo(work, actor="cora") == (1, 0)


def test_topics_are_split_again(
    anna: ChatUser, topics: list[Topic], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LLM_BASE_URL = "http://model.invalid"
    monkeypatch.setattr(clients, "open_chat", SplittingChat().open)
    work = asked(anna, topics[:2], Kind.SPLIT)
    tasks.carry_on_bulk()
    assert states(work) == [State.DONE] * 2
    assert Topic.objects.of(anna).live().count() == 5
    assert bulk.undo(work, actor="cora") == (2, 0)
    assert Topic.objects.of(anna).live().count() == 3


def test_without_a_chat_model_the_segmenter_splits_and_the_rest_is_refused(anna: ChatUser, topics: list[Topic]) -> None:
    work = asked(anna, topics[:1], Kind.SPLIT)
    tasks.carry_on_bulk()
    assert states(work)[0] in (State.DONE, State.UNCHANGED)
    for kind in (Kind.SUMMARISE, Kind.EXTRACT):
        with pytest.raises(CurationError, match="No chat model"):
            asked(anna, topics[1:], kind)


def test_an_answer_that_cannot_be_used_replaces_no_summary(anna: ChatUser, topics: list[Topic], merger: Merger) -> None:
    merger.says = '{"merged_summary": ""}'
    work = asked(anna, topics[:1])
    for _try in range(bulk.MOST_TRIES):
        rested(work)
        tasks.carry_on_bulk()
    assert states(work) == [State.FAILED]
    assert summaries(anna) == ["Talk 0", "Talk 1", "Talk 2"]


def test_vectors_and_facts_are_handed_to_the_sweeps_that_make_them(
    anna: ChatUser, topics: list[Topic], settings: Any
) -> None:
    async_to_sync(vectors.embed_pending)(clients.offline_embedder())
    Topic.objects.update(facts_extracted=True)
    before = PassageVector.objects.count()
    asked(anna, topics[:1], Kind.EMBED)
    settings.LLM_BASE_URL = "http://model.invalid"
    asked(anna, topics[1:2], Kind.EXTRACT)
    tasks.carry_on_bulk()
    assert TopicVector.objects.filter(topic=topics[0]).count() == 0
    assert PassageVector.objects.count() < before
    assert list(Topic.objects.filter(facts_extracted=False)) == [topics[1]]
    async_to_sync(vectors.embed_pending)(clients.offline_embedder())
    assert PassageVector.objects.count() == before
    assert TopicVector.objects.filter(topic=topics[0]).count() == 1


def test_the_pages_forecast_begin_show_stop_and_undo(
    anna: ChatUser, topics: list[Topic], merger: Merger, as_curator: Client, as_viewer: Client
) -> None:
    address = f"/memory/{anna.pk}/bulk/"
    picked = f"{address}?topics={topics[0].pk}&topics={topics[1].pk}"
    page = get(as_curator, picked)
    assert "2 topics are chosen" in page
    assert page.count("2 questions to the chat model") == 3
    assert as_viewer.get(address).status_code == 403
    assert as_viewer.post(address, {"kind": "summarise", "topics": [topics[0].pk]}).status_code == 403
    for sent, sentence in (
        ({"kind": "summarise"}, "Choose at least one live topic."),
        ({"kind": "burn", "topics": [topics[0].pk]}, "Say what is to be done"),
    ):
        as_curator.post(address, sent)
        assert sentence in get(as_curator, address)
    assert not BulkWork.objects.exists()
    shown = as_curator.post(address, {"kind": "summarise", "topics": f"{topics[0].pk},{topics[1].pk}"})["Location"]
    assert 'hx-trigger="every 2s"' in get(as_curator, shown)
    assert as_viewer.post(shown, {"stop": "1"}).status_code == 403
    tasks.carry_on_bulk()
    page = get(as_curator, shown)
    assert "2 of 2 topics" in page
    assert "every 2s" not in page
    as_curator.post(shown, {"undo": "1"})
    assert "2 changes were undone." in get(as_curator, shown)
    assert summaries(anna) == ["Talk 0", "Talk 1", "Talk 2"]
    listed = get(as_curator, f"/memory/{anna.pk}/topics/?q=Talk&script=latin")
    assert f'href="{address}?q=Talk&amp;script=latin&amp;all=1"' in listed
    assert "1 topic is chosen" in get(as_curator, f"{address}?all=1&q=Talk+2")


def test_all_that_match_are_worked_on_and_no_other_than_those_that_were_shown(
    anna: ChatUser, as_curator: Client
) -> None:
    talk(anna, *((f"Talk {n}", ["Which cake keeps?"]) for n in range(520)), ("Knee", ["My knee hurts"]))
    address = f"/memory/{anna.pk}/bulk/?all=1&q=Talk"
    page = get(as_curator, address)
    assert "520 topics are chosen" in page
    assert 'name="seen" value="520"' in page
    refused = as_curator.post(address, {"kind": Kind.EMBED, "seen": "519"}, follow=True)
    assert "The list has changed meanwhile: it has 520 topics now." in refused.content.decode()
    assert not as_curator.post(address, {"kind": Kind.EMBED}).url.endswith("/1/")
    assert not BulkWork.objects.exists()
    begun = as_curator.post(address, {"kind": Kind.EMBED, "seen": "520"})
    work = BulkWork.objects.get()
    assert work.rows.count() == 520
    assert not work.rows.filter(topic__summary="Knee").exists()
    waiting = get(as_curator, begun.url)
    assert "Waiting for the worker" in waiting
    bulk.carry_on(work, until=iter([False, True]).__next__)
    assert "Waiting for the worker" not in get(as_curator, begun.url)


def test_a_stopped_work_goes_on_where_it_was_and_pays_for_nothing_twice(
    anna: ChatUser, topics: list[Topic], merger: Merger, as_curator: Client
) -> None:
    work = asked(anna, topics)
    merger.before = lambda: bulk.stop(work) and None
    tasks.carry_on_bulk()
    merger.before = lambda: None
    shown = f"/memory/{anna.pk}/bulk/{work.pk}/"
    assert 'name="go_on"' in get(as_curator, shown)
    as_curator.post(shown, {"go_on": "1"})
    tasks.carry_on_bulk()
    assert states(work) == [State.DONE] * 3
    assert len(merger.asked) == 3
    page = get(as_curator, shown)
    assert 'name="go_on"' not in page
    assert "3 of 3 topics" in page
    as_curator.post(shown, {"undo": "1"})
    as_curator.post(shown, {"go_on": "1"})
    work.refresh_from_db()
    assert work.state == BulkWork.State.UNDONE
