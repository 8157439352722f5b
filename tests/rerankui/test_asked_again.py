"""A past run asked again: the editor of a fork, and another prompt for the enricher."""

import html
import re
from dataclasses import asdict, replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    MediaItem,
    ModelReplied,
    PromptMessage,
    QueryEnriched,
    RunFinished,
    RunStarted,
    TurnStarted,
)
from memoryapp.engine.prompt_registry import built_in
from memoryapp.models import ChatUser, Fact, Message, Prompt, QueryVector, Run, Topic
from tests.conftest import talk
from tests.curation.test_prompts import PAGE as RERANK_PAGE
from tests.curation.test_prompts import events_of as rerank_events
from tests.curation.test_prompts import launched, page_of
from tests.engine.scripted import ScriptedChat, asks, chooses, says
from tests.runs.stored_events import store
from tests.runs.test_forks import BOTH, draft, execute, memory, one, topics
from tests.support.browsing import cost
from tests.support.executing import QUERY, start

__all__ = ["memory", "topics", "launched"]

KEY = ("enrich", "en")
ENGLISH = built_in()[KEY]
PAGE = "/prompts/enrich/en/"
ASKED = {
    "query": "> vllm?",
    "messages": "> [User]: our H100",
    "profile": "> Anna, an engineer",
    "recent_topics": "(none)",
    "media": "(none)",
    "today": "2026-03-04",
}
PICTURE = MediaItem("ab" * 32, "image", "image/png", "oom.png", 4)


def typed(action: str, words: str = "Be brief.", **more: Any) -> dict[str, Any]:
    sent = {"system": f"{ENGLISH.system}\n{words}", "user": ENGLISH.user, "note": "", "base": 0, "seen": 0}
    return {**sent, "action": action, **more}


def events_of(topic: Topic, label: str = "enrich-en-0") -> list[Event]:
    """Returns the events of a run that asked both models."""
    line = QueryEnriched("vllm?", "vllm H100", "", 0.1, model="peer", prompt_version=label, variables=ASKED)
    return [line if isinstance(event, QueryEnriched) else event for event in rerank_events(topic)]


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]))[0]


def asked(owner: ChatUser, events: list[Event], **given: Any) -> Run:
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash", **given)
    store(run, events)
    return run


@pytest.fixture
def parent(anna: ChatUser, topic: Topic) -> Run:
    return asked(anna, events_of(topic), messages=[], media=[asdict(PICTURE)], evidence=[1])


def trying(run: Run, name: str = "enrich") -> str:
    return f"/runs/{run.pk}/prompt/?name={name}"


def test_the_text_of_the_run_is_filled_with_what_its_enricher_knew(parent: Run, as_viewer: Client) -> None:
    page = page_of(as_viewer.get(trying(parent)))
    assert "Exactly what the model was sent." in page
    assert "enrich-en-0" in page
    assert "> [User]: our H100" in page
    assert "$topic_candidates" not in page


def test_what_it_received_is_that_of_its_own_version(anna: ChatUser, topic: Topic, as_debugger: Client) -> None:
    Prompt.objects.create(name="enrich", language="en", version=3, system="Repeat.", user="$query", made_by="ada")
    run = asked(anna, events_of(topic, "enrich-en-3"))
    assert "Exactly what the model was sent." in page_of(as_debugger.get(trying(run)))
    page = page_of(as_debugger.post(trying(run), typed("preview", user="Today: $today\n$query")))
    assert "+</span>Today: 2026-03-04" in page
    assert "−</span>Repeat." in page


def test_without_a_name_it_is_the_rerankers_and_each_leads_to_the_other(parent: Run, as_viewer: Client) -> None:
    for address, current, other in (
        (f"/runs/{parent.pk}/prompt/", "rerank", "enrich"),
        (trying(parent), "enrich", "rerank"),
    ):
        page = page_of(as_viewer.get(address))
        assert f'<a href="?name={current}" aria-current="page">' in page
        assert f'<a href="?name={other}">' in page


@pytest.mark.slow
@pytest.mark.parametrize(("lacking", "shown"), [(TurnStarted, "enrich"), (QueryEnriched, "rerank")])
def test_a_run_with_one_prompt_shows_that_one_but_never_tries_a_text_of_the_other(
    lacking: type[Any], shown: str, anna: ChatUser, topic: Topic, as_debugger: Client, launched: list[Any]
) -> None:
    run = asked(anna, [event for event in events_of(topic) if not isinstance(event, lacking)])
    for name in ("rerank", "enrich", "poem"):
        page = page_of(as_debugger.get(trying(run, name)))
        assert f'action="/runs/{run.pk}/prompt/?name={shown}"' in page
        assert 'class="segments" aria-label="Prompts' not in page
        if name != shown:
            assert as_debugger.post(trying(run, name), typed("try")).status_code == 409
    assert launched == []
    assert not Prompt.objects.exists()


