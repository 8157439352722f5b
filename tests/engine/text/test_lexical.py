"""Words: folding, stems, BM25, alphabets, and which words of a question count."""

import json
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.json_values import storable
from memoryapp.engine.offline.choosing import choose
from memoryapp.engine.offline.judging import JudgedTopic, judge
from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import (
    Matches,
    base,
    bases,
    bm25,
    compatible,
    count_terms,
    fold,
    fold_query,
    idf,
    is_wide,
    normal,
    other_forms,
    stems,
    words,
)
from memoryapp.engine.text.scripts import beginning, one_spelling, terms
from memoryapp.engine.text.subjects import SHORTLIST, key_phrases
from memoryapp.engine.text.summaries import background, sentences_of
from memoryapp.engine.text.terms import asks_to_make, matter_of
from tests.examples import table


@pytest.mark.parametrize("written", ["GPT-5", "GPT 5", "gpt5", "gpt_5"])
def test_a_name_and_its_number_share_the_joined_form_however_they_are_written(written: str) -> None:
    assert "gpt5" in fold(written).split()
    assert "gpt5" in stems(written)


@pytest.mark.parametrize(
    ("one", "other"),
    [("3-НДФЛ", "3ндфл"), ("Llama 3.1", "llama3.1"), ("Wi-Fi", "wifi"), ("Ёлка", "елка"), ("ﬁle", "file")],
)
def test_two_spellings_of_one_thing_share_a_form(one: str, other: str) -> None:
    assert set(fold(one).split()) & set(fold(other).split())


@pytest.mark.parametrize("marks", ["\u0315\u0300", "\uff9e\u0315"])
def test_marks_in_no_order_take_time_by_their_number_and_no_more(marks: str) -> None:
    """Sorting all of these at once would block the interpreter for minutes, and the archive could never pass them."""
    began = time.thread_time()
    fold("a" + marks * 100_000)
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("written", ["Ёлка и ﬁle GPT‑5 ½\u3000", "e\u0301te\u0301 и\u0306 ", "한국어 "])
def test_a_long_text_is_folded_as_its_parts_are(written: str) -> None:
    assert compatible(written * 500) == unicodedata.normalize("NFKC", written * 500)


def test_the_number_in_a_hyphenated_name_is_not_negative() -> None:
    assert "-5" not in fold("GPT-5")


@pytest.mark.slow
def test_threads_that_stem_at_once_do_not_meet() -> None:
    written = ["".join(letters) + end for letters in permutations("абвгдкос", 5) for end in ("ого", "ешься")]
    alone = snowballstemmer.stemmer("russian")
    with ThreadPoolExecutor(4) as threads:
        stemmed = threads.map(lambda part: [stems(word) for word in written[part::4]], range(4))
    assert list(stemmed) == [[[alone.stemWord(word)] for word in written[part::4]] for part in range(4)]


def test_both_languages_are_stemmed_and_stop_words_left_out() -> None:
    assert stems("What are the running machines") == stems("run machine")
    assert stems("Что с машинами") == stems("машина")


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_folded_for_the_database(text: str) -> None:
    folded = fold(text)
    folded.encode("utf-8")
    assert "\x00" not in folded
    assert storable(storable(text)) == storable(text)


def test_a_query_is_folded_without_words_that_only_ask() -> None:
    assert fold_query("Какие проблемы были с моим GPT-5?").split() == ["проблемы", "gpt", "5?", "gpt5"]


def test_a_script_is_recognised_by_most_letters() -> None:
    assert is_wide("Развернули vLLM на двух узлах H100")
    assert not is_wide("The café in the Zürich office")
    assert not is_wide("")


def test_the_length_counts_words_and_not_joined_forms() -> None:
    assert count_terms("GPT-5 is here") == 4


def matches(*documents: int) -> Matches:
    return Matches(np.array(documents, dtype=np.intp), np.ones(len(documents)))


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    weighed = bm25({"common": matches(0, 1, 2), "rare": matches(3)}, np.full(5, 10.0))
    assert weighed.total[3] > weighed.total[0] > weighed.total[4] == 0


def test_a_short_document_weighs_more_than_a_long_one() -> None:
    weighed = bm25({"word": matches(0, 1)}, np.array([5.0, 50.0, 20.0]))
    assert weighed.total[0] > weighed.total[1]


def test_contributions_of_the_terms_add_up_to_the_total() -> None:
    weighed = bm25({"a": matches(0, 1), "b": matches(1), "unknown": None}, np.array([3.0, 4.0]))
    assert np.allclose(sum(weighed.terms.values()), weighed.total)
    assert "unknown" not in weighed.terms


def test_a_word_that_no_document_holds_counts_in_what_a_perfect_match_would_weigh() -> None:
    known = bm25({"a": matches(0)}, np.ones(4))
    assert bm25({"a": matches(0), "b": None}, np.ones(4)).weight == pytest.approx(known.weight + idf(4, 0))


