"""What counts as a run's citations, and what counts as a refusal."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.outline import Outline
from memoryapp.insight.evaluation.scores import cited
from memoryapp.models import ChatUser, Message, Run, RunEvent, Topic
from tests.conftest import talk


@pytest.fixture
def cake(anna: ChatUser) -> Topic:
    return talk(anna, ("Cake", ["Which plum cake?", "The one of Dasha", "And the wine?", "A dry one"]))[0]


@pytest.fixture
def numbers(cake: Topic) -> list[int]:
    return list(Message.objects.filter(topic=cake).in_order().values_list("pk", flat=True))


@pytest.fixture
def run(anna: ChatUser) -> Run:
    return Run.objects.create(owner=anna, strategy="flash", query="the wine")


def ended(*selected: Selected, **fields: Any) -> Outline:
    return Outline(finished=RunFinished(selected, (), **{"fallback": "", **fields}))


def test_a_topic_without_an_excerpt_is_cited_by_its_best_exchange(run: Run, cake: Topic, numbers: list[int]) -> None:
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1)))
    assert found.places == (frozenset(numbers[2:]),)
    assert not found.refused


def test_an_excerpt_is_what_is_cited_and_what_stands_nowhere_is_not(run: Run, cake: Topic, numbers: list[int]) -> None:
    excerpt = (Piece("Dasha", "exact", numbers[1], 11, 16), Piece("rum", "absent"))
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1, excerpt)))
    assert found.places == (frozenset(numbers[:2]),)
    assert found.messages == frozenset(numbers[:2])


@pytest.mark.parametrize(
    ("outline", "refused"),
    [
        pytest.param(ended(), True, id="nothing-chosen"),
        pytest.param(ended(fallback="llm_error"), False, id="nothing-because-it-failed"),
        pytest.param(ended(people=(Selected("Person:1", 1, "", 0.5, 1),)), False, id="a-person-chosen"),
        pytest.param(Outline(), False, id="never-ended"),
    ],
)
def test_a_refusal_is_an_end_with_nothing_chosen(run: Run, outline: Outline, refused: bool) -> None:
    assert cited(run, outline).refused is refused
    assert cited(run, outline).places == ()


@pytest.mark.parametrize(("outcome", "refused"), [("answered", False), ("softened", False), ("refused", True)])
def test_a_run_that_answers_in_words_cites_and_refuses_by_its_answer(
    run: Run, cake: Topic, numbers: list[int], outcome: str, refused: bool
) -> None:
    citation = {"n": 1, "topic": f"Topic:{cake.pk}", "message": numbers[3], "quote": "dry"}
    payload = {"text": "Dry [1].", "citations": [] if refused else [citation], "outcome": outcome}
    RunEvent.objects.create(owner=run.owner, run=run, seq=1, kind="answered", at=datetime.now(UTC), payload=payload)
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1)))
    assert found.refused is refused
    assert found.messages == (frozenset() if refused else frozenset(numbers[3:]))


def test_each_passage_is_one_citation_and_no_answer(run: Run, cake: Topic, numbers: list[int]) -> None:
    """Without a chat model."""
    passages = [numbers[:2], numbers[3:]]
    cites = [
        {"n": n, "topic": f"Topic:{cake.pk}", "message": passage[0], "quote": "Dry", "passage": passage}
        for n, passage in enumerate(passages, start=1)
    ]
    payload = {"text": "", "citations": cites, "outcome": "passages"}
    RunEvent.objects.create(owner=run.owner, run=run, seq=1, kind="answered", at=datetime.now(UTC), payload=payload)
    found = cited(run, ended(Selected(f"Topic:{cake.pk}", 1, "", 0.5, 1)))
    assert found.places == tuple(map(frozenset, passages))
    assert (found.refused, found.passages) == (False, True)
