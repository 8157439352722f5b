"""Probabilities of topics that were read, and how many of them are kept."""

import numpy as np
import pytest

from memoryapp.engine.offline.choosing import choose
from memoryapp.engine.offline.judging import Judged, JudgedTopic, holds, judge, kind_asked_for, leads
from tests.examples import table

KNEE = JudgedTopic("Topic:1", 0.8, ("Anna", ""), ("My knee hurts after the run", "The meniscus may be torn"))
TAX = JudgedTopic("Topic:2", 0.5, ("Anna", ""), ("When is the tax return due?", "On April 30"))


def ids(judged: list[Judged]) -> list[str]:
    return [found.topic.id for found in judged]


def test_the_topic_whose_words_answer_comes_first() -> None:
    best, other = judge("tax return", [JudgedTopic("Topic:1", 0.55, KNEE.authors, KNEE.texts), TAX])
    assert best.topic == TAX
    assert best.chance > other.chance
    assert set(best.shared) == {"tax", "return"}
    assert best.telling == (0,)


def test_a_much_better_score_outweighs_a_shared_word() -> None:
    run = JudgedTopic("Topic:3", 0.3, ("Anna",), ("I run a shop",))
    assert ids(judge("run", [run, KNEE]))[0] == "Topic:1"


def test_a_clear_winner_is_chosen_alone() -> None:
    rest = [JudgedTopic(f"Topic:{n}", 0.3, ("Anna",), ("We talked about the weather",)) for n in range(3, 9)]
    assert ids(choose(judge("knee meniscus torn", [KNEE, *rest]))) == ["Topic:1"]


def test_two_topics_that_say_the_same_are_both_chosen() -> None:
    again = JudgedTopic("Topic:5", 0.8, KNEE.authors, KNEE.texts)
    assert set(ids(choose(judge("knee meniscus torn", [KNEE, again])))) == {"Topic:1", "Topic:5"}


@pytest.mark.parametrize("score", [0.2, 0.4])
def test_nothing_is_chosen_when_no_word_is_shared_and_no_score_is_high(score: float) -> None:
    assert choose(judge("nginx reverse proxy", [JudgedTopic("Topic:1", score, KNEE.authors, KNEE.texts)])) == []


def test_meaning_alone_is_enough_when_it_is_near() -> None:
    assert ids(choose(judge("повреждённый сустав", [KNEE]))) == ["Topic:1"]


def test_an_accidental_word_of_a_long_question_is_not_enough() -> None:
    asked = "How do I prune old apple trees in spring before the first run of sap"
    assert choose(judge(asked, [JudgedTopic("Topic:1", 0.45, KNEE.authors, KNEE.texts)])) == []


def test_a_name_that_stands_in_every_head_is_no_evidence() -> None:
    boris = JudgedTopic("Topic:7", 0.5, ("Anna",), ("Anna here, Anna speaking",))
    assert judge("When is Anna's tax return due", [boris, TAX])[0].topic == TAX


def test_a_topic_in_another_script_does_not_lose_for_want_of_shared_words() -> None:
    russian = JudgedTopic("Topic:8", 0.6, ("Анна",), ("Болит колено после пробежки",))
    english = JudgedTopic("Topic:9", 0.6, ("Anna",), ("The weather is fine",))
    near = {found.topic.id: found.chance for found in judge("knee", [KNEE, russian, english])}
    assert near["Topic:8"] > near["Topic:9"]


def test_topics_that_were_not_read_are_judged_by_their_score() -> None:
    assert ids(judge("knee", [JudgedTopic("Topic:1", 0.4), JudgedTopic("Topic:2", 0.9)])) == ["Topic:2", "Topic:1"]


@pytest.mark.parametrize("query", ["", "и", "???"])
def test_a_query_without_words_is_judged_by_the_score(query: str) -> None:
    assert ids(judge(query, [TAX, KNEE])) == ["Topic:1", "Topic:2"]


def test_no_topics_are_no_choice() -> None:
    assert choose(judge("knee", [])) == []


def test_the_best_leads_the_second_and_the_others_trail_the_best() -> None:
    assert leads(np.array([1.0, 5.0, 4.0])).tolist() == [-4.0, 1.0, -1.0]
    assert leads(np.array([1.0])).tolist() == [0.0]


# The kind of thing that a question asks for, and which sentences contain such a thing.


@pytest.mark.parametrize(("question", "kind"), table("kinds_asked_for"))
def test_a_question_asks_for_one_kind_of_thing(question: str, kind: str) -> None:
    assert kind_asked_for(question) == kind


@pytest.mark.parametrize(("question", "telling", "silent"), table("telling_sentences"))
def test_a_sentence_holds_what_the_question_does_not_name(question: str, telling: str, silent: str) -> None:
    kind = kind_asked_for(question)
    assert [holds(kind, sentence, question) for sentence in (telling, silent)] == [True, False]