def test_an_empty_memory_weighs_nothing() -> None:
    assert len(bm25({"a": None}, np.zeros(0)).total) == 0


# Words of many alphabets: a question and a text that say the same share terms, and other texts do not.


TALKS = table("talks_in_scripts")
ASKED = [(language, place) for language, talk in TALKS.items() for place in range(len(talk))]


@pytest.mark.parametrize(("language", "place"), ASKED)
def test_the_chooser_finds_the_one_topic_in_any_script(language: str, place: int) -> None:
    """After the report that twenty of twenty Chinese questions got an empty choice, though the topic was first."""
    topics = [
        JudgedTopic(f"Topic:{n}", 0.85 if n == place else 0.55, ("A",), (text,))
        for n, (text, _) in enumerate(TALKS[language])
    ]
    chosen = choose(judge(TALKS[language][place][1], topics, len(topics)))
    assert [found.topic.id for found in chosen] == [f"Topic:{place}"]


@pytest.mark.parametrize(("language", "place"), ASKED)
def test_the_index_and_the_embedded_scorer_know_the_same_terms(language: str, place: int) -> None:
    text, question = TALKS[language][place]
    assert set(stems(text)) <= set(fold(text).split())
    assert set(fold_query(question).split()) & set(fold(text).split())
    assert count_terms(text) >= len(stems(text))


@pytest.mark.parametrize(("one", "other"), table("spellings"))
def test_two_spellings_of_one_word_are_one_term(one: str, other: str) -> None:
    assert stems(one) == stems(other) != []
    assert set(fold(one).split()) == set(fold(other).split())


@pytest.mark.parametrize(
    ("one", "other"), [("й", "и"), ("мой", "мои"), ("ข่าว", "ขาว"), ("がき", "かき"), ("कल", "कील")]
)
def test_marks_that_make_another_letter_stay(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_a_preposition_with_the_article_is_no_part_of_an_arabic_word() -> None:
    """What light10 (Larkey, Ballesteros and Connell 2007) removes, and no letter that may begin the word itself."""
    assert stems("والكتاب بالكتاب للكتاب كالكتاب") == stems("كتاب كتاب كتاب كتاب")
    assert stems("بيت")[0] == stems("البيت")[0]


@pytest.mark.parametrize(("text", "most", "kept"), table("shortened_texts"))
def test_a_beginning_ends_with_a_whole_word_or_a_whole_character(text: str, most: int, kept: str) -> None:
    """A Chinese sentence with one space at its beginning was cut to what stands before that space."""
    assert beginning(text, most) == kept


def test_a_word_of_letters_and_vowel_signs_is_one_word() -> None:
    assert words("हिन्दी में") == ["हिन्दी", "में"]


def test_latin_words_within_chinese_stay_whole() -> None:
    assert {"维生", "生素", "d3", *stems("iPhone")} <= set(stems("维生素D3和iPhone"))


@given(st.text(st.characters(min_codepoint=0x300, max_codepoint=0xD7FF), max_size=40))
def test_any_text_has_terms_with_characters_and_can_be_folded(text: str) -> None:
    for term in terms(one_spelling(text.lower())):
        assert term
    fold(text)


def test_a_long_text_without_spaces_takes_time_by_its_length() -> None:
    began = time.thread_time()
    fold("猫对什么过敏" * 20_000)
    assert time.thread_time() - began < 5


# Which words of a question its vector is made of, and which words are one term.


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


# What frames a question changes nothing: not what is searched, and not the vector.


DEMO = Path(__file__).parents[3] / "memoryapp" / "upkeep" / "demo"
FRAMES = {
    "en": (
        "hey, can you remind me: {}",
        "{} again pls",
        "do you know {}",
        "REMIND ME {}",
        "ok so could you please tell me {}",
    ),
    "ru": ("Напомни, пожалуйста, {}", "слушай, не помнишь, {}", "{} напомни", "СКАЖИ {}", "привет! подскажи, {}"),
}


@pytest.mark.parametrize("language", FRAMES)
def test_a_framed_question_is_searched_as_the_question_itself(language: str) -> None:
    lines = (DEMO / f"golden_{language}.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    framed = [(asked, frame.format(asked)) for asked in questions for frame in FRAMES[language]]
    same = [matter_of(bare(asked), ()) == matter_of(with_frame, ()) for asked, with_frame in framed]
    assert sum(same) >= 0.95 * len(same), [pair for pair, is_same in zip(framed, same, strict=True) if not is_same]
    hasty = [matter_of(asked[:1].lower() + asked[1:].rstrip("?"), ()).texts[0] for asked in questions]
    assert hasty == [matter_of(asked, ()).texts[0] for asked in questions]


@pytest.mark.parametrize(("framed", "question"), table("framed_questions"))
def test_only_what_frames_a_question_is_taken_off(framed: str, question: str) -> None:
    assert bare(framed) == question


# The subject of a topic in key phrases: names and nouns of this talk, not of any talk.


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