def test_trying_keeps_a_draft_and_asks_the_same_again(parent: Run, as_debugger: Client, launched: list[Any]) -> None:
    answer = as_debugger.post(trying(parent), typed("try"))
    again, prompt = Run.objects.exclude(pk=parent.pk).get(), Prompt.objects.get()
    assert answer["Location"] == f"/runs/{again.pk}/"
    assert launched == [again.pk]
    assert (prompt.name, prompt.language, prompt.in_force) == ("enrich", "en", False)
    assert (again.parent, again.prompt, again.media) == (parent, prompt, parent.media)
    assert (again.owner, again.query, again.messages, again.evidence) == (parent.owner, "vllm?", [], [1])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [("$enriched", "$enriched is not a variable of this prompt"), ("$recent_topics", "This run has no value for")],
)
def test_a_text_that_this_run_cannot_fill_is_not_tried(
    words: str, sentence: str, anna: ChatUser, topic: Topic, as_debugger: Client, launched: list[Any]
) -> None:
    known = {name: value for name, value in ASKED.items() if name != "recent_topics"}
    events = [replace(e, variables=known) if isinstance(e, QueryEnriched) else e for e in events_of(topic)]
    answer = as_debugger.post(trying(asked(anna, events)), typed("try", words, user="$query"))
    assert answer.status_code == 422
    assert sentence in page_of(answer)
    assert launched == []


@pytest.mark.slow
def test_the_prompts_page_offers_the_runs_that_used_it(parent: Run, as_debugger: Client, as_stranger: Client) -> None:
    page = page_of(as_debugger.get(PAGE))
    assert f"{trying(parent)}&version=0" in page
    assert "the same candidates" not in page
    assert f"{trying(parent, 'rerank')}&version=0" in page_of(as_debugger.get(RERANK_PAGE))
    assert trying(parent) not in page_of(as_debugger.get("/prompts/enrich/ru/"))
    assert trying(parent) not in page_of(as_stranger.get(PAGE))
    assert as_stranger.get(trying(parent)).status_code == 404


def test_a_run_from_before_labels_is_no_run_to_try_on(anna: ChatUser, topic: Topic, as_debugger: Client) -> None:
    run = asked(anna, events_of(topic))
    event = run.events.get(kind="query_enriched")
    del event.payload["prompt_version"]
    event.save()
    assert trying(run) not in page_of(as_debugger.get(PAGE))


@pytest.mark.slow
def test_the_prompts_page_costs_the_same_however_many_runs_there_are(
    parent: Run, topic: Topic, as_debugger: Client
) -> None:
    before = cost(as_debugger, PAGE)
    for _ in range(4):
        asked(parent.owner, events_of(topic))
    assert cost(as_debugger, PAGE) == before
    assert len(re.findall(r"/prompt/\?name=enrich", page_of(as_debugger.get(PAGE)))) == 5


# the pages of runs


def test_the_stage_of_the_query_leads_to_a_fork_and_that_to_another_text_for_it(
    parent: Run, as_debugger: Client
) -> None:
    for turn, name in ((0, "enrich"), (1, "rerank")):
        editor = f"/runs/{parent.pk}/fork/?turn={turn}"
        assert f'class="event-try" href="{editor}"' in page_of(as_debugger.get(f"/runs/{parent.pk}/")) or turn
        assert f'href="{trying(parent, name)}"' in page_of(as_debugger.get(editor))


def again(parent: Run, topic: Topic, line: str, name: str = "enrich") -> Run:
    prompt = Prompt.objects.create(name=name, language="en", version=1, system="-", user="$query", made_by="ada")
    events = [
        replace(event, parent=str(parent.pk))
        if isinstance(event, RunStarted)
        else replace(event, enriched=line)
        if isinstance(event, QueryEnriched)
        else event
        for event in events_of(topic)
    ]
    return asked(parent.owner, events, parent=parent, prompt=prompt)


def test_the_new_run_tells_which_one_it_tries_again_and_what_that_searched_for(
    parent: Run, topic: Topic, as_viewer: Client
) -> None:
    page = page_of(as_viewer.get(f"/runs/{again(parent, topic, 'vllm on one card').pk}/"))
    parent_line = re.search(r'<p class="run-parent.*?</p>', page, re.S)
    assert parent_line
    assert "from the start" in parent_line[0]
    assert f'href="/runs/{parent.pk}/"' in parent_line[0]
    assert "enrich-en-1" in parent_line[0]
    assert re.search(r"was:\s*<q>vllm H100</q>", page)


