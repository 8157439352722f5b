"""The plain vector order as a strategy, with ports that answer without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from memoryapp.engine.budget import Deadline
from memoryapp.engine.events import CandidatesFound, Event, QueryEnriched, RunFinished
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.memory import Background
from memoryapp.engine.notes import Note
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.strategies import vector
from memoryapp.engine.strategies.strategy import Found, Ports, PreparedSearch, SearchTimeout, StrategyRequest
from tests.engine.scripted import ScriptedChat, candidate, emitted

REQUEST = StrategyRequest(
    "what was it?", vector.VectorParameters(), date(2026, 3, 1), Background("", (), (), ()), built_in()
)
BASELINE = tuple(f"Topic:{number}" for number in range(9, 0, -1))
UNREACHABLE = (Note("embedding_failed", {"words": "out of reach"}),)


def ports(*, notes: tuple[Note, ...] = (), is_late: bool = False) -> Ports:
    """Returns ports of which only the search answers: seven candidates, and nine topics in plain vector order."""

    async def search(line: QueryEnriched) -> PreparedSearch:
        async def find(*, fusion: Fusion = fuse, passages: int = 0) -> Found:
            if is_late:
                raise SearchTimeout
            candidates = tuple(
                replace(candidate(number, number), cosine=number / 10, vector_rank=10 - number)
                for number in range(1, 8)
            )
            return Found(CandidatesFound(candidates, 7, 0.1, notes=notes), BASELINE)

        return PreparedSearch(line, find)

    async def unused(*given: Any) -> Any:
        raise AssertionError

    return Ports(ScriptedChat(), unused, search, unused, unused, unused, Deadline(10))


async def events(strategy: Any = vector.STRATEGY, request: Any = REQUEST, **given: Any) -> list[Event]:
    return await emitted(strategy.recall, request, ports(**given))


async def test_the_nearest_topics_are_chosen_and_no_model_is_asked() -> None:
    line, _found, end = await events()
    assert isinstance(line, QueryEnriched)
    assert isinstance(end, RunFinished)
    assert (line.note, end.fallback, end.baseline) == ("not_wanted", "", BASELINE)
    assert [(topic.id, topic.rank, topic.vector_rank) for topic in end.selected] == [
        (id, rank, rank) for rank, id in enumerate(BASELINE[: vector.TOPICS], start=1)
    ]
    # The nearest two are ranked too low to be candidates, and have no score; of the others it is the cosine.
    assert [topic.score for topic in end.selected] == [0.0, 0.0, 0.7, 0.6, 0.5]


@pytest.mark.parametrize("most", [1, 3, 9, 50])
async def test_as_many_are_chosen_as_the_caller_asks_for(most: int) -> None:
    *_, end = await events(request=replace(REQUEST, parameters=vector.VectorParameters(max_topics=most)))
    assert isinstance(end, RunFinished)
    assert [topic.id for topic in end.selected] == list(BASELINE[:most])


async def test_without_a_vector_the_words_decide_and_the_run_says_why() -> None:
    *_, end = await events(notes=UNREACHABLE)
    assert isinstance(end, RunFinished)
    assert (end.fallback, end.notes) == ("no_vectors", UNREACHABLE)
    assert {topic.vector_rank for topic in end.selected} == {0}


@pytest.mark.parametrize("notes", [(), UNREACHABLE])
async def test_it_stands_in_for_a_model_that_is_switched_off(notes: tuple[Note, ...]) -> None:
    line, _found, end = await events(vector.WITHOUT_MODEL, notes=notes)
    assert isinstance(line, QueryEnriched)
    assert isinstance(end, RunFinished)
    assert (line.note, end.fallback, len(end.selected)) == ("disabled", "disabled", vector.TOPICS)


async def test_a_search_that_comes_late_is_left_to_the_run() -> None:
    with pytest.raises(SearchTimeout):
        await events(is_late=True)
