"""The editor of a fork, what it sends, and the tree of forks on the page of a run."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, PromptMessage, RunStarted, TurnStarted
from memoryapp.models import ChatUser, Run, Topic
from memoryapp.runs.runner import runner
from tests.conftest import talk
from tests.curation.test_prompts import events_of
from tests.runs.stored_events import store


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]))[0]


@pytest.fixture
def parent(anna: ChatUser, topic: Topic) -> Run:
    return stored(anna, events_of(topic))


def stored(owner: ChatUser, events: list[Event], **given: Any) -> Run:
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash", state="finished", **given)
    store(run, events)
    return run


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    begun: list[Any] = []
    monkeypatch.setattr(runner, "launch", begun.append)
    return begun


def editor(run: Run, turn: int = 1) -> str:
    return f"/runs/{run.pk}/fork/?turn={turn}"


def shown(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_the_editor_says_that_another_model_chooses_where_none_is_connected(
    anna: ChatUser, topic: Topic, as_viewer: Client, settings: Any
) -> None:
    started = RunStarted("flash", "vllm?", {}, "flash-1", "recorded example", "")
    run = stored(anna, [started, *(each for each in events_of(topic) if not isinstance(each, RunStarted))])
    settings.LLM_BASE_URL = ""
    words = "“recorded example” is not asked: the embedded scorer chooses"
    assert words in shown(as_viewer.get(editor(run)))
    settings.LLM_BASE_URL = "http://models.example/v1"
    assert words not in shown(as_viewer.get(editor(run)))


def test_the_editor_shows_what_was_sent_in_the_turn_and_what_it_may_cost(
    anna: ChatUser, topic: Topic, as_viewer: Client
) -> None:
    asked = TurnStarted(1, "forced", "none", (PromptMessage("system", "Choose."),), "rerank-en-0", {"query": "x"})
    paid = ModelReplied(1, "{}", "", (), 700, 20, 0.25, 1.0, "peer")
    events = [asked if isinstance(e, TurnStarted) else e for e in events_of(topic)]
    at = next(place for place, event in enumerate(events) if isinstance(event, TurnStarted))
    events = [*events[: at + 1], paid, *(e for e in events[at + 1 :] if not isinstance(e, ModelReplied))]
    page = shown(as_viewer.get(editor(stored(anna, events))))
    assert "Choose." in page
    assert "took 1 turn, 700 → 20 tokens, $0.25" in page
    assert "<option selected>rerank-en-0</option>" in page
    assert 'name="without"' in page
    assert "disabled" in page
    start = shown(as_viewer.get(editor(stored(anna, events), 0)))
    assert 'name="query"' in start
    assert 'name="without"' not in start


def test_only_what_was_changed_is_sent_and_the_fork_begins(
    parent: Run, as_debugger: Client, launched: list[Any]
) -> None:
    page = {"turn": "1", "prompt": "rerank-en-0", "p_max_topics": "4", "p_candidates": "50", "model": "", "reply": " "}
    answer = as_debugger.post(f"/runs/{parent.pk}/fork/", page)
    fork = Run.objects.exclude(pk=parent.pk).get()
    assert answer["Location"] == f"/runs/{fork.pk}/"
    assert launched == [fork.pk]
    assert (fork.parent, fork.turn, fork.changes) == (parent, 1, {"parameters": {"max_topics": 4}})
    assert fork.operator is not None


def test_inside_the_page_of_the_run_it_is_a_part_and_leads_to_the_fork(
    parent: Run, topic: Topic, as_debugger: Client, launched: list[Any]
) -> None:
    part = shown(as_debugger.get(editor(parent), headers={"hx-request": "true"}))
    assert "<html" not in part
    assert 'name="candidates"' in part
    sent = {"turn": "1", "without": f"Topic:{topic.pk}"}
    answer = as_debugger.post(f"/runs/{parent.pk}/fork/", sent, headers={"hx-request": "true"})
    fork = Run.objects.exclude(pk=parent.pk).get()
    assert (answer.status_code, answer["HX-Redirect"]) == (204, f"/runs/{fork.pk}/")
    assert fork.changes == {"without": [f"Topic:{topic.pk}"]}


def test_a_refused_fork_is_a_sentence_beside_what_was_typed(
    parent: Run, as_debugger: Client, launched: list[Any]
) -> None:
    answer = as_debugger.post(f"/runs/{parent.pk}/fork/", {"turn": "1", "without": "Topic:999999", "p_max_topics": "7"})
    assert answer.status_code == 422
    page = shown(answer)
    assert "Topic:999999 is not among the candidates of this run." in page
    assert 'value="Topic:999999"' in page
    assert 'name="p_max_topics" value="7"' in page
    assert (launched, Run.objects.count()) == ([], 1)


def test_a_viewer_may_not_fork(parent: Run, as_viewer: Client, launched: list[Any]) -> None:
    assert as_viewer.post(f"/runs/{parent.pk}/fork/", {"turn": "1"}).status_code == 403
    assert (launched, Run.objects.count()) == ([], 1)


def test_every_run_of_a_tree_shows_the_whole_tree(anna: ChatUser, parent: Run, topic: Topic, as_viewer: Client) -> None:
    started = [replace(e, parent=str(parent.pk)) if isinstance(e, RunStarted) else e for e in events_of(topic)]
    assert "fork-tree" not in shown(as_viewer.get(f"/runs/{parent.pk}/"))
    child = stored(anna, started, parent=parent, turn=1, changes={"parameters": {"max_topics": 4}})
    grandchild = stored(anna, started, parent=child, turn=2, changes={"reply": "[]"})
    sibling = stored(anna, started, parent=parent, turn=0, changes={})
    for run in (parent, child, grandchild, sibling):
        page = shown(as_viewer.get(f"/runs/{run.pk}/"))
        tree = page[page.index("fork-tree") :]
        tree = tree[: tree.index("</details>")]
        order = [tree.index(f"/runs/{each.pk}/") for each in (parent, child, grandchild, sibling)]
        assert order == sorted(order)
        assert "turn 1 · max_topics 4" in tree
        assert "turn 2 · reply []" in tree
        assert "from the start · unchanged" in tree
        assert tree.count("aria-current") == 1


def test_each_turn_leads_to_the_editor_at_that_turn(parent: Run, as_viewer: Client) -> None:
    page = shown(as_viewer.get(f"/runs/{parent.pk}/"))
    assert f'href="{editor(parent, 1)}"' in page
    assert f'href="{editor(parent, 0)}"' in page


def test_a_run_that_never_asked_a_model_can_be_forked_from_its_candidates(
    anna: ChatUser, topic: Topic, as_debugger: Client
) -> None:
    events = [e for e in events_of(topic) if not isinstance(e, TurnStarted | ModelReplied)]
    assert any(isinstance(event, CandidatesFound) for event in events)
    page = shown(as_debugger.get(editor(stored(anna, events))))
    assert 'name="without"' in page
    assert 'name="reply"' not in page
