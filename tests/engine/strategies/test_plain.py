"""The plain path: one search and one question to the model, or the passages, none of which is called an answer."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from memoryapp.engine.budget import Deadline
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.context import SelectedTopics
from memoryapp.engine.emit import unheard
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelProgress,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    Selected,
    ToolCall,
    TurnStarted,
)
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.memory import ANYWHERE, Background, MessageContent, TopicContent, Where
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.strategies import react
from memoryapp.engine.strategies.react import plain
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.plain import PlainParameters
from memoryapp.engine.strategies.react.searching import Document, Pool
from memoryapp.engine.strategies.react.toolbox import ComposeInput
from memoryapp.engine.strategies.strategy import (
    AnyStrategy,
    Found,
    FoundPassage,
    Ports,
    PreparedSearch,
    StrategyRequest,
)
from tests.engine.scripted import (
    ScriptedChat,
    Step,
    calls,
    candidate,
    emitted,
    fails,
    limited,
    message,
    says,
    slow,
    topic,
)

CAKE = topic(
    1,
    message(10, "Which cake did Dasha bake for the birthday of Masha?", author="Anna"),
    message(11, "Dasha baked a honey cake with walnuts for the birthday.", author="Dasha"),
)
KNEE = topic(2, message(20, "My meniscus hurts after the run.", author="Anna"), message(21, "Rest and ice."))
CAKE_SAID = "Dasha baked a honey cake with walnuts [1]."
QUESTION = "Which cake did Dasha bake for the birthday?"


def passage(rank: int, of: TopicContent, fused: float) -> FoundPassage:
    text = "\n".join(each.text for each in of.messages)
    messages = tuple(each.id for each in of.messages)
    return FoundPassage(of.id, rank, 0.5, 1.0, fused, 0.9 - rank / 10, text, messages, (of.id,))


def ports(*found: FoundPassage, writer: ScriptedChat | None = None, seconds: float = 10.0) -> Ports:
    """A memory of two topics, of which search finds these passages."""
    topics = {each.id: each for each in (CAKE, KNEE)}
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

    async def unused(*given: Any) -> Any:
        raise AssertionError

    return Ports(ScriptedChat(), unused, search, read_topics, read_messages, unused, Deadline(seconds), writer)


async def events(question: str, *found: FoundPassage, **given: Any) -> list[Event]:
    background = Background("", (), (), ())
    request = StrategyRequest(question, PlainParameters(**given), date(2026, 3, 1), background, built_in())
    return await emitted(plain.STRATEGY.recall, request, ports(*found))


async def with_model(*steps: Step, seconds: float = 10.0, **given: Any) -> tuple[ScriptedChat, list[Event]]:
    """Returns the model after the question was asked, and the events of the run."""
    chat = ScriptedChat(*steps)
    request = StrategyRequest(
        QUESTION, PlainParameters(**given), date(2026, 3, 1), Background("", (), (), ()), built_in()
    )
    of = ports(passage(1, CAKE, 18.0), passage(2, KNEE, 15.0), writer=chat, seconds=seconds)
    events = await emitted(plain.STRATEGY.recall, request, of)
    return chat, [event for event in events if not isinstance(event, ModelProgress)]


async def answered(question: str, *found: FoundPassage, **given: Any) -> tuple[Answered, RunFinished]:
    *_, answer, end = await events(question, *found, **given)
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    return answer, end


async def test_the_nearest_passages_come_first_and_no_model_is_asked() -> None:
    line, found, answer, end = await events(QUESTION, passage(1, CAKE, 18.0), passage(2, KNEE, 15.0))
    assert isinstance(line, QueryEnriched)
    assert isinstance(found, CandidatesFound)
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    assert (line.note, answer.outcome, answer.text, answer.support) == ("not_wanted", "passages", "", None)
    assert [(each.n, each.topic, each.message) for each in answer.citations] == [(1, "Topic:1", 11), (2, "Topic:2", 20)]
    assert answer.citations[0].quote == CAKE.messages[1].text
    assert [each.passage for each in answer.citations] == [(10, 11), (20, 21)]
    assert [chosen.id for chosen in end.selected] == ["Topic:1", "Topic:2"]
    assert [note.code for note in answer.notes] == ["no_model"]


async def test_a_connected_model_is_asked_once_without_tools() -> None:
    chat, events = await with_model(says("Dasha baked a honey cake with walnuts [1]. She flew to the moon [2]."))
    *_, turn, reply, answer, end = events
    assert isinstance(turn, TurnStarted)
    assert isinstance(reply, ModelReplied)
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    assert [(request.tools, request.tools_off) for request in chat.requests] == [((), ())]
    assert (answer.by, answer.judged, answer.text) == ("model", False, "Dasha baked a honey cake with walnuts [1].")
    assert answer.unsupported == ("She flew to the moon.",)
    assert [(each.topic, each.message) for each in answer.citations] == [("Topic:1", 11)]
    assert [chosen.id for chosen in end.selected] == ["Topic:1"]


async def test_an_answer_that_ran_into_its_limit_is_cut_in_both_events_and_says_so() -> None:
    for step, cut in (
        (limited("Dasha baked a honey cake with walnuts [1]. For the birthd"), True),
        (says(CAKE_SAID), False),
    ):
        _chat, [*_, answer, end] = await with_model(step)
        assert isinstance(answer, Answered)
        assert isinstance(end, RunFinished)
        assert (answer.cut, end.cut, "reply_at_limit" in [note.code for note in answer.notes]) == (cut, cut, cut)


async def test_a_model_that_finds_nothing_is_believed() -> None:
    _chat, [*_, answer, end] = await with_model(says("NOT_IN_MEMORY"))
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    assert (answer.outcome, answer.citations, end.selected) == ("refused", (), ())


@pytest.mark.parametrize(
    ("step", "given"),
    [
        (fails(LLMError("out of order")), {}),
        (says(""), {}),
        (calls(ToolCall("c1", "search", "{}")), {}),
        (slow(says("Dasha baked a honey cake [1].")), {"seconds": 0.3}),
        (slow(says("Dasha baked a honey cake [1].")), {"turn_seconds": 0.3}),
    ],
)
async def test_a_model_that_fails_or_is_late_leaves_the_passages_and_the_next_question_is_answered(
    step: Step, given: dict[str, float]
) -> None:
    chat, [*_, answer, end] = await with_model(step, **given)
    assert isinstance(answer, Answered)
    assert isinstance(end, RunFinished)
    assert (answer.outcome, answer.text, [note.code for note in answer.notes]) == ("passages", "", ["no_answer"])
    assert ([chosen.id for chosen in end.selected], len(chat.requests)) == (["Topic:1", "Topic:2"], 1)
    _chat, [*_, answer, _end] = await with_model(says("Dasha baked a honey cake [1]."))
    assert isinstance(answer, Answered)
    assert answer.outcome == "answered"


async def test_a_model_without_passages_is_not_asked() -> None:
    chat = ScriptedChat()
    request = StrategyRequest(QUESTION, PlainParameters(), date(2026, 3, 1), Background("", (), (), ()), built_in())
    *_, answer, _end = await emitted(plain.STRATEGY.recall, request, ports(writer=chat))
    assert (chat.requests, [note.code for note in answer.notes]) == ([], ["nothing_found"])


@pytest.mark.parametrize("strategy", [plain.STRATEGY, react.STRATEGY])
def test_passages_in_the_context_are_the_cited_messages_and_their_neighbours(strategy: AnyStrategy) -> None:
    talk = tuple(message(n, f"Word number {n} of a talk about cakes.") for n in range(1, 11))
    cited = Selected("Topic:1", 1, "", 0.9, 1, (Piece(talk[4].text, "exact", 5, 0, 5),), "scorer")
    given = SelectedTopics(QUESTION, [cited], {}, {"Topic:1": talk})
    assert [each.text in strategy.context(given) for each in talk] == [True] * 10
    assert [n for n, each in enumerate(talk, 1) if each.text in strategy.passages(given)] == [4, 5, 6]


async def test_composing_again_never_covers_less() -> None:
    """Hits of other words may push the passage that speaks of the question out of the room for sources."""
    composing = Composing(QUESTION, Pool())
    composing.pool.documents = {
        of.id: Document(passage(1, of, 1.0), f"Topic:{of.id}", of.messages) for of in (CAKE, KNEE)
    }
    covering = await composing.compose(ComposeInput(ids=(CAKE.id,)), unheard)
    for ids, numbers in (((KNEE.id,), [CAKE.id]), ((KNEE.id, CAKE.id), [KNEE.id, CAKE.id])):
        again = await composing.compose(ComposeInput(ids=ids), unheard)
        assert (again.coverage_est, again.kept_earlier) == (covering.coverage_est, numbers == [CAKE.id])
        assert [each.passage.id for each in composing.sources.values()] == numbers
        assert [each.id for each in again.citations] == numbers
        assert "honey cake" in again.prompt
    third = await composing.compose(ComposeInput(ids=(KNEE.id,), beside=True), unheard)
    assert (third.coverage_est, third.citations, len(composing.sources)) == (covering.coverage_est, (), 2)


async def test_without_passages_it_says_so() -> None:
    answer, end = await answered(QUESTION)
    assert (answer.outcome, answer.citations, answer.coverage, end.selected) == ("passages", (), 0.0, ())
    assert "nothing_found" in [note.code for note in answer.notes]


async def test_each_parameter_changes_what_is_read() -> None:
    both = passage(1, CAKE, 18.0), passage(2, KNEE, 12.0)
    [_line, found, *_] = await events(QUESTION, *both, hits=1)
    assert isinstance(found, CandidatesFound)
    assert [each.id for each in found.candidates] == ["Topic:1"]
    long = replace(CAKE.messages[1], text="Dasha baked a cake. " * 300)
    whole = topic(1, CAKE.messages[0], long)
    few, _end = await answered(QUESTION, passage(1, whole, 18.0), passage(2, KNEE, 12.0), context_tokens=200)
    assert few.coverage <= (await answered(QUESTION, *both))[0].coverage
