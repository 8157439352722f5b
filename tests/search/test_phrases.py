"""Phrases that a search must or should find: through every strategy, in the interface for programs, and of a plan."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from memoryapp.engine.events import CandidatesFound
from memoryapp.engine.memory import TopicDraft, Where
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.strategies.react.planning import proposed
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from tests.search.test_where import dated_record
from tests.support.answers import document_of
from tests.support.api_client import Program, token_for

TALKS = {
    "bakery": ("Dasha baked honey cakes for the fair", "with walnuts, on GPT-5's advice"),
    "honey": ("I bought honey and a cake at the fair", "separately"),
    "cake": ("a cake with cherries was at the fair", "Walnuts too"),
}


@pytest.fixture
def talks(anna: ChatUser) -> dict[str, str]:
    """The topics by their names."""
    lines = [(name, line) for name, lines in TALKS.items() for line in lines]
    add_messages(anna, [dated_record(n, f"2025-05-0{n + 1}T10:00", "Vera", line) for n, (_, line) in enumerate(lines)])
    numbers = list(Message.objects.of(anna).in_order().values_list("pk", flat=True))
    drafts = [TopicDraft(f"Of the {name}", tuple(numbers[2 * n : 2 * n + 2])) for n, name in enumerate(TALKS)]
    topics = put_topics(anna, drafts, actor="test")
    async_to_sync(embed_pending)(offline_embedder(), anna)
    return {f"Topic:{topic.pk}": name for topic, name in zip(topics, TALKS, strict=True)}


def recall(owner: ChatUser, strategy: str = "flash", query: str = "What was at the fair?", **parameters: Any) -> Any:
    """What programs get of the run."""
    run = lifecycle.start(owner, query, strategy=strategy, parameters=parameters)

    async def execute() -> None:
        async with open_clients() as clients:
            await lifecycle.execute(run.pk, clients)

    async_to_sync(execute)()
    return document_of(Run.objects.select_related("owner").get(pk=run.pk))


def candidates(answer: Any) -> tuple[CandidatesFound, list[str]]:
    events = [item.event for item in followers.stored(Run.objects.get(pk=answer["run"]).pk)]
    [found] = [event for event in events if isinstance(event, CandidatesFound)]
    return found, [each.id for each in found.candidates]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_topic_that_is_found_contains_the_phrase_whatever_its_endings(
    anna: ChatUser, talks: dict[str, str], strategy: str
) -> None:
    for phrases in (["Honey cake"], ["honey cake", "WALNUT"], "GPT-5, honey cake"):
        found, ids = candidates(recall(anna, strategy, must_phrases=phrases))
        assert [talks[id] for id in ids] == ["bakery"]
        assert found.people == found.understood.absent == ()
    found, ids = candidates(recall(anna, strategy, 'at the fair must:walnuts must:"a cake"'))
    assert {talks[id] for id in ids} == {"bakery", "cake"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_phrase_that_nothing_contains_is_named(anna: ChatUser, talks: dict[str, str], strategy: str) -> None:
    answer = recall(anna, strategy, must_phrases=["honey cake", "plum tart"])
    assert (answer["topics"], answer["people"], answer["unsure"]) == ([], [], False)
    run = Run.objects.get(pk=answer["run"])
    notes = [
        n for item in followers.stored(run.pk) for n in getattr(item.event, "notes", ()) if n.code == "phrase_absent"
    ]
    assert [note.values for note in notes[:1]] == [{"phrases": ["“plum tart”"]}]
    if not STRATEGIES[strategy].answers:
        assert "Nothing in the memory contains “plum tart”." in answer["note"]
    # Each is there, and no conversation has both.
    apart = recall(anna, strategy, must_phrases=["honey cake", "cherries"])
    assert apart["topics"] == []


@pytest.mark.django_db(transaction=True)
def test_what_contains_a_phrase_ranks_higher(anna: ChatUser, talks: dict[str, str]) -> None:
    for phrase, name in (("cherries", "cake"), ("separately", "honey"), ("honey cake", "bakery")):
        found, ids = candidates(recall(anna, should_phrases=[phrase]))
        assert len(ids) == len(TALKS)
        assert talks[ids[0]] == name
        assert [each.parts.get("phrases") for each in found.candidates][:2] == [4.0, None]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "parameters",
    [
        {"must_phrases": ["a"] * 6},
        {"must_phrases": ["x" * 101]},
        {"must_phrases": ["of the"]},
        {"should_phrases": ["?!"]},
        {"must_phrases": [["honey"]]},
        {"must_phrases": {"honey": 1}},
        {"must_phrases": 7},
        {"k_per_query": 0},
        {"k_per_query": 10_000},
    ],
)
def test_wrong_phrases_are_refused_in_a_sentence(anna: ChatUser, parameters: dict[str, Any]) -> None:
    asked = {"user": anna.name, "query": "What was at the fair?", "parameters": parameters}
    answer = Program(token_for(anna)).post("/v1/recall", asked)
    assert answer.status_code in (400, 422)
    assert not Run.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_query_brings_as_many_as_it_may(anna: ChatUser, talks: dict[str, str]) -> None:
    found, _ids = candidates(recall(anna, k_per_query=2))
    assert len(found.shown) == 2
    assert Run.objects.get().parameters["candidates"] == 2
    recall(anna, "react", k_per_query=3)
    assert Run.objects.get(strategy="react").parameters["hits"] == 3


def test_a_plan_takes_only_phrases_that_stand_in_the_question() -> None:
    plan = {
        "must_phrases": ["Honey  cakes", "honey tart", "", 7],
        "should_phrases": ["fair"] * 9,
        "k_per_query": "many",
    }
    where = proposed(json.loads(json.dumps(plan)), "Who baked the honey cake for the fair?").where
    assert where == Where(must_phrases=("Honey cakes",), should_phrases=("fair",))
    assert proposed(plan).where == Where()


def test_phrases_may_be_typed() -> None:
    read = typed('at the fair must:"honey cake" лучше:«с орехами» must:the')
    assert (read.text, read.where) == (
        "at the fair",
        Where(must_phrases=("honey cake",), should_phrases=("с орехами",)),
    )