def test_a_run_whose_parent_is_gone_still_tells_what_it_tried(parent: Run, topic: Topic, as_viewer: Client) -> None:
    run = again(parent, topic, "vllm on one card")
    Run.objects.filter(pk=run.pk).update(parent=None)
    page = page_of(as_viewer.get(f"/runs/{run.pk}/"))
    assert "from the start" in page
    assert not re.search(r"was:\s*<q>", page)


def test_a_run_that_goes_on_is_no_run_to_try_on(anna: ChatUser, topic: Topic, as_debugger: Client) -> None:
    going_on = asked(anna, [event for event in events_of(topic) if not isinstance(event, RunFinished)])
    assert "This run cannot be tried again." in page_of(as_debugger.get(trying(going_on)))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
class TestAnEnrichersPrompt:
    async def test_only_the_line_and_what_search_makes_of_it_differ(self, memory: ChatUser, topics: list[int]) -> None:
        vllm, cake, _knee = topics
        parent = await start(memory, BOTH)
        before = await execute(parent, ScriptedChat(says("What ran out of memory?")), asks(vllm), chooses(vllm))
        await Fact.objects.acreate(
            owner=memory, relation="has", category="home", content="two cats", type="identity", importance=90,
            created_at=timezone.now(),
        )  # fmt: skip
        await Message.objects.acreate(
            owner=memory, external_id="x", role="user", text="By the way!", sent_at=timezone.now()
        )
        again = await start(memory, BOTH, parent=parent, prompt=await draft())
        enricher = ScriptedChat(says("And the cake?"))
        after = await execute(again, enricher, asks(cake), chooses(cake))
        assert [message["content"] for message in enricher.requests[0].messages][0] == "Repeat it."
        lines = [one(events, QueryEnriched) for events in (before, after)]
        assert lines[0].variables == lines[1].variables
        assert (lines[1].prompt_version, lines[1].enriched) == ("enrich-en-1", "And the cake?")
        found = [one(events, CandidatesFound).candidates[0].id for events in (before, after)]
        assert found == [f"Topic:{vllm}", f"Topic:{cake}"]
        turns = [one(events, TurnStarted) for events in (before, after)]
        assert turns[0].prompt_version == turns[1].prompt_version == one(after, RunStarted).prompt_version
        differing = {name for name in turns[0].variables if turns[0].variables[name] != turns[1].variables[name]}
        assert differing == {"enriched", "topic_candidates"}
        assert [topic.id for topic in one(after, RunFinished).selected] == [f"Topic:{cake}"]

    async def test_its_query_is_compared_by_a_vector_of_its_own(self, memory: ChatUser, topics: list[int]) -> None:
        parent = await start(memory, BOTH)
        await execute(parent, ScriptedChat(says(QUERY)), asks(topics[0]), chooses(topics[0]))
        again = await start(memory, BOTH, parent=parent, prompt=await draft())
        after = await execute(again, ScriptedChat(says("And the cake?")), asks(topics[1]), chooses(topics[1]))
        kept = {row.run_id: list(row.vector) async for row in QueryVector.objects.all()}
        assert kept[again.pk] != kept[parent.pk]
        assert one(after, RunFinished).baseline[0] == f"Topic:{topics[1]}"

    async def test_without_a_model_it_says_so_and_searches_as_typed(self, memory: ChatUser, topics: list[int]) -> None:
        parent = await start(memory)
        await execute(parent, ScriptedChat(says("the cake")), asks(topics[0]), chooses(topics[0]))
        again = await start(memory, parent=parent, prompt=await draft())
        line = one(await execute(again, None, asks(topics[0]), chooses(topics[0])), QueryEnriched)
        assert (line.enriched, line.note) == (QUERY, "no_model")

    async def test_the_prompt_that_chose_chooses_again_whatever_is_in_force_now(
        self, memory: ChatUser, topics: list[int]
    ) -> None:
        parent = await start(memory)
        await execute(parent, ScriptedChat(says(QUERY)), asks(topics[0]), chooses(topics[0]))
        text = built_in()["rerank", "en"]
        await Prompt.objects.acreate(
            name="rerank", language="en", version=4, system="Choose well.", user=text.user, made_by="ada", in_force=True
        )
        again = await start(memory, parent=parent, prompt=await draft())
        after = await execute(again, ScriptedChat(says(QUERY)), asks(topics[0]), chooses(topics[0]))
        assert one(after, TurnStarted).prompt_version == one(after, RunStarted).prompt_version == "rerank-en-0"


# The editor of a fork, what it sends, and the tree of forks on the page of a run.


