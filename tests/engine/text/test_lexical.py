"""Folding, stems and BM25."""

from __future__ import annotations

import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import numpy as np
import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.json_values import storable
from memoryapp.engine.text.lexical import Matches, bm25, compatible, count_terms, fold, fold_query, idf, is_wide, stems


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
