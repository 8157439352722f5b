"""The plain path: one search, sentences quoted from its passages, and a refusal if they are about something else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from memoryapp.engine.budget import Budget
from memoryapp.engine.events import CandidatesFound, Event, QueryEnriched, RunFinished
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.memory import ANYWHERE, Background, MessageContent, TopicContent, Where
from memoryapp.engine.prompts import BUILT_IN
from memoryapp.engine.strategies.ports import Found, FoundPassage, Ports, PreparedSearch, StrategyRequest
from memoryapp.engine.strategies.react import plain
from memoryapp.engine.strategies.react.plain import PlainParameters
from tests.engine.scripted import ScriptedChat, candidate, message, topic

CAKE = topic(
    1,
    message(10, "Which cake did Dasha bake for the birthday of Masha?", author="Anna"),
    message(11, "Dasha baked a honey cake with walnuts for the birthday.", author="Dasha"),
)
KNEE = topic(2, message(20, "My meniscus hurts after the run.", author="Anna"), message(21, "Rest and ice."))
NAMELESS = topic(
    3,
    message(30, "Какой торт испекла Даша на день рождения Маши?"),
    message(31, "Даша испекла медовый торт с орехами на день рождения.", "assistant"),
)
QUESTION = "Which cake did Dasha bake for the birthday?"


def passage(rank: int, of: TopicContent, fused: float) -> FoundPassage:
    text = "\n".join(each.text for each in of.messages)
    messages = tuple(each.id for each in of.messages)
    return FoundPassage(of.id, rank, 0.5, 1.0, fused, 0.9 - rank / 10, text, messages, (of.id,))


def ports(*found: FoundPassage) -> Ports:
    """A memory of three topics, of which search finds these passages; no model is connected."""
    topics = {each.id: each for each in (CAKE, KNEE, NAMELESS)}
    messages = {each.id: each for of in topics.values() for each in of.messages}

    async def search(line: QueryEnriched) -> PreparedSearch:
        async def find(*, fusion: Fusion = fuse, passages: int = 0, where: Where = ANYWHERE) -> Found:
            ids = dict.fromkeys(number for each in found[:passages] for number in each.topics)
            candidates = tuple(
                replace(candidate(number, rank), fused=20.0 - 4 * rank) for rank, number in enumerate(ids, start=1)
            )
            return Found(CandidatesFound(candidates, 9, 0.1), tuple(each.id for each in candidates), found[:passages])

        return PreparedSearch(line, find)

    async def read_messages(ids: Sequence[int]) -> Sequence[MessageContent]:
        return [messages[number] for number in ids if number in messages]

    async def read_topics(ids: Sequence[int]) -> Sequence[TopicContent]:
        return [topics[number] for number in ids]

    async def enrich() -> AsyncGenerator[QueryEnriched, None]:
        raise AssertionError
        yield

    async def unused(*given: Any) -> Any:
        raise AssertionError

    return Ports(ScriptedChat(), enrich, search, read_topics, read_messages, unused, Budget(10))


async def events(question: str, *found: FoundPassage, **given: Any) -> list[Event]:
    background = Background("", (), (), ())
    request = StrategyRequest(question, PlainParameters(**given), date(2026, 3, 1), background, BUILT_IN)
    return [event async for event in plain.STRATEGY.recall(request, ports(*found))]


async def answered(question: str, *found: FoundPassage, **given: Any) -> tuple[Answered, RunFinished]:
    *_, answer, end = await events(question, *found, **given)
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    return answer, end


async def test_the_answer_quotes_what_was_found_and_no_model_is_asked() -> None:
    line, found, answer, end = await events(QUESTION, passage(1, CAKE, 18.0), passage(2, KNEE, 3.0))
    assert isinstance(line, QueryEnriched)
    assert isinstance(found, CandidatesFound)
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    assert (line.note, answer.by, answer.outcome) == ("not_wanted", "extracts", "answered")
    for citation in answer.citations:
        assert citation.topic == "Topic:1"
        text = {each.id: each.text for each in CAKE.messages}[citation.message]
        assert citation.quote in text
        assert f"[{citation.n}]" in answer.text
    assert answer.citations
    assert [chosen.id for chosen in end.selected] == ["Topic:1"]
    assert [note.code for note in answer.notes] == ["extracts_only"]


async def test_a_message_without_a_name_is_quoted_with_its_role_in_the_language_of_the_question() -> None:
    answer, _end = await answered("Какой торт испекла Даша на день рождения?", passage(1, NAMELESS, 18.0))
    assert "ассистент (2025-" in answer.text


async def test_without_passages_it_refuses() -> None:
    answer, end = await answered(QUESTION)
    assert (answer.outcome, answer.citations, answer.coverage, end.selected) == ("refused", (), 0.0, ())
    assert "nothing_found" in [note.code for note in answer.notes]


async def test_what_covers_too_little_of_the_question_is_refused() -> None:
    found = passage(1, CAKE, 8.0)
    question = "Which cake did the confectioner of Reykjavik deliver to the embassy?"
    coverage = (await answered(question, found, least_coverage=0.0))[0].coverage
    assert 0 < coverage < 1
    refused, _end = await answered(question, found, least_coverage=min(coverage + 0.01, 1.0))
    assert refused.outcome == "refused"


async def test_each_parameter_changes_what_is_read() -> None:
    both = passage(1, CAKE, 18.0), passage(2, KNEE, 12.0)
    [_line, found, *_] = await events(QUESTION, *both, hits=1)
    assert isinstance(found, CandidatesFound)
    assert [each.id for each in found.candidates] == ["Topic:1"]
    long = replace(CAKE.messages[1], text="Dasha baked a cake. " * 300)
    whole = topic(1, CAKE.messages[0], long)
    few, _end = await answered(QUESTION, passage(1, whole, 18.0), passage(2, KNEE, 12.0), context_tokens=200)
    assert few.coverage <= (await answered(QUESTION, *both))[0].coverage