@pytest.fixture
def forked(anna: ChatUser, topic: Topic) -> Run:
    return stored(anna, rerank_events(topic))


def stored(owner: ChatUser, events: list[Event], **given: Any) -> Run:
    run = Run.objects.create(owner=owner, query="vllm?", strategy="flash", state="finished", **given)
    store(run, events)
    return run


def editor(run: Run, turn: int = 1) -> str:
    return f"/runs/{run.pk}/fork/?turn={turn}"


def shown(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_the_editor_shows_what_was_sent_in_the_turn_and_what_it_may_cost(
    anna: ChatUser, topic: Topic, as_viewer: Client
) -> None:
    asked = TurnStarted(1, "forced", "none", (PromptMessage("system", "Choose."),), "rerank-en-0", {"query": "x"})
    paid = ModelReplied(1, "{}", "", (), 700, 20, 0.25, 1.0, "peer")
    events = [asked if isinstance(e, TurnStarted) else e for e in rerank_events(topic)]
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
    forked: Run, as_debugger: Client, launched: list[Any]
) -> None:
    page = {"turn": "1", "prompt": "rerank-en-0", "p_max_topics": "4", "p_candidates": "50", "model": "", "reply": " "}
    answer = as_debugger.post(f"/runs/{forked.pk}/fork/", page)
    fork = Run.objects.exclude(pk=forked.pk).get()
    assert answer["Location"] == f"/runs/{fork.pk}/"
    assert launched == [fork.pk]
    assert (fork.parent, fork.turn, fork.changes) == (forked, 1, {"parameters": {"max_topics": 4}})
    assert fork.operator is not None


def test_inside_the_page_of_the_run_it_is_a_part_and_leads_to_the_fork(
    forked: Run, topic: Topic, as_debugger: Client, launched: list[Any]
) -> None:
    part = shown(as_debugger.get(editor(forked), headers={"hx-request": "true"}))
    assert "<html" not in part
    assert 'name="candidates"' in part
    sent = {"turn": "1", "without": f"Topic:{topic.pk}"}
    answer = as_debugger.post(f"/runs/{forked.pk}/fork/", sent, headers={"hx-request": "true"})
    fork = Run.objects.exclude(pk=forked.pk).get()
    assert (answer.status_code, answer["HX-Redirect"]) == (204, f"/runs/{fork.pk}/")
    assert fork.changes == {"without": [f"Topic:{topic.pk}"]}


def test_a_refused_fork_is_a_sentence_beside_what_was_typed(
    forked: Run, as_debugger: Client, launched: list[Any]
) -> None:
    answer = as_debugger.post(f"/runs/{forked.pk}/fork/", {"turn": "1", "without": "Topic:999999", "p_max_topics": "7"})
    assert answer.status_code == 422
    page = shown(answer)
    assert "Topic:999999 is not among the candidates of this run." in page
    assert 'value="Topic:999999"' in page
    assert 'name="p_max_topics" value="7"' in page
    assert (launched, Run.objects.count()) == ([], 1)


def test_every_run_of_a_tree_shows_the_whole_tree(anna: ChatUser, forked: Run, topic: Topic, as_viewer: Client) -> None:
    started = [replace(e, parent=str(forked.pk)) if isinstance(e, RunStarted) else e for e in rerank_events(topic)]
    assert "fork-tree" not in shown(as_viewer.get(f"/runs/{forked.pk}/"))
    child = stored(anna, started, parent=forked, turn=1, changes={"parameters": {"max_topics": 4}})
    grandchild = stored(anna, started, parent=child, turn=2, changes={"reply": "[]"})
    sibling = stored(anna, started, parent=forked, turn=0, changes={})
    for run in (forked, child, grandchild, sibling):
        page = shown(as_viewer.get(f"/runs/{run.pk}/"))
        tree = page[page.index("fork-tree") :]
        tree = tree[: tree.index("</details>")]
        order = [tree.index(f"/runs/{each.pk}/") for each in (forked, child, grandchild, sibling)]
        assert order == sorted(order)
        assert "turn 1 · max_topics 4" in tree
        assert "turn 2 · reply []" in tree
        assert "from the start · unchanged" in tree
        assert tree.count("aria-current") == 1


def test_a_run_that_never_asked_a_model_can_be_forked_from_its_candidates(
    anna: ChatUser, topic: Topic, as_debugger: Client
) -> None:
    events = [e for e in rerank_events(topic) if not isinstance(e, TurnStarted | ModelReplied)]
    assert any(isinstance(event, CandidatesFound) for event in events)
    page = shown(as_debugger.get(editor(stored(anna, events))))
    assert 'name="without"' in page
    assert 'name="reply"' not in page
