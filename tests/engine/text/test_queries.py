"""Which words of a question its vector is made of, and which words are one term."""

from __future__ import annotations

import pytest

from memoryapp.engine.text.lexical import base, bases, other_forms, stems
from memoryapp.engine.text.terms import asks_to_make, matter_of


def test_names_of_who_speaks_and_words_that_only_ask_are_no_matter() -> None:
    matter = matter_of("What did Caroline's friend paint, Caroline?", ["Caroline", "Melanie"])
    assert matter.names == ("Caroline",)
    assert matter.texts == ("What did friend paint, ?", "friend paint")


def test_a_russian_name_goes_in_every_case() -> None:
    matter = matter_of("Какой торт Даша испекла Анне?", ["Анна", "Даша"])
    assert matter.names == ("Даша", "Анне")
    assert matter.texts[-1] == "торт испекла"


def test_a_name_is_no_other_word() -> None:
    assert matter_of("Where do we meet, and which mark will you get?", ["Mark"]).names == ("mark",)
    assert matter_of("Is the cost high?", ["Al", "Co"]).names == ()


@pytest.mark.parametrize("question", ["Anna?", "what is it", "", "???"])
def test_a_question_without_any_matter_is_encoded_as_far_as_it_goes(question: str) -> None:
    texts = matter_of(question, ["Anna"]).texts
    assert texts
    assert question in texts or "Anna" not in " ".join(texts)


def test_all_forms_of_an_irregular_word_are_one_term() -> None:
    went, gone, goes = (stems(word)[0] for word in ("went", "gone", "goes"))
    assert bases([went, gone, goes]) == ["go", "go", "go"]
    assert base(stems("children")[0]) == base(stems("child")[0])
    assert base(stems("knee")[0]) == "knee"


def test_a_question_brings_the_other_forms_of_its_irregular_words() -> None:
    assert other_forms("Who went to buy knives?") == {
        "went": ("go", "goes", "gone"),
        "buy": ("bought",),
        "knives": ("knife",),
    }
    assert other_forms("Кто пошёл?") == {}


@pytest.mark.parametrize("question", ["Please write a letter to the bank", "Can you draft a plan?", "Составь план"])
def test_who_wants_something_made_is_understood(question: str) -> None:
    assert asks_to_make(question)


@pytest.mark.parametrize("question", ["What did I write to the bank?", "Who made the plan?", "Что я написала в плане?"])
def test_who_asks_about_something_wants_nothing_made(question: str) -> None:
    assert not asks_to_make(question)
