"""The subject of a topic in key phrases: names and nouns of this talk, not of any talk."""

import pytest

from memoryapp.engine.text.subjects import SHORTLIST, key_phrases
from memoryapp.engine.text.summaries import background, sentences_of

MEMORY = ["The weather is fine", "A face in the crowd", "Asleep by ten", "My brother runs a bakery"] * 10


def phrases(*texts: str, speaker: str = "") -> list[str]:
    known = background([*texts, *MEMORY])
    told = ((sentences_of(text), 1.0) for text in texts)
    return [each.text for each in key_phrases(told, known.rarity, lambda stem: stem == speaker)]


def test_the_subject_is_what_the_talk_comes_back_to() -> None:
    found = phrases(
        "My whole face is asleep after the gum graft.",
        "The dentist says the gum graft went well.",
        "Next gum graft on 12 March, same dentist.",
    )
    assert found[0] == "gum graft"
    assert "dentist" in found[:4]


def test_words_of_any_talk_verbs_and_numbers_are_no_subject() -> None:
    assert phrases("I really don't know what you want, thanks a lot!", "Да, конечно, спасибо, 120 тысяч") == []
    assert phrases("We brought the bicycle")[0] == "bicycle"


def test_a_name_at_the_beginning_of_a_sentence_keeps_its_capital() -> None:
    assert "Tom Becker" in phrases("Tom Becker called.", "Then Tom Becker wrote.")
    assert phrases("Bicycle repaired.", "The bicycle runs.")[0] == "bicycle"


def test_speakers_are_no_subject() -> None:
    assert not any("Anna" in each for each in phrases("So Anna bought a lamp", speaker="anna"))


@pytest.mark.parametrize("text", ["", "今天天气很好我们去公园吧", "?!", "a " * 100_000, "Слово " * 50_000])
def test_any_text_has_a_bounded_subject(text: str) -> None:
    assert len(phrases(text)) <= SHORTLIST
